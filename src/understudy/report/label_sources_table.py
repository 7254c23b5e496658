"""The label sources of reconciled labels as a table: their weights and their accuracy on gold.

for name, description, weight, accuracy, loss in source_table(run.facts):
    print(name, weight, accuracy)
combined_accuracy(run.facts)             # the labels combined from all of them
"""

from collections.abc import Mapping

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from understudy.maths.proportions import exact
from understudy.reconciling.label_sources import sources_in

HEADINGS = ("label source", "what it is", "weight", "accuracy (95% CI)", "log-loss")
DESCRIPTIONS = {
    "teacher": "the teacher's probabilities",
    "teacher confusion": "the teacher's label, by its confusion matrix on gold",
    "gold only": "your student, trained on gold only",
    "vanilla": "your student, trained on the labels as they are",
    "neighbours": "the labels of the most similar rows",
    "linear": "a linear student, trained on the labels as they are",
    "linear, gold only": "a linear student, trained on gold only",
}


def source_table(facts: Mapping[str, float]) -> list[tuple[str, str, str, str, str]]:
    """A row for each label source in a run's facts, the largest weight first, under ``HEADINGS``."""
    return [
        (
            one["name"],
            DESCRIPTIONS.get(one["name"], f"your student, trained by {one['name']}"),
            f"{one['weight']:.2f}",
            _with_interval(one["accuracy"], one["rows"]),
            f"{one['log_loss']:.3f}",
        )
        for one in sources_in(facts)
    ]


def combined_accuracy(facts: Mapping[str, float]) -> str:
    """Accuracy and log-loss of the reconciled labels, in a sentence."""
    rows = facts["reconciled.gold_rows"]
    single = min(one["log_loss"] for one in sources_in(facts))
    return (
        f"Reconciled labels: accuracy {_with_interval(facts['reconciled.accuracy'], rows, '95% CI ')}, cross-validated "
        f"on {rows:,.0f} gold rows; log-loss {facts['reconciled.log_loss']:.3f} (best single source {single:.3f})."
    )


def print_sources(facts: Mapping[str, float]) -> None:
    """The table on the terminal; nothing for a run without reconciled labels."""
    rows = source_table(facts)
    if not rows:
        return
    grid = Table(padding=(0, 1), box=None, header_style="dim")
    for number, heading in enumerate(HEADINGS):
        grid.add_column(heading, justify="left" if number < 2 else "right", no_wrap=number != 1)
    for row in rows:
        grid.add_row(*map(escape, row))
    out = Console(width=max(110, Console().width))
    out.print("\n[bold]Label sources[/], cross-validated on gold (weight 0: not used)")
    out.print(grid)
    out.print(combined_accuracy(facts))


def _with_interval(accuracy: float, rows: float, name: str = "") -> str:
    """``78.3% (70.1–85.0)``."""
    if not rows:
        return "unknown"
    share = exact(accuracy * rows, rows)
    return f"{100 * share.estimate:.1f}% ({name}{100 * share.low:.1f}–{100 * share.high:.1f})"
