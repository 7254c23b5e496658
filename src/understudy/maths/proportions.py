"""Shares with honest intervals: from few rows, also where their class mix differs from the population's.

Intervals are from exact binomial tails by the mid-P rule (Lancaster, 1961): the observed count itself counts half. They
hold the truth in 95 to 96% of the cases in the mean over shares, at no share in fewer than 91.8% (24 to 300 rows).
Clopper and Pearson's (1934), which count it in full, hold it in 97 to 99% of 24 rows and are 9% wider; Wilson's fall to
84% for shares near 0, and a teacher's rare mistakes are such shares. ``stratified`` reweights strata to a population's
mix and puts that interval on the *effective* number of rows, the one whose plain share would vary as much (Korn and
Graubard, 1998).

The area under the ROC curve is such a share too, of pairs: the chance that a row of the kind scores higher than one
that is not, ties counting half. Its interval is Hanley and McNeil's (1982), from an area that is pulled towards 0.5 by
one pair, so that a few perfectly ranked rows are not called certain.

    exact(12, 200)                                          # 6.0%, 3.3% to 10.0%
    cross_validated(150, 200, disagreement=0.1)             # 75.0%, 67.4% to 81.6%
    stratified(hits, rows, weights, population=10_000)      # (S,) each; weights sum to 1
    two_sided(38, 44)                                       # p-value of "both directions are as likely"
    area(scores, wrong)                                     # 0.5 is a coin, 1 tells the wrong ones without a miss
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from understudy.errors import UnderstudyError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
LEVEL = 0.95
# A stratum's variance leans on the overall share as if it had this many more rows of it: five rows without a mistake do
# not make a stratum certain.
LEAN = 2.0
# Linear students on gold alone need 0.57 to 0.88, at 24 to 300 rows without, with a weak and with a strong signal.
COUNTED_TWICE = 0.75


@dataclass(frozen=True)
class Share:
    """An estimated share and its interval. ``rows`` is the effective number of rows behind it; 0: nothing is known."""

    estimate: float
    low: float
    high: float
    rows: float

    @property
    def known(self) -> bool:
        return self.rows > 0

    @property
    def width(self) -> float:
        return self.high - self.low

    def more_rows_for(self, half_width: float, rows: int) -> int:
        """About how many more than the ``rows`` there are narrow the interval to ± ``half_width``; width ~ 1/√rows."""
        if not half_width > 0:
            raise UnderstudyError(f"an interval of ±{half_width} needs endless rows; ask for more than 0")
        return max(0, math.ceil(rows * (self.width / 2 / half_width) ** 2) - rows)


UNKNOWN = Share(math.nan, 0.0, 1.0, 0.0)


def exact(hits: float, rows: float, *, level: float = LEVEL) -> Share:
    """The mid-P interval of ``hits`` in ``rows``; fractions of rows are allowed."""
    if rows <= 0:
        return UNKNOWN
    outside, misses = (1 - level) / 2, max(rows - hits, 0.0)
    return Share(hits / rows, _lowest(hits, misses, outside), 1 - _lowest(misses, hits, outside), rows)


def cross_validated(correct: int, rows: int, disagreement: float) -> Share:
    """The interval of a cross-validated accuracy; ``disagreement``: how often two folds' models predict other classes.

    Where a row is predicted well because another has trained, the other is predicted well because of the first, and the
    pair counts twice: the variance is not p(1 − p) / n, but more by a share of the disagreement, up to twice as much.
    """
    if rows <= 0:
        return UNKNOWN
    effect = design_effect(correct, rows, disagreement)
    return replace(exact(correct / effect, rows / effect), estimate=correct / rows, rows=rows)


def design_effect(correct: int, rows: int, disagreement: float) -> float:
    """The variance of a cross-validated accuracy over that of as many independent rows."""
    p = (correct + 1) / (rows + 2)
    return min(1 + COUNTED_TWICE * disagreement / (p * (1 - p)), 2.0)


def fold_effects(values: Floats, own: Floats) -> Floats:
    """The same of any mean: ``values (K, N, …)`` by the model of each fold, ``own (N, …)`` by that of the row's fold.

    To first order a model adds up what each of its rows says of another, with a variance s², and what i says of j is
    what j says of i: s² counts twice. Two models share all but 1 in K − 1 of their rows: they differ by s² / (K − 1).
    """
    if len(values) < 2:
        return np.ones(own.shape[1:])
    among, between = (each.var(0, ddof=1) for each in (own, values))
    doubled = (len(values) - 1) * between.mean(0)
    return np.asarray(1 + np.divide(doubled, among, out=np.ones_like(among), where=among > doubled))


def widen(share: Share, effect: float, *, lowest: float = 0.0, highest: float = 1.0) -> Share:
    """The interval with a variance ``effect`` times as large, between ``lowest`` and ``highest``."""
    if effect == 1 or not share.known:
        return share
    low, high = (share.estimate + math.sqrt(effect) * (end - share.estimate) for end in (share.low, share.high))
    return replace(share, low=max(low, lowest), high=min(high, highest))


def disagreement(classes: Sequence[ArrayLike]) -> float:
    """The share of rows that two of the models predict differently, in the mean over pairs; ``(N,)`` classes each."""
    pairs = [np.not_equal(one, other).mean() for one, other in combinations(classes, 2)]
    return float(np.mean(pairs)) if pairs else 0.0


@lru_cache(maxsize=4096)
def _lowest(hits: float, misses: float, outside: float) -> float:
    """The share p at which P(more hits) + P(as many) / 2 is ``outside``."""
    from scipy.special import betainc  # in functions: a stored run with such a share loads without SciPy

    if hits <= 0:
        return 0.0

    def tail(p: float) -> float:
        more = float(betainc(hits + 1, misses, p)) if misses > 0 else 0.0
        return (float(betainc(hits, misses + 1, p)) + more) / 2 - outside

    low, high = 0.0, 1.0
    for _ in range(42):  # to 1e-13
        middle = (low + high) / 2
        low, high = (middle, high) if tail(middle) < 0 else (low, middle)
    return (low + high) / 2


def wilson(hits: float, rows: float) -> Share:
    """Wilson's interval (1927), which keeps its level in the mean over shares, not at each of them."""
    from scipy.special import ndtri

    if rows <= 0:
        return UNKNOWN
    z, share = float(ndtri((1 + LEVEL) / 2)), hits / rows
    centre, shrink = share + z**2 / (2 * rows), 1 + z**2 / rows
    half = z * math.sqrt(share * (1 - share) / rows + z**2 / (4 * rows**2))
    return Share(share, max(0.0, (centre - half) / shrink), min(1.0, (centre + half) / shrink), rows)


def stratified(hits: ArrayLike, rows: ArrayLike, weights: ArrayLike, *, population: float = math.inf) -> Share:
    """Σ_s weight_s · hits_s / rows_s for a population of that mix.

    ``population``: how many rows it has; in a small one the share itself is a draw, and the interval holds that draw.
    """
    hit, row, weight = (np.asarray(values, dtype=np.float64) for values in (hits, rows, weights))
    if not np.isclose(weight.sum(), 1) or (weight < 0).any() or (row[weight > 0] <= 0).any():
        raise UnderstudyError("strata need weights that sum to 1, and rows wherever the weight is not 0; merge strata")
    counts = weight > 0
    hit, row, weight = hit[counts], row[counts], weight[counts]
    share = float(weight @ (hit / row))
    overall = (hit.sum() + 0.5) / (row.sum() + 1)
    leaning = (hit + LEAN * overall) / (row + LEAN)
    centre = float(weight @ leaning)
    spread = centre * (1 - centre)
    variance = float(weight**2 @ (leaning * (1 - leaning) / row)) + spread / population
    effective = spread / variance
    return exact(share * effective, effective)


def two_sided(hits: int, rows: int) -> float:
    """Exact binomial p-value of "as often as not"; 1 without rows."""
    from scipy.special import bdtr

    return 1.0 if rows == 0 else min(1.0, 2 * float(bdtr(min(hits, rows - hits), rows, 0.5)))


def holm(p_values: ArrayLike) -> Floats:
    """p-values corrected for having looked at several, in their order (Holm, 1979)."""
    given = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(given, kind="stable")
    stepped = np.maximum.accumulate(given[order] * (len(given) - np.arange(len(given))))
    corrected = np.empty_like(given)
    corrected[order] = np.minimum(stepped, 1)
    return corrected


def placements(score: Floats, kind: Bools) -> Floats:
    """Of each row, the share of the rows of the other kind that are ranked on its right side; ties count half. The mean
    over either kind is the area under the ROC curve."""
    placed = _ranks(score)
    placed[kind] = (placed[kind] - _ranks(score[kind])) / (~kind).sum()
    placed[~kind] = 1 - (placed[~kind] - _ranks(score[~kind])) / kind.sum()
    return placed


def _ranks(score: Floats) -> Floats:
    """From 1; ties share the mean of theirs."""
    _, distinct, counts = np.unique(score, return_inverse=True, return_counts=True)
    return np.asarray((counts.cumsum() - (counts - 1) / 2)[distinct])


def area(scores: ArrayLike, is_kind: ArrayLike) -> Share:
    """The area under the ROC curve of ``scores``; unknown where all rows are of one kind."""
    score, kind = np.asarray(scores, dtype=np.float64), np.asarray(is_kind, dtype=bool)
    ours, others = int(kind.sum()), int((~kind).sum())
    if not ours or not others:
        return UNKNOWN
    estimate = placements(score, kind)[kind].mean()
    pulled = (estimate * ours * others + 0.5) / (ours * others + 1)
    both_ours, both_others = pulled / (2 - pulled), 2 * pulled**2 / (1 + pulled)
    variance = (
        pulled * (1 - pulled) + (ours - 1) * (both_ours - pulled**2) + (others - 1) * (both_others - pulled**2)
    ) / (ours * others)
    from scipy.special import ndtri

    half = float(ndtri((1 + LEVEL) / 2)) * math.sqrt(variance)
    return Share(float(estimate), max(0.0, float(pulled) - half), min(1.0, float(pulled) + half), ours + others)
