"""Isotonic step curves: the least-squares non-decreasing fit, kept as steps.

``sklearn.isotonic.IsotonicRegression`` interpolates between the fitted points; an accuracy estimate must not invent
values there, so the curve stays a step function: the value at c is the fitted value of the smallest training
covariate >= c, and the last value beyond the end. The pool-adjacent-violators fit itself is scipy's.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression
from torch import Tensor


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
