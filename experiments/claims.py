"""What a paper says its table shows, in a form that code can decide from our cells.

    Claim("SLaM is above vanilla", higher=["SLaM"], lower=["Vanilla"])
    larger_lead("its lead is larger with few labels", "SLaM", "Vanilla", at="500", than_at="2000")

Per seed, the mean of the lower cells is taken from the mean of the higher ones ("row" means all its columns,
"row@column" one cell); the 95% t-interval of these differences over seeds decides: above ``beyond`` is *yes*, below it
*no*, and an interval that contains it is *not distinguishable*.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from experiments.sweep import Cell
from understudy.comparison.interval import Interval
from understudy.errors import UnderstudyError

YES, NO, UNCLEAR = "yes", "no", "not distinguishable"


def _early(cell: Cell) -> float:
    third = cell.curve[: max(1, len(cell.curve) // 3)]
    return sum(third) / len(third)


MEASURES: dict[str, tuple[str, Callable[[Cell], float]]] = {
    "last": ("after the last epoch", lambda cell: cell.value),
    "average": ("averaged over all epochs", lambda cell: sum(cell.curve) / len(cell.curve)),
    "early": ("averaged over the first third of the epochs", _early),
    "drop": ("best epoch minus last", lambda cell: max(cell.curve) - cell.curve[-1]),
}


@dataclass(frozen=True)
class Claim:
    text: str
    higher: Sequence[str]
    lower: Sequence[str] = ()
    beyond: float = 0.0
    """What the difference must exceed, as a share; with no ``lower`` the mean of ``higher`` itself must."""
    measure: str = "last"
    times: int = 1
    """2 makes the mean over two pairs of cells their sum, for differences of differences."""


def larger_lead(text: str, row: str, other: str, *, at: str, than_at: str) -> Claim:
    """(row − other) in one column exceeds (row − other) in another."""
    return Claim(text, [f"{row}@{at}", f"{other}@{than_at}"], [f"{other}@{at}", f"{row}@{than_at}"], times=2)


@dataclass(frozen=True)
class Verdict:
    claim: Claim
    answer: str
    difference: Interval


def decide(claim: Claim, cells: Sequence[Cell]) -> Verdict:
    seeds = sorted({cell.seed for cell in cells})
    sides = [(_side(claim.higher, cells, seed, claim), _side(claim.lower, cells, seed, claim)) for seed in seeds]
    gaps = [claim.times * (higher - lower) for higher, lower in sides]
    found = Interval.of(gaps)
    if found.low > claim.beyond:
        answer = YES
    elif found.high < claim.beyond:
        answer = NO
    else:
        answer = UNCLEAR
    return Verdict(claim, answer, found)


def _side(names: Sequence[str], cells: Sequence[Cell], seed: int, claim: Claim) -> float:
    if not names:
        return 0.0
    value = MEASURES[claim.measure][1]
    means = []
    for name in names:
        row, _, column = name.partition("@")
        found = [cell for cell in cells if (cell.row, cell.seed) == (row, seed) and column in ("", cell.column)]
        if not found:
            raise UnderstudyError(f"the claim {claim.text!r} speaks of {name!r}, which was not measured")
        if claim.measure != "last" and not all(cell.curve for cell in found):
            raise UnderstudyError(f"the claim {claim.text!r} needs the epochs of {name!r}, which were not followed")
        means.append(sum(value(cell) for cell in found) / len(found))
    return sum(means) / len(means)
