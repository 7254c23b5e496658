"""Strata of gold and pool rows that are likely right or wrong together, for ``pool_estimates.py``; and intervals of
shares, accuracy, precision, recall, F1 and confusions from how many rows of each stratum are hits.

Rows are sorted into *cells* by what is known without their truth, e.g. whether a class is predicted, and a cell is cut
further, by how sure the proxy is, or by the probability with which its gold rows were drawn, wherever gold is large
enough. How many gold rows a stratum has depends on the proxy alone, never on the truths: merging and cutting by such
counts does not bias what is measured within the strata.

    measure_pool("recall", tallies, estimated=False)    # an estimate and the ends of its interval for each tally
"""

from typing import Any, NamedTuple

import numpy as np

from understudy.auditing.measures import quantile_cuts
from understudy.maths.proportions import Bools, Floats, Ints
from understudy.maths.score_intervals import Strata, mean_intervals, score_intervals

#: Gold rows of a cell of two; of each of many, whose variances are all estimated; of a part of a cell, by what cuts it.
FEWEST, FEWEST_OF_MANY, PER_SCORE, PER_WEIGHT = 2, 20, 30, 5
MOST_CUTS = 4
#: The cell of rows without a label, of which gold may have none.
NO_LABEL = 3
# Stands for no gold row at all: an interval then ends where the strata's sizes alone end it.
NO_ROWS = 1e-6


class Proxy(NamedTuple):
    """What is known of some rows without their truth."""

    predicted: Ints
    confidence: Floats | None = None
    #: ``(n, C)``; more telling than a confidence.
    probs: Floats | None = None

    def score(self, label: int | Ints) -> Floats:
        """The larger, the likelier is the class (one for all rows, or one for each), among rows of one prediction."""
        if self.probs is not None:
            return np.asarray(self.probs[np.arange(len(self.predicted)), label])
        sure = np.ones(len(self.predicted)) if self.confidence is None else self.confidence
        return np.where(self.predicted == label, sure, -sure)

    def take(self, rows: Bools | Ints) -> "Proxy":
        parts = (part if part is None else part[rows] for part in (self.confidence, self.probs))
        return Proxy(self.predicted[rows], *parts)


class Tally(NamedTuple):
    """The strata ``(S,)`` of one estimate."""

    hits: Floats
    rows: Floats
    #: Pool rows.
    pool: Floats
    cell: Ints
    #: A stratum's share of its cell, by the gold rows' weights.
    within: Floats


def merge_cells(gold: Ints, pool: Ints, cells: int, fewest: int) -> tuple[Ints, Ints]:
    """Cells with fewer gold rows share one, or join the smallest other where they are too few even together."""
    counts = np.bincount(gold, minlength=cells)
    small = counts < fewest
    place = np.where(small, cells, np.arange(cells))
    if counts[small].sum() < fewest and not small.all():
        place[small] = np.where(small, np.inf, counts).argmin()
    return place[gold], place[pool]


def tally(
    hit: Bools, cells: tuple[Ints, Ints], cut_by: tuple[Floats | None, Floats | None], fewest: int,
    weights: Floats | None, counts: Floats | None = None,
) -> Tally:  # fmt: skip
    """``cells``: of gold and pool rows. ``cut_by``: what cuts a cell, of either; of gold alone, where the pool's is not
    known and the parts are sized by the ``weights`` of the gold rows. ``counts``: of rows like each pool row."""
    (gold, pool), (by, on_pool) = cells, cut_by
    weight = np.ones(len(hit)) if weights is None else weights
    strata, pool_strata = np.zeros_like(gold), np.zeros_like(pool)
    cell_of: list[int] = []
    for cell in np.union1d(gold, pool):
        mine, theirs, first = gold == cell, pool == cell, len(cell_of)
        edges = np.empty(0) if by is None else cuts(by[mine], fewest)
        strata[mine] = first if by is None else first + np.searchsorted(edges, by[mine], side="right")
        pool_strata[theirs] = first if on_pool is None else first + np.searchsorted(edges, on_pool[theirs], "right")
        cell_of += [cell] * (1 + len(edges))
    cell, size = np.array(cell_of, dtype=np.int64), len(cell_of)
    total, squares, right = (np.bincount(strata, each, size) for each in (weight, weight**2, weight * hit))
    # Kish's effective number of rows; with equal weights, their number.
    rows = np.divide(total**2, squares, out=np.zeros(size), where=squares > 0)
    hits = rows * np.divide(right, total, out=np.zeros(size), where=total > 0)
    whole = np.bincount(cell, total)[cell]
    within = np.divide(total, whole, out=np.ones(size), where=whole > 0)
    sizes = np.bincount(pool_strata, counts, size).astype(np.float64)
    if weights is not None:
        # Drawn by probability: what they were drawn from is the pool and gold together, as they are not alike.
        sizes += np.bincount(strata, minlength=size)
        if on_pool is None:
            sizes = np.bincount(cell, sizes)[cell] * within
    return Tally(hits, rows, sizes, cell, within)


def cuts(values: Floats, fewest: int) -> Floats:
    """Where the parts of a cell begin: at quantiles, equal values together, each with at least ``fewest`` rows."""
    distinct, parts = np.unique(values), min(MOST_CUTS, len(values) // fewest)
    few = distinct[1:] if parts > 1 and len(distinct) <= MOST_CUTS else None
    return np.array(quantile_cuts(values, parts, fewest, few))


def stacked(tallies: list[Tally], *, estimated: bool) -> tuple[Strata, Ints]:
    """``(Q, S)`` each, and the strata's cells; shorter ones are filled up with strata that the pool has no row in.
    ``estimated``: only the cells' sizes are known, not the strata's."""
    most = max(1, *(len(one.hits) for one in tallies))
    hits, rows, pool, cell, within = (
        np.stack([np.pad(part, (0, most - len(part))) for part in parts]) for parts in zip(*tallies, strict=True)
    )
    overall = hits.sum(1, keepdims=True) / np.maximum(rows.sum(1, keepdims=True), NO_ROWS)
    hits = np.where((cell == NO_LABEL) & (rows == 0), NO_ROWS * overall, hits)
    known = hits, np.maximum(rows, NO_ROWS), np.maximum(pool, NO_ROWS * 1e-3)
    return Strata(*known, *((cell, within) if estimated else ())), cell


#: Means over rows, of which groups have a difference; of all rows, or of those labelled with the class.
OF_ALL, OF_LABELLED = ("share", "accuracy"), ("precision", "confusion")
#: An estimate and the ends of its interval.
Ends = tuple[float, float, float]


def measure_pool(what: str, tallies: list[Tally], estimated: bool) -> list[Ends]:
    """Estimates, and the ends of their intervals."""
    if not tallies:
        return []
    strata, cell = stacked(tallies, estimated=estimated)
    c, weights, ours = _coefficients(what, strata, cell)
    if what in OF_ALL + OF_LABELLED:
        return list(zip(*mean_intervals(strata, c), strict=True))
    p, named = strata.hits / strata.rows, ours.sum(1)
    both, true = (ours * p).sum(1), (weights * p).sum(1)

    def equation(theta: Floats) -> tuple[Floats, Floats]:
        """Recall: Σ_labelled w p = θ Σ w p. F1: 2 Σ_labelled w p = θ (Σ_labelled w + Σ w p)."""
        if what == "recall":
            return ours - theta[:, None] * weights, np.zeros_like(theta)
        return 2 * ours - theta[:, None] * weights, theta * named

    values = _ratio(both, true) if what == "recall" else _ratio(2 * both, named + true)
    return list(zip(values, *score_intervals(strata, equation, values), strict=True))


def _coefficients(what: str, strata: Strata, cell: Ints) -> tuple[Floats, Floats, Floats]:
    """Of a mean over rows; the strata's shares of the pool; and those of the rows with the class."""
    weights = strata.population / strata.population.sum(1, keepdims=True)
    ours = weights * (cell == 1)
    return (ours / np.maximum(ours.sum(1, keepdims=True), 1e-300) if what in OF_LABELLED else weights), weights, ours


def measure_differences(what: str, mine: list[Tally], others: list[Tally], estimated: bool) -> list[Ends]:
    """Of each tally minus the other."""
    (one, cell), (other, other_cell) = (stacked(each, estimated=estimated) for each in (mine, others))
    c = np.concatenate([_coefficients(what, one, cell)[0], -_coefficients(what, other, other_cell)[0]], axis=1)
    if one.together is not None and other.together is not None:
        other = other._replace(together=1 + one.together.max() + other.together)
    parts: Any = zip(one, other, strict=True)
    both = (None if a is None or b is None else np.concatenate([a, b], axis=1) for a, b in parts)
    strata = Strata(*both)  # type: ignore[arg-type]  # None where both sides have none
    return list(zip(*mean_intervals(strata, c), strict=True))


def measure_gold(what: str, tallies: list[Tally]) -> list[Ends]:
    """The same from gold alone; where its rows weigh alike and the pool is large, Wilson's interval."""
    if not tallies:
        return []
    strata, _ = stacked(tallies, estimated=True)
    assert strata.within is not None
    ends = np.stack(mean_intervals(strata, strata.within), 1)
    return [tuple(each) for each in (2 * ends / (1 + ends) if what == "f1" else ends)]


def _ratio(part: Floats, whole: Floats) -> Floats:
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)
