"""A comparison's table for the terminal, and its recommendation in sentences.

Claims about a difference are held to the usual standard: paired 95% intervals, and p-values corrected for the number of
methods. Where the choice is uncertain, a sentence says how many more seeds or test rows would decide, if the difference
is as measured. Of students at chance level it reads off the training loss what may be wrong. The sentences are in
``comparison.txt.jinja``.

    recommendation_sentences(comparison)
    comparison_table(comparison)
"""

import math
from collections.abc import Sequence

from rich.table import Table

from understudy.comparison.candidates import TEACHER
from understudy.comparison.interval import chance, percent, signed, span
from understudy.comparison.outcome import Comparison, ComparisonRow, Outcome
from understudy.report.templates import sentences

SURE = 0.95
#: A loss that fell by less than this share has hardly moved.
HARDLY_MOVED = 0.1
#: A loss that falls by more than this share per epoch at the end would fall further.
FALLING = 0.02


def comparison_table(comparison: Comparison) -> Table:
    """For a terminal, in percent."""
    rows = comparison.rows()
    columns = {"last": "last epoch", "last_span": "95% CI"}
    if any(row.selected is not None for row in rows):
        columns["selected"] = "epoch chosen on gold"
    columns |= {"difference": f"minus {comparison.reference}", "difference_span": "95% CI"}
    chances = {} if comparison.recommendation is None else comparison.recommendation.chances
    title = f"Test {metric_unit(comparison)}, {len(comparison.seeds)} seeds"
    table = Table(title=title, title_justify="left", title_style="bold", box=None, header_style="dim")
    table.add_column("method", no_wrap=True)
    for heading in columns.values():
        table.add_column(heading, justify="right")
    if chances:
        table.add_column("P(best)", justify="right")
    for row in rows:
        texts = row_texts(row)
        best = [chance(chances.get(row.method))] if chances else []
        table.add_row(row.method, *(texts[column] for column in columns), *best)
    for method in comparison.failed:
        if method not in comparison.outcomes:
            table.add_row(method, "not run", *[""] * (len(columns) - 1))
    return table


def metric_unit(comparison: Comparison) -> str:
    return f"{comparison.metric_name} {'× −100' if comparison.metric == 'log_loss' else 'in %'}"


def row_texts(row: ComparisonRow) -> dict[str, str]:
    """A row in percent and points; empty where there is nothing."""
    texts = {}
    for name, value, show in (
        ("last", row.last, percent), ("selected", row.selected, percent), ("difference", row.difference, signed),
    ):  # fmt: skip
        texts[name] = "" if value is None else show(value.mean)
        texts[f"{name}_span"] = "" if value is None else span(value, show)
    return texts


def recommendation_sentences(comparison: Comparison) -> list[str]:
    """What to take and why; empty without a recommendation."""
    found = comparison.recommendation
    if found is None:
        return []
    choice, chances, causes = found.choice, found.chances, dict[str, list[str]]()
    rivals = sorted((name for name in chances if name != choice and chances[name] >= 0.05), key=lambda n: -chances[n])
    lines = sentences("comparison", "decision", comparison, found, rivals)
    if rivals and chances[choice] < SURE:
        lines += sentences("comparison", "deciding", found.posterior, choice, rivals[0])
    if found.student is not None:
        lines += sentences("comparison", "against_others", comparison, found, found.student)
    for name in found.at_chance:
        outcomes = list(comparison.outcomes[name].values())
        cause = "its labels are uninformative" if name == TEACHER else training_problem(outcomes)
        causes.setdefault(cause, []).append(name)
    left_out = [name for name in comparison.outcomes if name not in chances and name not in found.at_chance]
    return lines + sentences("comparison", "problems", causes, left_out if found.posterior else [])


def training_problem(outcomes: Sequence[Outcome]) -> str:
    """Why a student may be at chance level, with the cure, from the mean training loss over the seeds."""
    histories = [[record["loss"] for record in one.history if "loss" in record] for one in outcomes if one.history]
    histories = [losses for losses in histories if losses]
    if not histories:
        return "its training is not recorded"
    epochs = min(map(len, histories))
    losses = [math.fsum(one[epoch] for one in histories) / len(histories) for epoch in range(epochs)]
    first, last, least = losses[0], losses[-1], min(losses)
    if not math.isfinite(last) or last > 1.2 * max(least, 1e-3):
        return "its loss rises: the learning rate is too high, try a tenth of it"
    if epochs == 1:
        return "one epoch shows no progress: too few steps, train for more epochs"
    if last < (1 - FALLING) * losses[-2]:
        return f"its loss still falls after {epochs} epochs: too few steps, train for more epochs"
    if last > (1 - HARDLY_MOVED) * first:
        return "its loss hardly moves: too few steps or too low a learning rate, try three times of each; else features"
    return "it fits its labels but does not generalise: other features, or better labels"
