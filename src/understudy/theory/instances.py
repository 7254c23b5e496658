"""The synthetic problems on which the linear theory is shown: whole samples, drawn with a given generator.

- `noisy_halfspace`: a γ-margin halfspace on the unit sphere whose label noise depends on the example, as
  Theorem E.1 of SLaM's paper allows it and random classification noise does not.
- `rotated_labels`: Proposition E.3 of Weighted Distillation. The noisy labels are those of a *rotated*
  halfspace, so the naive objective is minimised by the wrong one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import beta

from understudy.errors import UnderstudyError
from understudy.theory.reweighted_sgd import NoisyRows


@dataclass(frozen=True)
class NoisyHalfspace:
    """Rows x with noisy labels y (0 or 1), the clean labels, and each label's chance alpha of being right."""

    x: NDArray[np.float64]
    y: NDArray[np.int64]
    clean: NDArray[np.int64]
    alpha: NDArray[np.float64]


def noisy_halfspace(
    n: int,
    *,
    rng: np.random.Generator,
    dimensions: int = 20,
    margin: float = 0.1,
    flip: tuple[float, float] = (0.05, 0.45),
) -> NoisyHalfspace:
    """Uniform on the unit sphere without the slab |w*·x| < margin; only positives are flipped.

    The flip probability of a positive is flip[0] on one side of a direction orthogonal to w*, flip[1] on the
    other. w* and that direction are the first two axes: every method here is blind to rotations.
    """
    x = _sphere_outside_slab(n, dimensions, margin, rng)
    clean = (x[:, 0] > 0).astype(np.int64)
    chance = np.where(clean == 1, np.where(x[:, 1] > 0, flip[1], flip[0]), 0.0)
    y = np.where(rng.random(n) < chance, 1 - clean, clean)
    return NoisyHalfspace(x=x, y=y, clean=clean, alpha=1 - chance)


def rotated_labels(n: int, *, noise: float, dimensions: int, radius: float, generator: torch.Generator) -> NoisyRows:
    """Proposition E.3: x uniform on a sphere, clean labels sign(θ*·x), noisy labels sign(θ̃·x), angle πc.

    θ* is the first axis and θ̃ lies in the plane of the first two; `noise` is c, the share of wrong labels.
    The noise is a function of x: its flip probability p(x) is 1 where the two halfspaces differ, else 0.
    """
    if not 0 <= noise <= 1:
        raise UnderstudyError(f"noise is {noise}; it is the share of wrong labels and must lie in [0, 1]")
    x = torch.randn(n, dimensions, dtype=torch.float64, generator=generator)
    x = radius * x / x.norm(dim=1, keepdim=True)
    clean = torch.where(x[:, 0] > 0, 1.0, -1.0).double()
    noisy = torch.where(x @ rotated_direction(noise, dimensions) > 0, 1.0, -1.0).double()
    return NoisyRows(x, observed=noisy, clean=clean, corrupted=-clean, flip=(noisy != clean).double())


def rotated_direction(noise: float, dimensions: int) -> torch.Tensor:
    """θ̃ of `rotated_labels`: the naive objective's minimiser over the unit ball."""
    theta = torch.zeros(dimensions, dtype=torch.float64)
    theta[0], theta[1] = math.cos(math.pi * noise), math.sin(math.pi * noise)
    return theta


def failing_radius(noise: float, dimensions: int) -> float:
    """A radius 2 √d / c at which the best clean risk is below c/2, as Proposition E.3's proof needs it.

    ∫ log(1 + e^−s) ds = π²/12 over s > 0, and a coordinate of the unit sphere has density about √(d / 2π) at
    0, so the best risk is about 0.66 √d / radius: a third of c. The proof's other half, R(θ̃) ≥ c, takes
    log(1 + e^s) ≥ 1 for s > 0, where only log 2 is true; but at this radius R(θ̃) is between 1.9c (c = 1) and
    4.4c (c → 0) for d = 10, so the claimed excess of c/2 holds all the same.
    """
    return 2 * math.sqrt(dimensions) / noise


def _sphere_outside_slab(n: int, dimensions: int, margin: float, rng: np.random.Generator) -> NDArray[np.float64]:
    if not 0 <= margin < 1 or dimensions < 2:
        raise UnderstudyError(f"margin {margin} in {dimensions} dimensions; give 0 ≤ margin < 1 and dimensions ≥ 2")
    # The first coordinate's square is Beta(1/2, (d − 1)/2); its tail is drawn exactly, by inversion.
    law = beta(0.5, (dimensions - 1) / 2)
    first = np.sqrt(law.isf(rng.random(n) * law.sf(margin**2))) * rng.choice([-1.0, 1.0], n)
    rest = rng.standard_normal((n, dimensions - 1))
    rest *= (np.sqrt(1 - first**2) / np.linalg.norm(rest, axis=1))[:, None]
    return np.column_stack([first, rest])
