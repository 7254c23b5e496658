"""Preconditions that several papers' claims share: without them a difference says nothing of the method.

needing(claims, useful_teacher(10), memorised("40%"))
"""

from experiments.claims import Needs

REPEATED = "given labels repeated on the training rows"
MEMORISED_SHARE = 0.85


def useful_teacher(classes: int) -> Needs:
    return Needs("the teacher's accuracy", "Teacher", at_least=1 / classes + 0.1)


def weighs(row: str) -> Needs:
    """Weights that are all 1 make a method vanilla under another name."""
    share = "debias.share_weight_1"
    return Needs("weights of 1", row, fact=share, at_most=0.9)


def memorised(column: str) -> Needs:
    """Where plain training does not repeat its wrong labels there is nothing to be robust against."""
    row = f"Baseline: {REPEATED}@{column}"
    return Needs("memorised", row, at_least=MEMORISED_SHARE)


def fair(rival: str) -> tuple[Needs, ...]:
    """A rival whose options can switch it off, and which is well below plain training, was given the wrong ones."""
    return (Needs(f"{rival} minus Vanilla", rival, "Vanilla", at_least=-0.005),) if rival in ("UPS", "VID") else ()
