"""Which of several thresholds reach a target accuracy, with at most δ chance that one of them does not.

Learn then Test (Angelopoulos et al., 2021). The candidates stand in an order that is fixed before their hits are looked
at. Each has the p-value of "its accuracy is below the target", the exact binomial tail

    p = P(Binomial(rows, target) ≥ hits)

and a level of its own; the levels sum to δ. In order, a candidate is accepted where p is at most its own level plus
that of the one before it, if that was accepted (the fallback procedure of Wiens and Dmitrienko, 2005). With all of δ at
the first candidate this is the fixed-sequence test, which ends at the first failure; some of it further on goes on
where the first fails, and is not lost where it passes.

    accepted = fallback(tail(hits, rows, target), levels)          # (K,) bool
    low, high = simultaneous_band(answered, correct, level=0.95)   # (n, K) each: intervals that hold at all K at once
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from understudy.maths.proportions import exact

Array = NDArray[Any]
DRAWS = 4000


def tail(hits: ArrayLike, rows: ArrayLike, target: float) -> Array:
    """P(Binomial(rows, target) ≥ hits); fractions of rows are allowed. 1 without rows."""
    from scipy.special import betainc

    hit, row = np.asarray(hits, np.float64), np.asarray(rows, np.float64)
    some = np.maximum(hit, 1e-9)
    return np.where(hit > 0, betainc(some, np.maximum(row - hit, 0) + 1, target), 1.0)


def fallback(p_values: ArrayLike, levels: ArrayLike) -> Array:
    """Which hypotheses are rejected, ``(K,)`` bool, in their order; the levels sum to the chance of any mistake."""
    accepted, carried = [], 0.0
    for p, own in zip(np.asarray(p_values, np.float64), np.asarray(levels, np.float64), strict=True):
        accepted.append(bool(p <= carried + own))
        carried = carried + own if accepted[-1] else 0.0
    return np.array(accepted, bool)


def simultaneous_band(answered: Array, correct: Array, level: float) -> tuple[Array, Array]:
    """Intervals ``(K,)`` of the shares of ``correct`` among ``answered`` rows, ``(n, K)`` bool each.

    Exact intervals at the level 1 − α at which the largest of K normal deviations, correlated as the candidates' are on
    these rows, stays inside with probability ``level``: neighbours share most rows, and Bonferroni's α / K is too wide.
    """
    from scipy.special import ndtr

    rows, hits = answered.sum(0), (answered & correct).sum(0)
    share = (hits + 0.5) / (rows + 1)  # never 0 or 1: a candidate without a mistake varies too
    part = answered * (correct - share)
    scale = np.sqrt((part**2).sum(0))
    part = part / np.where(scale > 0, scale, 1)
    roots, directions = np.linalg.eigh(part.T @ part)
    drawn = np.random.default_rng(0).standard_normal((DRAWS, len(roots)))
    drawn = drawn * np.sqrt(np.maximum(roots, 0)) @ directions.T
    largest = np.quantile(np.abs(drawn).max(1), level)
    inside = float(1 - 2 * ndtr(-largest))
    shares = [exact(float(hit), float(row), level=inside) for hit, row in zip(hits, rows, strict=True)]
    return np.array([each.low for each in shares]), np.array([each.high for each in shares])
