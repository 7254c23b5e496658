"""Isotonic step curves: the least-squares non-decreasing fit, kept as steps.

``sklearn.isotonic.IsotonicRegression`` interpolates between the fitted points; an accuracy estimate must not invent
values there, so the curve stays a step function: the value at c is the fitted value of the smallest training
covariate >= c, and the last value beyond the end. The pool-adjacent-violators fit itself is scipy's.
"""

from dataclasses import dataclass

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
        place = torch.searchsorted(self.knots, covariate.double().contiguous())
        return self.values[place.clamp(max=len(self.knots) - 1)]

    def cutoff(self, level: float) -> float:
        """The curve is >= level exactly for covariates strictly greater than this (−∞ always, +∞ never)."""
        reached = int(torch.searchsorted(self.values, level))
        if reached == len(self.values):
            return float("inf")
        return float("-inf") if reached == 0 else float(self.knots[reached - 1])


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
