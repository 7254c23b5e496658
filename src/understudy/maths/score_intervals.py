"""Intervals of what a population is made of, from few trusted rows and very many with a proxy: Wilson's, stratified.

A proxy, e.g. an imperfect label, sorts the population into strata of known size; trusted rows tell the share p_s of
hits in each. What is wanted is a number θ that makes a linear equation of these shares true:

    Σ_s c_s(θ) · p_s = t(θ)

A share of the population is c = the strata's weights, t = θ; recall, F1 and differences are of this form too. An
interval holds every θ that the score test does not reject: the estimate of the left side is compared with its standard
error *under the hypothesis*, from the shares p̃(θ) that are most likely among those that fulfil the equation. With one
stratum this is Wilson's (1927) interval; with two groups as strata, Miettinen and Nurminen's (1985) of a difference.
The usual standard error at the estimate itself, as in prediction-powered inference, is 0 where no hit was seen, and
rare classes get intervals that hold the truth far too seldom (``experiments/estimate_coverage.py``).

Constrained shares: x/p − (n − x)/(1 − p) = μ c, a quadratic in p for each stratum, with one multiplier μ for all.

    low, high = score_intervals(hits, rows, strata, …)     # (Q, S) each; ends (Q,)
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from understudy.maths.proportions import LEVEL

Floats = NDArray[np.float64]
#: θ ``(Q, K)`` -> c ``(Q, K, S)`` or ``(Q, 1, S)``, t ``(Q, K)``. Σ c p̂ − t must fall in θ.
Equation = Callable[[Floats], tuple[Floats, Floats]]
# An end is sought on a grid, then within the step of it: (1/POINTS)^ROUNDS is 3e-8.
POINTS, ROUNDS = 32, 5
# The multiplier lies within ± sinh(35), 8e14, and is halved to 1e-12 of that scale.
SPAN, HALVINGS = 35.0, 46


def score_intervals(
    hits: Floats, rows: Floats, population: Floats, equation: Equation, estimate: Floats, *,
    lowest: float = 0.0, level: float = LEVEL,
) -> tuple[Floats, Floats]:  # fmt: skip
    """The lower and upper ends ``(Q,)`` of Q intervals within [lowest, 1].

    ``hits``, ``rows`` (above 0; fractions are allowed): of the trusted rows, per stratum ``(Q, S)``. ``population``:
    how many rows each stratum stands for; their own share is a draw too, and the interval holds that draw. A stratum
    that an equation does not use has c = 0.
    """
    from scipy.special import ndtri  # as in proportions.py: not needed to load a run

    critical = float(ndtri((1 + level) / 2))
    hits, rows, population = hits[:, None], rows[:, None], population[:, None]
    steps = np.arange(1, POINTS + 1) / POINTS
    ends = []
    for border in (lowest, 1.0):
        inside, outside = estimate, np.full_like(estimate, border)
        for _ in range(ROUNDS):
            grid = inside[:, None] + (outside - inside)[:, None] * steps
            accepted = np.abs(score_statistic(hits, rows, population, *equation(grid))) <= critical
            held = np.logical_and.accumulate(accepted, axis=1).sum(1)
            inside, outside = (
                inside + (outside - inside) * np.minimum(held + more, POINTS) / POINTS for more in (0, 1)
            )
        ends.append(inside)
    return ends[0], ends[1]


def score_statistic(hits: Floats, rows: Floats, population: Floats, c: Floats, t: Floats) -> Floats:
    """(Σ c p̂ − t) over its standard error under the hypothesis, shaped like t; infinite where it is impossible."""
    p = constrained_shares(hits, rows, c, t)
    variance = (c**2 * p * (1 - p) * (1 / rows + 1 / population)).sum(-1)
    gap = (c * hits / rows).sum(-1) - t
    impossible = np.abs((c * p).sum(-1) - t) > 1e-6 * np.abs(c).sum(-1)
    error = np.sqrt(np.maximum(variance, 1e-300))
    return np.where(impossible, np.copysign(np.inf, gap), np.where(np.abs(gap) < 1e-12, 0.0, gap / error))


def constrained_shares(hits: Floats, rows: Floats, c: Floats, t: Floats) -> Floats:
    """The most likely shares with Σ c p = t; where there are none, those that come closest."""
    low, high = np.full_like(t, -SPAN), np.full_like(t, SPAN)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        above = (c * _shares(hits, rows, c * np.sinh(middle)[..., None])).sum(-1) > t
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return _shares(hits, rows, c * np.sinh((low + high) / 2)[..., None])


def _shares(hits: Floats, rows: Floats, pull: Floats) -> Floats:
    """The root in [0, 1] of pull · p² − (rows + pull) · p + hits = 0."""
    half = rows + pull
    root = np.sqrt(np.maximum(half**2 - 4 * pull * hits, 0))
    # Two ways to write one root: each is exact where the other loses digits.
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.clip(np.where(half > 0, 2 * hits / (half + root), (half - root) / (2 * pull)), 0, 1)
