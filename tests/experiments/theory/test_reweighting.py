"""Learning to reweight (Ren et al., 2018), §3.4: Lemma 1 and Theorem 2 on small smooth problems, in float64.

The lemma speaks of Equation 30, θ − α/n Σ_B max{∇Gᵀ∇fᵢ, 0} ∇fᵢ: the weights of ``us.alignment``, rectified and not
scaled to mean 1 (Equation 9 scales them; the step size then depends on the batch, and neither statement covers it). Its
printed bound, α ≤ 2n/(Lσ²), rests on ‖Σ vᵢ‖² ≤ Σ ‖vᵢ‖² (Equation 35, "the triangle inequality"), which does not hold: n
equal rows are a counterexample, below. With Cauchy–Schwarz, ‖Σ vᵢ‖² ≤ n Σ ‖vᵢ‖², the same proof gives α ≤ 2/(Lσ²).
"""

import math
from dataclasses import dataclass
from itertools import pairwise

import pytest
import torch
from torch import Tensor, nn

import understudy as us


@dataclass
class Problem:
    """Logistic regression without bias: G is the mean loss of ``golds`` rows, which are the first of the pool."""

    x: Tensor
    y: Tensor
    golds: int

    def __post_init__(self) -> None:
        self.net = nn.Linear(self.x.shape[1], 1, bias=False).double()
        with torch.no_grad():
            self.net.weight.zero_()
        # ∇f = (σ(z) − y) x is at most ‖x‖; the Hessian of G, mean of σ' x xᵀ, at most ¼ of its largest eigenvalue.
        self.sigma = float(self.x.norm(dim=1).max())
        gold = self.x[: self.golds]
        self.smooth = float(torch.linalg.eigvalsh(gold.T @ gold / self.golds).max()) / 4

    @classmethod
    def noisy(cls, seed: int, *, rows: int = 40, golds: int = 6) -> "Problem":
        g = torch.Generator().manual_seed(seed)
        x = torch.randn(rows, 3, dtype=torch.float64, generator=g)
        y = (x[:, 0] + 0.3 * torch.randn(rows, dtype=torch.float64, generator=g) > 0).double()
        y[golds::2] = 1 - y[golds::2]
        return cls(x, y, golds)

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return nn.functional.binary_cross_entropy_with_logits(logits.squeeze(-1), labels, reduction="none")

    def gold_loss(self) -> float:
        return float(self.loss(self.net(self.x[: self.golds]), self.y[: self.golds]).mean().detach())

    def gold_gradient(self) -> Tensor:
        mean = self.loss(self.net(self.x[: self.golds]), self.y[: self.golds]).mean()
        return torch.autograd.grad(mean, self.net.weight)[0].squeeze(0)

    def step(self, batch: Tensor, rate: float) -> None:
        """Equation 30."""
        x, y = self.x[batch], self.y[batch]
        u = us.alignment(self.net, x, y, self.x[: self.golds], self.y[: self.golds], loss=self.loss)
        weighted = (u.clamp(min=0) * self.loss(self.net(x), y)).sum() / len(batch)
        (gradient,) = torch.autograd.grad(weighted, self.net.weight)
        with torch.no_grad():
            self.net.weight.sub_(rate * gradient)

    @property
    def largest_rate(self) -> float:
        return 2 / (self.smooth * self.sigma**2)


@pytest.mark.parametrize("seed", range(3))
def test_lemma_1_the_gold_loss_never_rises(seed: int) -> None:
    """For any sequence of batches, at the largest rate that the (corrected) lemma allows."""
    problem, draw = Problem.noisy(seed), torch.Generator().manual_seed(seed)
    losses = [problem.gold_loss()]
    for _ in range(40):
        problem.step(torch.randperm(len(problem.y), generator=draw)[:8], problem.largest_rate)
        losses.append(problem.gold_loss())
    assert all(later <= before for before, later in pairwise(losses))
    assert losses[-1] < losses[0] - 0.1


def test_lemma_1_decreases_by_what_its_proof_says() -> None:
    """G(θ') ≤ G(θ) − α/n Σ max{∇Gᵀ∇fᵢ, 0}² (1 − Lασ²/2); the paper's Equation 38 without its division by n."""
    problem = Problem.noisy(3)
    rate, rows = problem.largest_rate / 2, torch.arange(len(problem.y))
    for _ in range(20):
        before, gradient = problem.gold_loss(), problem.gold_gradient()
        each = (torch.sigmoid(problem.net(problem.x)).detach() - problem.y.unsqueeze(1)) * problem.x
        progress = (each @ gradient).clamp(min=0).square().sum()
        problem.step(rows, rate)
        promised = rate / len(rows) * float(progress) * (1 - problem.smooth * rate * problem.sigma**2 / 2)
        assert problem.gold_loss() <= before - promised + 1e-15


def test_lemma_1_as_printed_fails_on_equal_rows() -> None:
    """f = log cosh θ, L = σ = 1, n = 4 equal rows, θ = 1: α = 2n = 8 moves to 1 − 8 tanh³ 1 = −2.53, and G rises."""
    theta, n = torch.tensor(1.0, dtype=torch.float64), 4

    def after(rate: float) -> Tensor:
        slope = torch.tanh(theta)
        return theta - rate / n * sum((slope * slope) * slope for _ in range(n))

    def value(at: Tensor) -> float:
        return float(torch.log(torch.cosh(at)))

    assert float(after(2.0 * n)) == pytest.approx(1 - 8 * math.tanh(1) ** 3) == pytest.approx(-2.5339, abs=1e-4)
    assert value(after(2.0 * n)) > 1.8 > value(theta) == pytest.approx(0.43378, abs=1e-5)
    assert value(after(2.0)) < value(theta)


def test_lemma_1_stands_still_only_where_the_gold_gradient_vanishes_because_gold_is_in_the_pool() -> None:
    """A pool that only pulls away leaves θ alone though ∇G ≠ 0; with one gold row in the batch it moves."""
    x = torch.ones(3, 1, dtype=torch.float64)
    problem = Problem(x, torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64), golds=1)
    assert float(problem.gold_gradient().abs()) == 0.5
    problem.step(torch.tensor([1, 2]), 1.0)
    assert float(problem.net.weight.detach()) == 0.0
    problem.step(torch.tensor([0, 1]), 1.0)
    assert float(problem.net.weight.detach()) == pytest.approx(0.5**2 * 0.5 / 2)  # u = ¼, ∇f = −½, n = 2


@pytest.mark.parametrize("steps", [10, 100, 400])
def test_theorem_2_the_smallest_gold_gradient_falls_as_one_over_the_root_of_the_steps(steps: int) -> None:
    """min_t ‖∇G‖² ≤ √((G(θ₀) − G*) / (p κ T)) with whole batches, p = 1, κ = α/n (1 − Lασ²/2)."""
    problem = Problem.noisy(5)
    rows, rate = torch.arange(len(problem.y)), problem.largest_rate / 2
    kappa = rate / len(rows) * (1 - problem.smooth * rate * problem.sigma**2 / 2)
    start, squared = problem.gold_loss(), []
    for _ in range(steps):
        squared.append(float(problem.gold_gradient().square().sum()))
        problem.step(rows, rate)
    lowest = _smallest_loss(problem)
    assert 0 < min(squared) <= math.sqrt((start - lowest) / (kappa * steps))
    assert squared[-1] < squared[0]


def _smallest_loss(problem: Problem) -> float:
    """G* by another way: L-BFGS on gold alone."""
    x, y = problem.x[: problem.golds], problem.y[: problem.golds]
    weight = torch.zeros(1, x.shape[1], dtype=torch.float64, requires_grad=True)
    solver = torch.optim.LBFGS([weight], max_iter=500, tolerance_grad=1e-12, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        solver.zero_grad()
        loss = problem.loss(x @ weight.T, y).mean()
        loss.backward()
        return loss

    solver.step(closure)  # type: ignore[arg-type]
    return float(closure().detach())
