"""The landscape of SLaM's loss for a halfspace in the plane (SLaM, Figure 8).

Rows on the unit circle with a margin to the truth w*; every label is right with probability alpha(x), which varies over
the circle. The loss of a weight vector w is the mean of ce(p(y | x), mix(f(x; w); alpha(x))) over the rows, by the
mixing that ``us.slam`` trains with, so noise is averaged out exactly. On a grid of w, three shares are measured: where
a gradient step gains on w* (⟨−∇L(w), w*⟩ > 0), of pairs of grid points whose midpoint lies above the chord (which no
convex loss has), and of gradient descent with normalised steps from random starts, the rows that end up on the right
side.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from experiments.sweep import Cell
from understudy.maths.losses import cross_entropy
from understudy.maths.mixing import slam_mix

# Weight vectors looked at together: with 1,000 rows some MB for each temporary.
CHUNK = 64


@dataclass(frozen=True)
class Landscape:
    data: str = "made"
    rows: int = 1_000
    margin: float = 0.1
    alpha: tuple[float, float] = (0.55, 0.95)
    reach: float = 10.0
    """The grid covers [−reach, reach]²."""
    points: int = 21
    pairs: int = 500
    steps: int = 150
    starts: int = 8
    seeds: int = 3

    @property
    def columns(self) -> tuple[str, ...]:
        return ("SLaM's loss", "cross-entropy")

    def measure(self, column: str, seed: int) -> list[Cell]:
        generator = torch.Generator().manual_seed(seed)
        x, alpha, truth = self._rows(generator)
        trusted = alpha if column == "SLaM's loss" else torch.ones_like(alpha)
        axis = torch.linspace(-self.reach, self.reach, self.points, dtype=torch.float64)
        grid = torch.cartesian_prod(axis, axis)
        grid = grid[grid.norm(dim=1) > 1e-6]
        gradients, losses = gradients_and_losses(grid, x, alpha, trusted)
        gaining = float((-(gradients @ truth) > 0).double().mean())
        first, second = torch.randint(len(grid), (2, self.pairs), generator=generator)
        middle = gradients_and_losses((grid[first] + grid[second]) / 2, x, alpha, trusted)[1]
        above = float((middle > (losses[first] + losses[second]) / 2 + 1e-9).double().mean())
        return [
            Cell("steps that gain on the truth", column, seed, gaining),
            Cell("midpoints above the chord", column, seed, above),
            Cell("rows right after descent", column, seed, self._descend(x, alpha, trusted, truth, generator)),
        ]

    def _rows(self, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        """Angles outside the margin; alpha changes slowly with the angle, with a phase of the seed's own."""
        angle = 2 * math.pi * torch.rand(4 * self.rows, generator=generator, dtype=torch.float64)
        angle = angle[angle.cos().abs() > self.margin][: self.rows]
        phase = 2 * math.pi * torch.rand(1, generator=generator, dtype=torch.float64)
        low, high = self.alpha
        alpha = low + (high - low) * (1 + (angle + phase).sin()) / 2
        truth = torch.tensor([1.0, 0.0], dtype=torch.float64)
        return torch.stack([angle.cos(), angle.sin()], 1), alpha, truth

    def _descend(self, x: Tensor, alpha: Tensor, trusted: Tensor, truth: Tensor, generator: torch.Generator) -> float:
        w = self.reach * (2 * torch.rand(self.starts, 2, generator=generator, dtype=torch.float64) - 1)
        for step in range(self.steps):
            gradient = gradients_and_losses(w, x, alpha, trusted)[0]
            # Where the landscape is flat the gradient's size says little; its direction still does.
            w = w - gradient / gradient.norm(dim=1, keepdim=True).clamp(min=1e-12) / math.sqrt(1 + step)
        return float(((x @ w.T > 0) == (x @ truth > 0)[:, None]).double().mean())

    def check(self) -> None:
        pass


def gradients_and_losses(w: Tensor, x: Tensor, alpha: Tensor, trusted: Tensor) -> tuple[Tensor, Tensor]:
    """Of every w (P, 2): ∇L (P, 2) and L (P,). ``alpha`` makes the labels, ``trusted`` is what the loss assumes."""
    parts = [_gradients_and_losses(part, x, alpha, trusted) for part in w.split(CHUNK)]
    gradients, losses = zip(*parts, strict=True)
    return torch.cat(gradients), torch.cat(losses)


def _gradients_and_losses(w: Tensor, x: Tensor, alpha: Tensor, trusted: Tensor) -> tuple[Tensor, Tensor]:
    w = w.clone().requires_grad_()
    z = (x @ w.T).T.flatten()
    logits = torch.stack([torch.zeros_like(z), z], dim=1)
    right = (x[:, 0] > 0).double()
    noisy = alpha * right + (1 - alpha) * (1 - right)
    labels = torch.stack([1 - noisy, noisy], dim=1)
    mixed = slam_mix(logits, trusted.repeat(len(w)), torch.ones_like(logits, dtype=torch.bool))
    losses = cross_entropy(mixed, labels.repeat(len(w), 1)).unflatten(0, (len(w), -1)).mean(1)
    (gradient,) = torch.autograd.grad(losses.sum(), w)
    return gradient, losses.detach()
