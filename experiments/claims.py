"""What a paper says its table shows, in a form that code can decide from our cells.

    Claim("SLaM is above vanilla", higher=["SLaM"], lower=["Vanilla"], effect=2.4)
    larger_lead("its lead is larger with few labels", "SLaM", "Vanilla", at="500", than_at="2000", effect=2.7)
    Claim(…, same_as="slam_table1")             # a figure that plots a table: decided there, not counted again
    Claim(…, structural="duplicates have distance 0, so none is picked twice")   # true by construction: not counted
    Claim(…, aside="of teachers, not of the method")                             # shown, not counted
    Claim(…, needs=[Needs("above the larger class by", "accuracy", "share of the larger class", at_least=0)])

Per seed, the mean of the lower cells is taken from the mean of the higher ones ("row" means all its columns,
"row@column" one cell). The differences over seeds give one of four answers, by the rule of ``experiments.sequential``:
*yes* and *no* where they lie above or below ``beyond``, corrected by Holm among the counted claims of the table; *no
difference larger than δ* where they are shown to lie within ±δ, half of the paper's own effect unless ``delta`` says
otherwise; else *open*. A claim says something only where its preconditions hold of the cells; where one fails, or was
not measured, it is *void*: neither yes nor no.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from experiments.sequential import ERROR, Evidence, evidence, holm
from experiments.sweep import Cell
from understudy.comparison.interval import Interval
from understudy.errors import UnderstudyError

YES, NO, WITHIN, VOID, OPEN = "yes", "no", "no larger difference", "void", "open"
ANSWERS = (YES, NO, WITHIN, VOID, OPEN)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _drop(cell: Cell) -> float:
    """One epoch's luck must not count as a height, hence three each."""
    width = min(3, len(cell.curve))
    windows = [_mean(cell.curve[start : start + width]) for start in range(len(cell.curve) - width + 1)]
    return max(windows) - windows[-1]


MEASURES: dict[str, tuple[str, Callable[[Cell], float]]] = {
    "last": ("after the last epoch", lambda cell: cell.value),
    "last_3": ("averaged over the last 3 epochs", lambda cell: _mean(cell.curve[-3:])),
    "last_5": ("averaged over the last 5 epochs", lambda cell: _mean(cell.curve[-5:])),
    "selected": ("at the epoch chosen on gold", lambda cell: cell.value if cell.selected is None else cell.selected),
    "average": ("averaged over all epochs", lambda cell: _mean(cell.curve)),
    "early": (
        "averaged over the first third of the epochs",
        lambda cell: _mean(cell.curve[: max(1, len(cell.curve) // 3)]),
    ),
    "drop": ("best 3 epochs in a row minus the last 3", _drop),
}
WITHOUT_CURVE = ("last", "selected")


@dataclass(frozen=True)
class Needs:
    """A precondition: the mean of a row over its seeds, less that of another, lies between two bounds."""

    text: str
    row: str
    """As in a claim: "row", all columns, or "row@column"."""
    less: str = ""
    at_least: float = -math.inf
    at_most: float = math.inf
    fact: str = ""
    """What of the cells, where it is not their value: "debias.share_weight_1"."""

    def unmet(self, cells: Sequence[Cell]) -> str:
        """What was found, in percent, where it does not hold; "" where it does."""
        found = [self._mean(row, cells) for row in (self.row, self.less) if row]
        if None in found:
            return f"{self.text} not measured"
        value = found[0] - sum(found[1:])
        return "" if self.at_least <= value <= self.at_most else f"{self.text} {100 * value:.1f}%"

    def _mean(self, name: str, cells: Sequence[Cell]) -> Any:
        row, _, column = name.partition("@")
        mine = [cell for cell in cells if cell.row == row and column in ("", cell.column)]
        values = [cell.facts.get(self.fact) if self.fact else cell.value for cell in mine]
        known = [value for value in values if value is not None]
        return _mean(known) if known else None


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
    effect: float | None = None
    """The paper's own difference, in points; None: as its printed table has it, where it names the same rows."""
    delta: float | None = None
    """In points: what would be too small to matter, where half of the effect is not the argument."""
    same_as: str = ""
    """The experiment that decides and counts it, where this one shows the same cells again."""
    structural: str = ""
    """Why it holds by construction, where it does."""
    aside: str = ""
    """Why it is no evidence for the paper's method, though the paper shows it."""
    needs: Sequence[Needs] = ()
    withdrawn: str = ""
    """Why its setting cannot decide it, where that is known and not measured here: void."""

    @property
    def counted(self) -> bool:
        return not (self.same_as or self.structural or self.aside)

    def void(self, cells: Sequence[Cell]) -> str:
        """Why it says nothing about these cells; "" where it does."""
        return self.withdrawn or next((why for one in self.needs if (why := one.unmet(cells))), "")

    @property
    def within(self) -> float | None:
        """δ as a share; there is none for a claim about a height."""
        if self.delta is not None:
            return self.delta / 100
        return self.effect / 200 if self.effect and self.lower and not self.beyond else None


def larger_lead(
    text: str, row: str, other: str, *, at: str, than_at: str, effect: float | None = None, same_as: str = ""
) -> Claim:
    """(row − other) in one column exceeds (row − other) in another."""
    higher, lower = [f"{row}@{at}", f"{other}@{than_at}"], [f"{other}@{at}", f"{row}@{than_at}"]
    return Claim(text, higher, lower, times=2, effect=effect, same_as=same_as)


def needing(claims: Sequence[Claim], *needs: Needs) -> list[Claim]:
    """All of them with these preconditions too."""
    return [replace(claim, needs=(*claim.needs, *needs)) for claim in claims]


def with_effect(claim: Claim, printed: Mapping[str, Sequence[str]], columns: Sequence[str] = ()) -> Claim:
    """The claim with the paper's own effect, if that is above 0: the difference of its printed cells."""
    if claim.effect is not None or not claim.lower or claim.measure != "last":
        return claim
    sides = [[_printed(name, printed, columns) for name in side] for side in (claim.higher, claim.lower)]
    if any(value is None for side in sides for value in side):
        return claim
    higher, lower = (_mean([value for value in side if value is not None]) for side in sides)
    effect = round(claim.times * (higher - lower), 2)
    return replace(claim, effect=effect) if effect > 0 else claim


def _printed(name: str, printed: Mapping[str, Sequence[str]], columns: Sequence[str]) -> float | None:
    """The mean of a row's cells like "63.53 ± 0.29", or its one cell; None where the paper prints no such."""
    row, _, column = name.partition("@")
    cells = dict(zip(columns, printed.get(row, ()), strict=False)).get(column, "") if column else printed.get(row, ())
    found = [re.match(r"\d+(\.\d+)?", cell) for cell in ([cells] if isinstance(cells, str) else cells)]
    values = [float(match[0]) for match in found if match]
    return _mean(values) if values else None


@dataclass(frozen=True)
class Verdict:
    claim: Claim
    answer: str
    """One of ANSWERS; "" where the claim is not counted."""
    difference: Interval
    p: float
    """Of all looks together, after Holm."""
    seeds: int
    """How many the deciding look had; all that were looked at, while it is open."""
    why: str = ""
    """Why it is void, where it is."""

    @property
    def shown(self) -> str:
        """The answer as a page gives it."""
        if self.claim.same_as:
            return f"see {self.claim.same_as}"
        if self.claim.structural:
            return "by construction"
        if self.claim.aside:
            return "not counted"
        if self.answer == VOID:
            return f"void: {self.why}"
        return (
            f"no difference larger than {100 * (self.claim.within or 0):.2g}" if self.answer == WITHIN else self.answer
        )


def decide(claims: Sequence[Claim], cells: Sequence[Cell]) -> list[Verdict]:
    """All claims of a table, because Holm's rule is about all of them."""
    found = [evidence(differences(claim, cells), limit=claim.beyond, delta=claim.within) for claim in claims]
    void = [claim.void(cells) for claim in claims]
    counted = [number for number, claim in enumerate(claims) if claim.counted and not void[number]]
    adjusted = dict(zip(counted, holm([found[number].p for number in counted]), strict=True))
    return [
        _verdict(claim, one, adjusted.get(number, 1.0), void[number])
        for number, (claim, one) in enumerate(zip(claims, found, strict=True))
    ]


def _verdict(claim: Claim, found: Evidence, p: float, void: str) -> Verdict:
    if not claim.counted:
        return Verdict(claim, "", found.interval, p, found.interval.count)
    if void:
        return Verdict(claim, VOID, found.interval, p, found.interval.count, void)
    if p <= ERROR:
        return Verdict(claim, YES if found.above else NO, found.interval, p, found.seeds)
    if found.p_within <= ERROR:
        return Verdict(claim, WITHIN, found.interval, p, found.seeds_within)
    return Verdict(claim, OPEN, found.interval, p, found.interval.count)


def differences(claim: Claim, cells: Sequence[Cell]) -> list[float]:
    """One for each seed."""
    seeds = sorted({cell.seed for cell in cells})
    sides = [(_side(claim.higher, cells, seed, claim), _side(claim.lower, cells, seed, claim)) for seed in seeds]
    return [claim.times * (higher - lower) for higher, lower in sides]


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
        if claim.measure not in WITHOUT_CURVE and not all(cell.curve for cell in found):
            raise UnderstudyError(f"the claim {claim.text!r} needs the epochs of {name!r}, which were not followed")
        means.append(_mean([value(cell) for cell in found]))
    return _mean(means)
