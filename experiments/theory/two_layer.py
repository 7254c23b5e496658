"""Self-distillation recovers the truth on clusterable data, without early stopping (Dong et al. 2019, Theorem 1).

Data (Definition 1): unit vectors in K clusters, within ε of their centre, one true label ±1 for a whole cluster; in
each cluster a share of at most ρ < ½ of the labels is flipped. Net: f(W, x) = vᵀ φ(W x), v fixed at ±1/√k,
W₀ ~ N(0, 1). Full-batch gradient descent on ½‖f − ŷ‖² at the rate 1/(2 Γ² n), towards ŷ_t = α_t y + (1 − α_t) h(f_t).

    data = clusterable(n=32, clusters=2, dimension=40, radius=0.3, rho=0.25, generator=draw)
    run = descend(data.x, data.y, width=128, steps=6000, alpha=slow_decay(60, 200), rho=0.25, generator=draw)
    margin(run.outputs, data.truth)                        # > 0: every clean label recovered; near 1: with certainty

Differs from the print: its second condition on α at T₁ exceeds 1, so α = 1 for T₁ steps and then falls linearly to 0;
T₁'s constant 80 makes it thousands of steps where a hundred suffice, so T₁ is the caller's, and ε may be 0.3 where
the printed condition wants it tiny (which would make memorising the noise, the thing to compare with, take a million
steps). φ = tanh, for which Γ = 1.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from understudy.errors import UnderstudyError

GAMMA = 1.0  # bounds |φ(0)|, |φ'| and |φ''| of tanh


@dataclass(frozen=True)
class Clusterable:
    """An (ε, ρ) dataset: inputs, the labels seen, the truth behind them, and the cluster of each row."""

    x: Tensor
    y: Tensor
    truth: Tensor
    cluster: Tensor
    centres: Tensor


@dataclass(frozen=True)
class Descent:
    """Where gradient descent ended, and the training outputs there and at the steps given."""

    weights: Tensor
    outputs: Tensor
    at: dict[int, Tensor]


def clusterable(
    n: int, clusters: int, dimension: int, radius: float, rho: float, *, generator: torch.Generator
) -> Clusterable:
    """Balanced clusters around random unit centres with alternating true labels; ⌊ρ n_l⌋ of each are flipped."""
    if not 0 <= rho < 0.5:
        raise UnderstudyError(f"rho = {rho:g}: at ½ or more the wrong labels win in a cluster; give 0 ≤ rho < 0.5")
    if not 1 <= clusters <= n:
        raise UnderstudyError(f"{clusters} clusters of {n} rows; give at least one row per cluster")
    cluster = torch.arange(n) % clusters
    centres = _unit(torch.randn(clusters, dimension, dtype=torch.float64, generator=generator))
    centre = centres[cluster]
    away = torch.randn(n, dimension, dtype=torch.float64, generator=generator)
    away = _unit(away - (away * centre).sum(1, keepdim=True) * centre)
    # A tangent step followed by scaling to the sphere comes closer to the centre, never farther: the ball holds.
    x = _unit(centre + radius * away)

    truth = 1.0 - 2.0 * (cluster % 2).double()
    y = truth.clone()
    for label in range(clusters):
        rows = (cluster == label).nonzero().squeeze(1)
        y[rows[torch.randperm(len(rows), generator=generator)[: int(rho * len(rows))]]] *= -1
    return Clusterable(x, y, truth, cluster, centres)


def label_function(f: Tensor, rho: float) -> Tensor:
    """h: f stretched by 4/(1 − 2ρ) and clipped to [−1, 1]."""
    return (4 / (1 - 2 * rho) * f).clamp(-1, 1)


def slow_decay(t1: int, t2: int) -> Callable[[int], float]:
    """α_t: 1 until t1, then linear to 0 at t2."""
    return lambda t: min(1.0, max(0.0, (t2 - t) / (t2 - t1)))


def trust_labels(t: int) -> float:
    """α_t = 1 throughout: plain training."""
    return 1.0


def two_layer(weights: Tensor, x: Tensor) -> Tensor:
    """f(W, x) = vᵀ tanh(W x), (n,): the first half of v is 1/√k, the second −1/√k."""
    return torch.tanh(x @ weights.T) @ _output_layer(weights)


def descend(
    x: Tensor,
    y: Tensor,
    *,
    width: int,
    steps: int,
    alpha: Callable[[int], float],
    rho: float,
    generator: torch.Generator,
    record: tuple[int, ...] = (),
) -> Descent:
    """`steps` steps of full-batch gradient descent towards α_t y + (1 − α_t) h(f_t), the target held fixed in each."""
    if width % 2:
        raise UnderstudyError(f"width {width} is odd; the output layer needs as many positive as negative units")
    weights = torch.randn(width, x.shape[1], dtype=x.dtype, generator=generator)
    v = _output_layer(weights)
    rate = 1 / (2 * GAMMA**2 * len(x))
    at = {}
    for t in range(steps):
        hidden = torch.tanh(x @ weights.T)
        f = hidden @ v
        if t in record:
            at[t] = f
        target = alpha(t) * y + (1 - alpha(t)) * label_function(f, rho)
        slope = (1 - hidden**2) * v * (f - target)[:, None]
        weights = weights.addmm(slope.T, x, alpha=-rate)
    return Descent(weights, two_layer(weights, x), at)


def margin(outputs: Tensor, truth: Tensor) -> float:
    """min over rows of truth · output: positive where every sign is right."""
    return (truth * outputs).min().item()


def _output_layer(weights: Tensor) -> Tensor:
    k = len(weights)
    signs = torch.cat([weights.new_ones(k // 2), -weights.new_ones(k // 2)])
    return torch.mul(signs, k**-0.5)


def _unit(rows: Tensor) -> Tensor:
    return torch.nn.functional.normalize(rows, dim=-1)
