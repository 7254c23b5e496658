"""Has a share changed? An exact test before against after, within strata, and an interval that holds at every look.

    compare_counts(rows, late, hits, seen)      # by anchor: its answers, the later ones; right ones of both
    confidence_sequence(450, 500)               # 90%, with an interval that may be looked at after every row

If nothing changed, the answers of a stratum could have come in any order: how many of the right ones are among the
later ones is hypergeometric. The sum over strata has its distribution by convolution (Mantel and Haenszel 1959; Birch
1964); with two answers each it is McNemar's exact test. Strata whose answers are all alike, or all early or all late,
say nothing. How often each stratum is right is no part of it, so that nothing needs to be estimated.
"""

from dataclasses import dataclass

import numpy as np

from understudy.maths.proportions import LEVEL, UNKNOWN, Floats, Ints, Share


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


def compare_counts(rows: Ints, late: Ints, hits: Ints, seen: Ints, *, beyond: float = 0.0) -> list[ChangeTest]:
    """Whether hits are rarer or more frequent later than before, of Q kinds of hits.

    ``(S,)``: the answers and the later ones of each stratum; ``(S, Q)``: the hits, and those among the later answers.
    ``beyond``: a number of standard deviations; where the hits are fewer off, both chances are called 1, which is never
    too small and saves most of the work.
    """
    compared = (late > 0) & (late < rows)
    rows, late, hits, seen = (counts[compared] for counts in (rows, late, hits, seen))
    found, expected = seen.sum(0), late / rows @ hits
    weight = late * (rows - late) / rows
    variance = weight / rows / np.maximum(rows - 1, 1) @ (hits * (rows[:, None] - hits))
    tests = []
    for kind, off in enumerate(found - expected):
        far = not beyond or off**2 > beyond**2 * variance[kind]
        chances = _tails(rows, late, hits[:, kind], seen[:, kind]) if far else (1.0, 1.0)
        difference = float(off / weight.sum()) if len(weight) else 0.0
        tests.append(ChangeTest(int(found[kind]), float(expected[kind]), int(late.sum()), difference, *chances))
    return tests


def _tails(rows: Ints, late: Ints, hits: Ints, seen: Ints) -> tuple[float, float]:
    """The chances of at most, and of at least, so many hits among the later answers."""
    mixed = (hits > 0) & (hits < rows)
    kinds, counts = np.unique(np.stack([rows, hits, late])[:, mixed], axis=1, return_counts=True)
    chances, place = _sum_distribution(kinds.T, counts), int(seen[mixed].sum())
    return min(1.0, float(chances[: place + 1].sum())), min(1.0, float(chances[place:].sum()))


def _sum_distribution(kinds: Ints, counts: Ints) -> Floats:
    """Probabilities of 0, 1, … hits among the later answers of all strata, of which ``counts`` are of each kind."""
    from scipy.stats import hypergeom

    chances = np.ones(1)
    for (rows, hits, late), count in zip(kinds.tolist(), counts.tolist(), strict=True):
        power = hypergeom.pmf(np.arange(late + 1), rows, hits, late)
        while count:  # by squaring
            chances = np.convolve(chances, power) if count & 1 else chances
            count >>= 1
            power = np.convolve(power, power) if count else power
    return chances


def confidence_sequence(hits: int, rows: int) -> Share:
    """The share of hits with an interval that holds at all looks together with probability 95%.

    All shares p at which the likelihood ratio of a uniform mixture to p is below 1 / (1 − 0.95) (Robbins 1970; Howard
    et al. 2021). The ratio is a martingale where every row is a hit with chance p given those before; under draws
    without replacement its mean only falls (Maclaurin's inequality).
    """
    from scipy.optimize import brentq
    from scipy.special import betaln, xlog1py, xlogy

    if not rows:
        return UNKNOWN
    mixture, limit = betaln(1 + hits, 1 + rows - hits), -np.log1p(-LEVEL)

    def excess(p: float) -> float:
        return float(mixture - xlogy(hits, p) - xlog1py(rows - hits, -p) - limit)

    share = hits / rows
    low = 0.0 if hits == 0 else brentq(excess, 1e-12 * share, share)
    high = 1.0 if hits == rows else brentq(excess, share, 1 - 1e-12 * (1 - share))
    return Share(share, float(low), float(high), rows)
