"""Intervals of shares, accuracy, precision, recall, F1 and confusions, from the tallies of ``pool_strata.py``.

measure_pool("recall", tallies, estimated=False)        # an estimate and the ends of its interval for each tally
"""

from typing import Any

import numpy as np

from understudy.auditing.measures import Floats, Ints
from understudy.auditing.pool_strata import Tally, stacked
from understudy.maths.score_intervals import Strata, mean_intervals, score_intervals

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
