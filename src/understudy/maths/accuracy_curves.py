"""Curves of top-k accuracy: what a ranking of the classes says for every k, and isotonic steps against it.

*Covariates.* Class probabilities in descending order, possibly only the first K of C. For the k-th column the covariate
is ``topk_margin(p, k)`` or minus ``grouped_entropy(p, k)``; computing all of them from one sort costs O(C) per row
instead of O(C²). They need no order of the classes and, for margins, only the k + 1 largest entries: ``leading`` gives
just those, over ten times faster than a stable sort.

*Steps.* ``sklearn.isotonic.IsotonicRegression`` interpolates between the fitted points; an accuracy estimate must not
invent values there, so the curve stays a step function: the value at c is the fitted value of the smallest training
covariate >= c, and the last value beyond the end. The pool-adjacent-violators fit itself is scipy's.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression
from torch import Tensor


class Leading(NamedTuple):
    """The K largest entries ``(n, K)``, descending float64, without their classes; ``rest (n,)`` is the next largest.

    Grouped certainties need all the mass: read them off only where each unlisted class holds ``rest``.
    """

    probs: Tensor
    rest: Tensor
    classes: int

    @property
    def depths(self) -> int:
        """How many k have a covariate: top-k for k = 1 … depths, k < classes."""
        return min(self.probs.shape[1], self.classes - 1)


def leading(probs: Tensor, depth: int) -> Leading:
    """The ``depth`` largest entries of dense rows and the one after them."""
    classes = probs.shape[1]
    # numpy's float sorts are vectorised: 5 µs for 1,000 entries where a stable argsort takes 65.
    entries = (probs if probs.dtype in (torch.float32, torch.float64) else probs.float()).cpu().numpy()
    if depth + 1 < classes:
        cut = classes - depth - 1
        entries = np.partition(entries, cut, axis=1)[:, cut:]
    # Column by column in memory, as the covariates are read.
    largest = torch.from_numpy(np.sort(entries, axis=1)[:, ::-1].astype(np.float64, order="F"))
    rest = largest[:, depth] if depth < classes else largest.new_zeros(len(largest))
    return Leading(largest[:, :depth], rest, classes)


def positions(probs: Tensor, labels: Tensor) -> Tensor:
    """How many classes stand before the label in a row's ranking (equal entries in class order), ``(n,)``."""
    own = probs.gather(1, labels.unsqueeze(1))
    earlier = torch.arange(probs.shape[1]) < labels.unsqueeze(1)
    return ((probs > own) | ((probs == own) & earlier)).sum(1)


def margins_in_turn(scores: Leading) -> Iterator[Tensor]:
    """``topk_margin(p, k)`` for k = 1, 2, … depths, one ``(n,)`` at a time."""
    head = torch.zeros_like(scores.rest)
    for k in range(scores.depths):
        head = head + scores.probs[:, k]
        yield head - (scores.probs[:, k + 1] if k + 1 < scores.probs.shape[1] else scores.rest)


def certainties_in_turn(scores: Leading) -> Iterator[Tensor]:
    """``−grouped_entropy(p, k)`` for k = 1, 2, … depths, one ``(n,)`` at a time: larger is surer, like a margin."""
    head = scores.probs.cumsum(1)
    pieces = scores.probs.xlogy(scores.probs)
    unlisted = (scores.classes - scores.probs.shape[1]) * scores.rest.xlogy(scores.rest)
    after = pieces.sum(1, keepdim=True) - pieces.cumsum(1) + unlisted.unsqueeze(1)
    yield from (head.xlogy(head) + after)[:, : scores.depths].unbind(1)


@dataclass(frozen=True)
class StepCurve:
    """``values[j]`` holds on ``(knots[j-1], knots[j]]``; the first reaches down to −∞, the last up to +∞."""

    knots: Tensor
    values: Tensor

    def __call__(self, covariate: Tensor) -> Tensor:
        covariate = covariate.double().contiguous()
        if len(covariate) >= _MANY and self._buckets is not None:
            return self._buckets(covariate)
        step = torch.searchsorted(self.knots, covariate)
        return self.values[step.clamp(max=len(self.knots) - 1)]

    @cached_property
    def _buckets(self) -> "_Buckets | None":
        return _Buckets.of(self)

    def cutoff(self, level: float) -> float:
        """The curve is >= level exactly for covariates strictly greater than this (−∞ always, +∞ never)."""
        reached = int(torch.searchsorted(self.values, level))
        if reached == len(self.values):
            return float("inf")
        return float("-inf") if reached == 0 else float(self.knots[reached - 1])


# From this many lookups on, a table of buckets (built once, 20 µs) beats binary search about threefold.
_MANY = 4096
_BUCKETS = 4096
# Knots that may share a bucket before the extra comparisons cost more than binary search.
_CROWDED = 6


@dataclass(frozen=True)
class _Buckets:
    """Exact lookups without binary search: a bucket tells which knots lie surely below, a few comparisons the rest.

    ``bucket`` never decreases in its argument (also in floating point), so a knot in an earlier bucket is smaller.
    """

    low: float
    scale: float
    below: Tensor
    """How many knots lie in earlier buckets, per bucket."""
    crowd: int
    """The most knots in one bucket."""
    knots: Tensor
    values: Tensor

    @staticmethod
    def of(curve: StepCurve) -> "_Buckets | None":
        low, high = float(curve.knots[0]), float(curve.knots[-1])
        scale = _BUCKETS / (high - low) if high > low else 1.0
        if not np.isfinite([low, high, scale]).all():
            return None
        counts = torch.bincount(_bucket(curve.knots, low, scale), minlength=_BUCKETS)
        if int(counts.max()) > _CROWDED:
            return None
        # One more knot at +∞ with the last value: covariates beyond the end need no care.
        knots = torch.cat([curve.knots, curve.knots.new_full((1,), float("inf"))])
        values = torch.cat([curve.values, curve.values[-1:]])
        return _Buckets(low, scale, counts.cumsum(0) - counts, int(counts.max()), knots, values)

    def __call__(self, covariate: Tensor) -> Tensor:
        step = self.below[_bucket(covariate, self.low, self.scale)]
        for _ in range(self.crowd):
            step += self.knots[step] < covariate
        return self.values[step]


def _bucket(covariate: Tensor, low: float, scale: float) -> Tensor:
    return ((covariate - low) * scale).clamp_(0, _BUCKETS - 1).long()


def fit_steps(
    covariate: NDArray[np.float64],
    response: NDArray[np.float64],
    *,
    weights: NDArray[np.float64] | None = None,
    lower: float = 0.0,
    upper: float = 1.0,
) -> StepCurve:
    """Non-decreasing fit with values in [lower, upper]; rows with equal covariates share one value.

    Clipping the ordinary isotonic fit is the constrained least-squares solution, so no other solver is needed.
    """
    weights = np.ones_like(response, dtype=np.float64) if weights is None else weights
    knots, group = np.unique(covariate, return_inverse=True)
    mass = np.bincount(group, weights=weights)
    mean = np.bincount(group, weights=weights * response) / mass
    fitted = np.clip(isotonic_regression(mean, weights=mass).x, lower, upper)
    # Runs of equal values are one step: keep each run's last knot. A curve has few steps, so lookups stay cheap.
    last = np.append(fitted[1:] != fitted[:-1], True)
    return StepCurve(torch.from_numpy(knots[last]), torch.from_numpy(fitted[last]))
