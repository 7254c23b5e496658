"""Witnesses in words: who each is, how far it was believed, and how often it is right about gold it had not seen.

for who, what, weight, right, loss in witness_table(run.facts):
    print(who, weight, right)
together(run.facts)                  # the same of the labels made of all of them
"""

from collections.abc import Mapping

from understudy.maths.proportions import exact
from understudy.reconciling.reconcile import witnesses_in

HEADINGS = ("witness", "who it is", "weight", "right on gold it had not seen", "log-loss")
WHO = {
    "teacher": "the teacher's probabilities",
    "teacher's word": "what the teacher called the row, as gold says it is worth",
    "gold only": "your student, trained on gold alone",
    "vanilla": "your student, on the labels as they are",
    "neighbours": "the labels of the most similar rows",
    "linear": "a linear student, on the labels as they are",
    "linear, gold only": "a linear student, on gold alone",
}


def witness_table(facts: Mapping[str, float]) -> list[tuple[str, str, str, str, str]]:
    """A row for each witness in a run's facts, the most believed first, under ``HEADINGS``."""
    return [
        (
            one["name"],
            WHO.get(one["name"], f"your student, trained by {one['name']}"),
            f"{one['weight']:.2f}",
            share(one["accuracy"], one["rows"]),
            f"{one['log_loss']:.3f}",
        )
        for one in witnesses_in(facts)
    ]


def together(facts: Mapping[str, float]) -> str:
    """What the labels made of all witnesses are worth, in a sentence."""
    right = share(facts["reconciled.accuracy"], facts["reconciled.gold_rows"])
    alone = min(one["log_loss"] for one in witnesses_in(facts))
    return (
        f"Together they are right on {right} of gold rows that had no part in it; log-loss "
        f"{facts['reconciled.log_loss']:.3f}, the best of them alone {alone:.3f}."
    )


def share(accuracy: float, rows: float) -> str:
    """``78.3% (70.1–85.0)``."""
    if not rows:
        return "unknown"
    found = exact(accuracy * rows, rows)
    return f"{100 * found.estimate:.1f}% ({100 * found.low:.1f}–{100 * found.high:.1f})"
