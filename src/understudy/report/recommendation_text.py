"""A comparison's table for the terminal, and its recommendation in sentences.

Claims about a difference are held to the usual standard: paired 95% intervals, and p-values corrected for the number of
methods. Where the choice is uncertain, a sentence says how many more seeds or test rows would decide, if the difference
is as measured. Of students at chance level it reads off the training loss what may be wrong.

    recommendation_sentences(comparison)
    comparison_table(comparison)
"""

import math
from collections.abc import Sequence

from rich.table import Table

from understudy.comparison.candidates import GOLD_ONLY, TEACHER
from understudy.comparison.interval import Interval, chance, percent, signed, span
from understudy.comparison.outcome import LEVEL, Comparison, ComparisonRow, Outcome, Recommendation
from understudy.comparison.uncertainty import OptionEstimates

SURE = 0.95
#: Differences below half a point are not worth more experiments.
NEGLIGIBLE = 0.005
MOST_SEEDS = 50
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
    table = Table(title=f"Test accuracy in %, {len(comparison.seeds)} seeds", title_justify="left", title_style="bold")
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


def row_texts(row: ComparisonRow) -> dict[str, str]:
    """A row in percent and points; empty where there is nothing."""
    texts = {}
    for name, value, show in (
        ("last", row.last, percent), ("selected", row.selected, percent), ("difference", row.difference, signed),
    ):  # fmt: skip
        texts[name] = "" if value is None else show(value.mean)
        texts[f"{name}_span"] = "" if value is None else span(value, show)
    return texts


def failure_sentences(comparison: Comparison) -> list[str]:
    """One sentence for each method that could not be run under some seed."""
    sentences = []
    for method, by_seed in comparison.failed.items():
        seeds, reason = sorted(by_seed), by_seed[min(by_seed)].rstrip(".")
        where = ""
        if method in comparison.outcomes:
            where = f" under seed{'s'[: len(seeds) > 1]} {', '.join(map(str, seeds))}"
        sentences.append(f"{method} could not be run{where}: {reason}.")
    return sentences


def recommendation_sentences(comparison: Comparison) -> list[str]:
    """What to take and why; empty without a recommendation."""
    found = comparison.recommendation
    if found is None:
        return []
    problems = _at_chance(comparison, found.at_chance)
    if found.posterior is None:
        return [_nothing(comparison), *problems]
    sentences = _decision(found, found.posterior) + _against_reference(comparison, found)
    if found.student is not None:
        sentences += _against_gold_only(comparison, found.student) + _against_teacher(comparison, found.student)
    left_out = [name for name in comparison.outcomes if name not in found.chances and name not in found.at_chance]
    if left_out:
        problems.append(f"Not considered, because too few seeds could be run: {', '.join(left_out)}.")
    return sentences + problems


def _decision(found: Recommendation, estimates: OptionEstimates) -> list[str]:
    choice, chances = found.choice, found.chances
    what = {GOLD_ONLY: "Train on gold only", TEACHER: "Use the teacher's own labels, where it is available"}
    sentences = [
        f"{what.get(choice, f'Take {choice}')}: {_expected(found, choice)}; probability of being the best of the "
        f"{len(chances)} options: {chance(chances[choice])}."
    ]
    if choice == TEACHER and found.student is not None:
        sentences.append(f"For a student, take {found.student}: {_expected(found, found.student)}.")
    if estimates.seeds == 1:
        sentences.append("With a single seed the variation between seeds is unknown (1 point is assumed); run 5.")
    rivals = sorted((name for name in chances if name != choice and chances[name] >= 0.05), key=lambda n: -chances[n])
    if rivals:
        shown = [f"{name} {percent(found.expected[name])}% ({chance(chances[name])})" for name in rivals[:4]]
        sentences.append(f"Also possible: {', '.join(shown)}.")
        if chances[choice] < SURE:
            sentences.append(_would_decide(estimates, choice, rivals[0]))
    return sentences


def _expected(found: Recommendation, name: str) -> str:
    low, high = found.intervals[name]
    return f"expected accuracy {percent(found.expected[name])}% (95% CI {percent(low)}–{percent(high)})"


def _would_decide(estimates: OptionEstimates, choice: str, rival: str) -> str:
    """How many seeds and rows would make the measured difference exceed two standard errors."""
    gap, by_seeds, by_rows = estimates.gap(choice, rival)
    pair = f"{choice} and {rival}"
    if abs(gap) < NEGLIGIBLE:
        return f"Between {pair} the difference is below half a point: either will do."
    if TEACHER in (choice, rival):
        return f"More test rows with the teacher's labels would decide between {pair}."
    wanted, what = (gap / 2) ** 2, "gold rows" if estimates.folds else "test rows"
    if estimates.folds or by_seeds < 1e-9:
        # The variance between seeds includes that of their rows: only more rows reduce it.
        rows = (by_seeds + by_rows) / wanted * estimates.rows
        return f"About {_two_digits(rows)} {what} ({estimates.rows:,} now) would decide between {pair}."
    seeds = by_seeds * estimates.seeds / (wanted - by_rows) if wanted > by_rows else math.inf
    if seeds <= MOST_SEEDS:
        return f"About {max(math.ceil(round(seeds, 6)), estimates.seeds + 1)} seeds would decide between {pair}."
    if not estimates.rows:
        return f"More than {MOST_SEEDS} seeds would be needed to decide between {pair}."
    seeds, rows = (math.ceil(2 * part / wanted) for part in (by_seeds * estimates.seeds, by_rows * estimates.rows))
    return (
        f"More seeds alone would not decide between {pair}: about {_two_digits(max(rows, estimates.rows))} {what} "
        f"({estimates.rows:,} now) and {max(seeds, estimates.seeds)} seeds would."
    )


def _two_digits(count: float) -> str:
    digits = max(len(str(math.ceil(count))) - 2, 0)
    return f"{math.ceil(count / 10**digits) * 10**digits:,}"


def _nothing(comparison: Comparison) -> str:
    if not comparison.majority:
        return "Nothing can be recommended: no method was run under most of the seeds."
    level = percent(Interval.of([one.last for one in comparison.majority.values()]).mean)
    return f"Nothing can be recommended: no option is better than the majority-class baseline ({level}%)."


def _at_chance(comparison: Comparison, names: list[str]) -> list[str]:
    """One sentence for all options at chance level with the same cause."""
    by_cause: dict[str, list[str]] = {}
    for name in names:
        outcomes = list(comparison.outcomes[name].values())
        cause = "its labels are uninformative" if name == TEACHER else training_problem(outcomes)
        by_cause.setdefault(cause, []).append(name)
    return [f"At chance level: {', '.join(names)} ({cause})." for cause, names in by_cause.items()]


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


def _against_reference(comparison: Comparison, found: Recommendation) -> list[str]:
    student, reference = found.student, comparison.reference
    if student is None or student not in found.adjusted:
        return []
    gap = comparison.difference(student, reference)
    if gap.count < 2:
        return []
    if found.adjusted[student] < LEVEL:
        which = "better" if gap.mean > 0 else "worse"
        corrected = f"after correction for the {len(found.adjusted)} methods compared"
        return [f"{student} is significantly {which} than {reference}, by {_size(gap)}, {corrected}."]
    return [f"{student} is not significantly different from {reference}: {_difference(gap)}."]


def _against_gold_only(comparison: Comparison, student: str) -> list[str]:
    if student == GOLD_ONLY or not _share_seeds(comparison, student, GOLD_ONLY):
        return []
    gap = comparison.difference(student, GOLD_ONLY)
    if not gap.excludes_zero:
        return [f"The pool does not help significantly: {student} minus gold only is {_difference(gap)}."]
    if gap.mean > 0:
        return [f"The pool helps: {student} minus gold only is {_difference(gap)}."]
    return [f"Gold only is better than {student} by {_size(gap)}, before correction for several comparisons."]


def _against_teacher(comparison: Comparison, student: str) -> list[str]:
    if not _share_seeds(comparison, student, TEACHER):
        return []
    gap, accuracy = comparison.difference(student, TEACHER), percent(comparison.accuracy(TEACHER).mean)
    if not gap.excludes_zero:
        return [f"{student} is not significantly different from its teacher (accuracy {accuracy}%)."]
    which = "better" if gap.mean > 0 else "worse"
    return [f"{student} is {which} than its teacher (accuracy {accuracy}%) by {_size(gap)}."]


def _share_seeds(comparison: Comparison, name: str, other: str) -> bool:
    return not comparison.outcomes[name].keys().isdisjoint(comparison.outcomes.get(other, {}))


def _difference(gap: Interval) -> str:
    return f"{signed(gap.mean)} points (95% CI {signed(gap.low)} to {signed(gap.high)})"


def _size(gap: Interval) -> str:
    """The difference without its sign, where the sentence has the direction."""
    low, high = (gap.low, gap.high) if gap.mean >= 0 else (-gap.high, -gap.low)
    return f"{signed(abs(gap.mean)).lstrip('+')} points (95% CI {signed(low)} to {signed(high)})"
