"""Seeds until it is decided, with an error rate that is kept.

A difference over seeds is looked at when there are 3, 5, 8, 12 and 20 of them, each time by the paired t-test of the
seeds so far. Every look may spend a fifth of 5%, so that the chance to err at any of them is at most 5%, however often
one stops early and whatever decided which experiment got more seeds (Bonferroni's bound needs no independence;
simulated under the null it is 4.0%). As a p-value: the smallest of the looks so far, times five. It can only
fall when seeds are added, so claims of one table are corrected among each other by Holm's rule at any time.

    found = evidence([0.021, 0.018, 0.025], delta=0.01)
    found.p, found.interval, found.p_within     # sequential p-value, 99% interval of the last look, equivalence
    holm([found.p, 0.03])
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from scipy.special import ndtr, stdtr, stdtrit

from understudy.comparison.interval import Interval

LOOKS = (3, 5, 8, 12, 20)
ERROR = 0.05


@dataclass(frozen=True)
class Evidence:
    """What the looks so far say of one difference."""

    interval: Interval
    """At the last look, at the level that this look may spend (99%): all five hold at once with 95%."""
    p: float = 1.0
    """Two-sided, that the mean is ``limit``; of all looks together."""
    above: bool = False
    """On which side of the limit the decisive look found it."""
    seeds: int = 0
    """How many the decisive look had; 0 before the first look."""
    p_within: float = 1.0
    """That the mean is not inside ±delta; of all looks together."""
    seeds_within: int = 0


def evidence(values: Sequence[float], *, limit: float = 0.0, delta: float | None = None) -> Evidence:
    """``values``: one per seed, in the order of seeds. Those beyond the last look wait for the next."""
    looks = [Interval.of(values[:count]) for count in LOOKS if count <= len(values)]
    if not looks:
        return Evidence(_widened(Interval.of(values)))
    shifted = [replace(look, mean=look.mean - limit) for look in looks]
    first = min(shifted, key=lambda look: look.p_value)
    inside = min(looks, key=lambda look: _p_within(look, delta))
    return Evidence(
        _widened(looks[-1]),
        p=_spent(first.p_value),
        above=first.mean > 0,
        seeds=first.count,
        p_within=_spent(_p_within(inside, delta)),
        seeds_within=inside.count,
    )


def _spent(p: float) -> float:
    return min(1.0, len(LOOKS) * p)


def _widened(look: Interval) -> Interval:
    if look.count < 2:
        return look
    half = float(stdtrit(look.freedom, 1 - ERROR / len(LOOKS) / 2)) * look.error
    return replace(look, low=look.mean - half, high=look.mean + half)


def _p_within(look: Interval, delta: float | None) -> float:
    """The larger p-value of the two one-sided tests, of the mean being at most −delta and at least delta."""
    if delta is None:
        return 1.0
    room = delta - abs(look.mean)
    if look.error == 0:
        return 0.0 if room > 0 else 1.0
    return float(stdtr(look.freedom, -room / look.error))


def holm(values: Sequence[float]) -> list[float]:
    """p-values corrected for being several: the smallest times their number, the next times one less, …, rising."""
    order = sorted(range(len(values)), key=values.__getitem__)
    adjusted, highest = [0.0] * len(values), 0.0
    for rank, number in enumerate(order):
        highest = max(highest, min(1.0, (len(values) - rank) * values[number]))
        adjusted[number] = highest
    return adjusted


def chance(
    values: Sequence[float], at: int, *, limit: float = 0.0, delta: float | None = None, among: int = 1
) -> float:
    """About how likely a look at ``at`` seeds decides, were the mean and spread so far the true ones.

    ``among``: how many claims of the table are still open, as Holm's rule will count them. Only an order of work is
    made from this, never an answer.
    """
    now = Interval.of(values)
    spread = now.error * math.sqrt(now.count)
    if now.count < 2 or spread == 0:
        return 0.0
    level = ERROR / len(LOOKS)
    scale = math.sqrt(at) / spread
    differs = abs(now.mean - limit) * scale - float(stdtrit(at - 1, 1 - level / among / 2))
    inside = -math.inf if delta is None else (delta - abs(now.mean)) * scale - float(stdtrit(at - 1, 1 - level))
    return float(ndtr(max(differs, inside)))
