"""Has a share changed? An exact test before against after, within strata, and an interval that holds at every look.

    change_test(anchor, after, right)       # (M,) each: whose answer, whether it is a later one, whether it is right
    confidence_sequence(450, 500)           # 90%, with an interval that may be looked at after every row

If nothing changed, the answers of a stratum could have come in any order: how many of the right ones are among the
later ones is hypergeometric. The sum over strata has its distribution by convolution (Mantel and Haenszel 1959; Birch
1964); with two answers each it is McNemar's exact test. Strata whose answers are all alike, or all early or all late,
say nothing. How often each stratum is right is no part of it, so that nothing needs to be estimated.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from understudy.maths.proportions import LEVEL, Share

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class ChangeTest:
    #: Hits among the later answers, and how many were to be expected.
    seen: int
    expected: float
    #: Later answers of strata that have both, and their share less that of the earlier ones (Mantel and Haenszel).
    rows: int
    difference: float
    #: The chance of so few, or of so many, hits if nothing changed.
    fell: float
    rose: float


def change_test(stratum: Ints, after: NDArray[np.bool_], hit: NDArray[np.bool_], *, beyond: float = 0.0) -> ChangeTest:
    """Whether hits are rarer or more frequent ``after`` than before, stratum by stratum; ``beyond``: see below."""
    size = int(stratum.max(initial=-1)) + 1
    parts = (slice(None), hit, after, after & hit)
    return compare_counts(*(np.bincount(stratum[part], minlength=size) for part in parts), beyond=beyond)


def compare_counts(rows: Ints, hits: Ints, late: Ints, seen: Ints, *, beyond: float = 0.0) -> ChangeTest:
    """By stratum: answers, hits, later answers, and hits among these.

    ``beyond``: a number of standard deviations; where the hits are fewer off, both chances are called 1, which is
    never too small and saves most of the work.
    """
    compared = (late > 0) & (late < rows)
    rows, hits, late, seen = (counts[compared] for counts in (rows, hits, late, seen))
    found, expected = int(seen.sum()), float((late * hits / rows).sum())
    weight = float((late * (rows - late) / rows).sum())
    difference = (found - expected) / weight if weight else 0.0
    mixed = (hits > 0) & (hits < rows)
    variance = (late * (rows - late) / rows * (hits * (rows - hits) / rows) / np.maximum(rows - 1, 1)).sum()
    if (found - expected) ** 2 <= beyond**2 * variance:
        return ChangeTest(found, expected, int(late.sum()), difference, 1.0, 1.0)
    kinds, counts = np.unique(np.stack([rows, hits, late])[:, mixed], axis=1, return_counts=True)
    chances, place = _sum_distribution(kinds.T, counts), int(seen[mixed].sum())
    fell, rose = (min(1.0, float(part.sum())) for part in (chances[: place + 1], chances[place:]))
    return ChangeTest(found, expected, int(late.sum()), difference, fell, rose)


def _sum_distribution(kinds: Ints, counts: Ints) -> Floats:
    """Probabilities of 0, 1, … hits among the later answers of all strata, of which ``counts`` are of each kind."""
    chances = np.ones(1)
    for (rows, hits, late), count in zip(kinds.tolist(), counts.tolist(), strict=True):
        power = _hypergeometric(rows, hits, late)
        while count:  # by squaring
            chances = np.convolve(chances, power) if count & 1 else chances
            count >>= 1
            power = np.convolve(power, power) if count else power
    return chances


def _hypergeometric(rows: int, hits: int, late: int) -> Floats:
    """Probabilities of 0 to ``late`` hits among that many of the rows."""
    from scipy.special import gammaln

    x = np.arange(max(0, late - (rows - hits)), min(late, hits) + 1)
    ways = (hits, x), (rows - hits, late - x)
    log = sum(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1) for n, k in ways)
    total = gammaln(rows + 1) - gammaln(late + 1) - gammaln(rows - late + 1)
    chances = np.zeros(late + 1)
    chances[x] = np.exp(log - total)
    return chances


def confidence_sequence(hits: int, rows: int, *, level: float = LEVEL) -> Share:
    """The share of hits with an interval that holds at all looks together with probability ``level``.

    All shares p at which the likelihood ratio of a uniform mixture to p is below 1 / (1 − level) (Robbins 1970; Howard
    et al. 2021). The ratio is a martingale where every row is a hit with chance p given those before; under draws
    without replacement its mean only falls (Maclaurin's inequality).
    """
    from scipy.optimize import brentq
    from scipy.special import betaln, xlog1py, xlogy

    if not rows:
        return Share(float("nan"), 0.0, 1.0, 0.0)
    mixture, limit = betaln(1 + hits, 1 + rows - hits), -np.log1p(-level)

    def excess(p: float) -> float:
        return float(mixture - xlogy(hits, p) - xlog1py(rows - hits, -p) - limit)

    share = hits / rows
    low = 0.0 if hits == 0 else brentq(excess, 1e-12 * share, share)
    high = 1.0 if hits == rows else brentq(excess, share, 1 - 1e-12 * (1 - share))
    return Share(share, float(low), float(high), rows)
