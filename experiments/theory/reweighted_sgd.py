"""Projected SGD on the debiased risk of a linear model, single- and multi-pass.

Weighted Distillation, Appendix E (Algorithms 3 and 4, Theorems E.4 and E.5). The model is z = Θx with Θ in
the unit ball (Frobenius norm), the loss ℓ(y, z) is convex in z, and one step is

    Θ ← proj(Θ − η ∇_Θ [ w(x, y; Θ) ℓ(y, Θx) ])

The gradient goes *through* the weight: E[w ℓ] equals the clean risk for every Θ, so only the gradient of the
whole product is an unbiased gradient of the clean risk. This weight is smooth and unclipped; the deep
method's (`understudy.maths.weights`) is another function: clipped at 1, estimated from gold, and detached.

Decided here, where the paper is silent:
- Step sizes. Lemma E.9 only says that a sequence exists; for the single pass it is the one of Jain, Nagaraj
  and Netrapalli (2019): D / (G √T), halved each time half of the remaining steps are done. Multi-pass:
  constant, D / (G √T). D = 2 is the ball's diameter; G = `gradient_bound` bounds the gradient norms (κ of
  Theorem E.4; the logistic loss on clean labels has ‖x‖).
- `batch_size` averages that many gradients in one step; 1 is the paper's.
- Theorem E.5 promises that the *list* holds a good Θ; `best_iterate` picks it by the empirical objective.
- Equation (4) needs the clean label; `advised` debiases two classes with the noise rate p(x) alone.

When leaving the weights out is the better estimate of one example's clean loss is in Appendix D.2. With flip
probability p, distortion δ and clean loss 1, the squared errors of the unweighted and of the debiased loss of one noisy
label are, in expectation,

    MSE = p (1 − δ)²,    MSEʷ = w² p (1 − p) (1 − δ)²,    w = 1 / (1 + p (δ − 1))

(equation (10), simplified), hence Proposition D.3. One reason why the deep method clips its weights at 1: the
unweighted loss can be closer only where w > 1, that is δ < 1.

`rotated_labels` is the problem to show it on, Proposition E.3: the noisy labels are those of a *rotated* halfspace, so
the naive objective is minimised by the wrong one.

    rows = NoisyRows(x, observed=y, clean=truth, corrupted=-truth, flip=p)
    theta = single_pass_sgd(debiased(rows), rows=len(x), shape=(d,), gradient_bound=radius)
    unweighted_is_closer(p, distortion)                                   # elementwise, bool
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from understudy.errors import UnderstudyError

__all__ = [
    "NoisyRows", "advised", "advised_weight", "best_iterate", "cross_entropy", "debias_weight", "debiased",
    "debiased_mse", "failing_radius", "last_iterate_steps", "logistic_loss", "multi_pass_sgd", "project_to_unit_ball",
    "rotated_direction", "rotated_labels", "single_pass_sgd", "unweighted", "unweighted_is_closer", "unweighted_mse",
]  # fmt: skip

Loss = Callable[[Tensor, Tensor], Tensor]
"""(labels, z) -> (B,), convex in z."""

Objective = Callable[[Tensor, Tensor], Tensor]
"""(Θ, row indices) -> (B,), differentiable in Θ."""

DIAMETER = 2.0


@dataclass(frozen=True)
class NoisyRows:
    """Draws of the noisy distribution: `observed` is `corrupted` with probability `flip`, else `clean`.

    Float64 is advised: the weight is a ratio of losses, which spans e^±‖x‖.
    """

    x: Tensor
    observed: Tensor
    clean: Tensor
    corrupted: Tensor
    flip: Tensor


def logistic_loss(label: Tensor, z: Tensor) -> Tensor:
    """log(1 + exp(−y z)), for labels ±1 and Θ a vector."""
    # Not softplus: that is linear beyond 20, and the weight divides by such losses.
    return -F.logsigmoid(label * z)


def cross_entropy(label: Tensor, z: Tensor) -> Tensor:
    """−log softmax(z)_y, for class numbers and Θ an (L, d) matrix."""
    return F.cross_entropy(z, label, reduction="none")


def debias_weight(flip: Tensor, loss_clean: Tensor, loss_corrupted: Tensor) -> Tensor:
    """Equation (4), 1 / (1 + p (distortion − 1)) with distortion = loss_corrupted / loss_clean, expanded."""
    return loss_clean / ((1 - flip) * loss_clean + flip * loss_corrupted)


def advised_weight(flip: Tensor, loss_observed: Tensor, loss_other: Tensor) -> Tensor:
    """The debiasing weight (Definition E.1) of two classes that knows p(x) and not the truth.

    w ℓ(y) must have expectation ℓ(truth) whichever of the two labels is the truth: two equations with one
    solution, w ℓ(y) = ((1 − p) ℓ(y) − p ℓ(other)) / (1 − 2p). It may be negative; it has no limit at p = 1/2.
    """
    return ((1 - flip) - flip * loss_other / loss_observed) / (1 - 2 * flip)


def unweighted_mse(flip: Tensor, distortion: Tensor) -> Tensor:
    """E_y (1 − ℓ(y))², in units of the squared clean loss (equation 9)."""
    return flip * (1 - distortion) ** 2


def debiased_mse(flip: Tensor, distortion: Tensor) -> Tensor:
    """E_y (1 − w ℓ(y))², in the same units (equation 10)."""
    weight = 1 / (1 + flip * (distortion - 1))
    return weight**2 * flip * (1 - flip) * (1 - distortion) ** 2


def unweighted_is_closer(flip: Tensor, distortion: Tensor) -> Tensor:
    """Proposition D.3: MSE < MSEʷ exactly where δ < 1/2 and 0 < p < (1 − 2δ) / (1 − δ)²."""
    return (distortion < 0.5) & (flip > 0) & (flip * (1 - distortion) ** 2 < 1 - 2 * distortion)


def unweighted(rows: NoisyRows, *, loss: Loss = logistic_loss) -> Objective:
    """The naive objective ℓ(y, Θx)."""

    def objective(theta: Tensor, index: Tensor) -> Tensor:
        return loss(rows.observed[index], F.linear(rows.x[index], theta))

    return objective


def debiased(rows: NoisyRows, *, loss: Loss = logistic_loss) -> Objective:
    """w(x; Θ) ℓ(y, Θx) with the weight of equation (4)."""

    def objective(theta: Tensor, index: Tensor) -> Tensor:
        z = F.linear(rows.x[index], theta)
        weight = debias_weight(rows.flip[index], loss(rows.clean[index], z), loss(rows.corrupted[index], z))
        return weight * loss(rows.observed[index], z)

    return objective


def advised(rows: NoisyRows) -> Objective:
    """w(x, y; θ) ℓ(y, θ·x) for labels ±1, from the noise rate alone: `clean` and `corrupted` are not read."""
    if bool((rows.flip == 0.5).any()):
        raise UnderstudyError("flip is 1/2 on some rows, whose labels say nothing; drop those rows")

    def objective(theta: Tensor, index: Tensor) -> Tensor:
        z, y = F.linear(rows.x[index], theta), rows.observed[index]
        loss = logistic_loss(y, z)
        return advised_weight(rows.flip[index], loss, logistic_loss(-y, z)) * loss

    return objective


def project_to_unit_ball(theta: Tensor) -> Tensor:
    norm: Tensor = torch.linalg.vector_norm(theta)
    return theta / norm.clamp(min=1.0)


def last_iterate_steps(steps: int, gradient_bound: float) -> Tensor:
    """Step sizes under which the *last* of `steps` iterates is as good as an average (Lemma E.9), (T,)."""
    sizes = torch.full((steps,), DIAMETER / (gradient_bound * math.sqrt(steps)), dtype=torch.float64)
    for phase in range(1, math.ceil(math.log2(steps)) + 1):
        sizes[steps - math.ceil(steps / 2**phase) :] /= 2
    return sizes


def single_pass_sgd(
    objective: Objective,
    *,
    rows: int,
    shape: tuple[int, ...],
    gradient_bound: float,
    batch_size: int = 1,
    dtype: torch.dtype = torch.float64,
) -> Tensor:
    """Algorithm 3: every row once, in the order given (rows are i.i.d.); the last Θ, of this shape."""
    _check(rows=rows, batch_size=batch_size, gradient_bound=gradient_bound)
    batches = torch.split(torch.arange(rows), batch_size)
    theta = torch.zeros(shape, dtype=dtype)
    for batch, size in zip(batches, last_iterate_steps(len(batches), gradient_bound).tolist(), strict=True):
        theta = _step(objective, theta, batch, size)
    return theta


def multi_pass_sgd(
    objective: Objective,
    *,
    rows: int,
    shape: tuple[int, ...],
    steps: int,
    gradient_bound: float,
    generator: torch.Generator,
    batch_size: int = 1,
    dtype: torch.dtype = torch.float64,
) -> Tensor:
    """Algorithm 4: `steps` steps on rows drawn with replacement; the list of all iterates, (T, *shape)."""
    _check(rows=rows, batch_size=batch_size, gradient_bound=gradient_bound, steps=steps)
    size = DIAMETER / (gradient_bound * math.sqrt(steps))
    iterates = torch.zeros((steps, *shape), dtype=dtype)
    theta = torch.zeros(shape, dtype=dtype)
    for t in range(steps):
        batch = torch.randint(rows, (batch_size,), generator=generator)
        theta = _step(objective, theta, batch, size)
        iterates[t] = theta
    return iterates


def best_iterate(objective: Objective, iterates: Tensor, *, rows: int, candidates: int = 50) -> Tensor:
    """The Θ of the list with the lowest mean objective over all rows, among evenly spaced candidates."""
    every = torch.linspace(0, len(iterates) - 1, min(candidates, len(iterates))).round().long()
    index = torch.arange(rows)
    with torch.no_grad():
        risks = torch.stack([objective(theta, index).mean() for theta in iterates[every]])
    return iterates[every[risks.argmin()]]


def _step(objective: Objective, theta: Tensor, batch: Tensor, size: float) -> Tensor:
    theta = theta.requires_grad_()
    (gradient,) = torch.autograd.grad(objective(theta, batch).mean(), theta)
    return project_to_unit_ball(theta.detach() - size * gradient)


def _check(**values: float) -> None:
    for name, value in values.items():
        if not value > 0:
            raise UnderstudyError(f"{name} is {value}; it must be positive")


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


def rotated_direction(noise: float, dimensions: int) -> Tensor:
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
