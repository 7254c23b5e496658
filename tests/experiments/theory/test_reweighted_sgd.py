"""Debiasing weights and SGD of Weighted Distillation, Appendix E: unbiased, through the weight, and better."""

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from experiments.theory import (
    NoisyRows,
    advised,
    advised_weight,
    best_iterate,
    cross_entropy,
    debias_weight,
    debiased,
    failing_radius,
    last_iterate_steps,
    logistic_loss,
    multi_pass_sgd,
    project_to_unit_ball,
    rotated_direction,
    rotated_labels,
    single_pass_sgd,
    unweighted,
)
from understudy.errors import UnderstudyError


def both_labels(x: Tensor, clean: Tensor, corrupted: Tensor, flip: Tensor) -> tuple[NoisyRows, Tensor]:
    """Every row with either label it can be given, and the chance of that label: expectations become sums."""
    two = [torch.cat([t, t]) for t in (x, clean, corrupted, flip)]
    rows = NoisyRows(two[0], torch.cat([clean, corrupted]), two[1], two[2], two[3])
    return rows, torch.cat([1 - flip, flip])


def binary_problem(generator: torch.Generator, n: int = 40) -> tuple[NoisyRows, Tensor]:
    x = torch.randn(n, 5, dtype=torch.float64, generator=generator)
    clean = torch.where(torch.rand(n, generator=generator) < 0.5, 1.0, -1.0).double()
    flip = 0.45 * torch.rand(n, dtype=torch.float64, generator=generator)
    return both_labels(x, clean, -clean, flip)


def test_weight_by_hand() -> None:
    # distortion 3 / 1.5 = 2, so 1 / (1 + 0.25 · 1) = 0.8; distortion 1/2 gives 1 / (1 − 0.125) = 8/7, not clipped.
    flip, clean, corrupted = torch.tensor([0.25, 0.25]), torch.tensor([1.5, 2.0]), torch.tensor([3.0, 1.0])
    assert debias_weight(flip, clean, corrupted).tolist() == pytest.approx([0.8, 8 / 7])


def test_advised_weight_by_hand() -> None:
    # p = 0.25, losses 2 (observed) and 1 (other): (0.75 − 0.25 / 2) / 0.5 = 1.25.
    weight = advised_weight(torch.tensor(0.25), torch.tensor(2.0), torch.tensor(1.0))
    assert weight.item() == pytest.approx(1.25)


@pytest.mark.parametrize("objective", [debiased, advised])
def test_objectives_and_gradients_are_unbiased(objective, generator: torch.Generator) -> None:
    """Proposition 2.1 and Definition E.1, exactly: the expectation over y is the clean loss, at any θ."""
    rows, chance = binary_problem(generator)
    for _ in range(5):
        theta = torch.randn(5, dtype=torch.float64, generator=generator).requires_grad_()
        expected = (chance * objective(rows)(theta, torch.arange(80))).view(2, 40).sum(0)
        clean = logistic_loss(rows.clean, rows.x @ theta)[:40]
        torch.testing.assert_close(expected, clean, rtol=1e-12, atol=1e-12)
        noisy_gradient = torch.autograd.grad(expected.sum(), theta)[0]
        clean_gradient = torch.autograd.grad(clean.sum(), theta)[0]
        torch.testing.assert_close(noisy_gradient, clean_gradient, rtol=1e-10, atol=1e-10)


def test_many_classes_are_unbiased_too(generator: torch.Generator) -> None:
    n, classes = 30, 4
    x = torch.randn(n, 3, dtype=torch.float64, generator=generator)
    clean = torch.randint(classes, (n,), generator=generator)
    flip = torch.rand(n, dtype=torch.float64, generator=generator)
    rows, chance = both_labels(x, clean, (clean + 1) % classes, flip)
    theta = torch.randn(classes, 3, dtype=torch.float64, generator=generator)
    expected = (chance * debiased(rows, loss=cross_entropy)(theta, torch.arange(2 * n))).view(2, n).sum(0)
    torch.testing.assert_close(expected, F.cross_entropy(x @ theta.T, clean, reduction="none"))


def test_unweighted_risk_is_off_by_the_bias_of_proposition_2_1(generator: torch.Generator) -> None:
    rows, chance = binary_problem(generator)
    theta = torch.randn(5, dtype=torch.float64, generator=generator)
    z = (rows.x @ theta)[:40]
    clean, corrupted = logistic_loss(rows.clean[:40], z), logistic_loss(rows.corrupted[:40], z)
    bias = rows.flip[:40] * (corrupted / clean - 1) * clean
    expected = (chance * unweighted(rows)(theta, torch.arange(80))).view(2, 40).sum(0)
    torch.testing.assert_close(expected, clean + bias)


def test_sampled_weighted_risk_converges_to_the_clean_one(generator: torch.Generator) -> None:
    n = 200_000
    x = torch.randn(n, 3, dtype=torch.float64, generator=generator)
    clean = torch.where(x[:, 0] > 0, 1.0, -1.0).double()
    flip = torch.where(x[:, 1] > 0, 0.4, 0.1).double()
    observed = torch.where(torch.rand(n, generator=generator) < flip, -clean, clean)
    rows = NoisyRows(x, observed, clean, -clean, flip)
    theta, index = torch.tensor([0.8, 0.3, -0.2], dtype=torch.float64), torch.arange(n)
    truth = logistic_loss(clean, x @ theta)
    for objective, tolerance in ((debiased(rows), 4.0), (advised(rows), 4.0)):
        error = objective(theta, index) - truth
        assert abs(error.mean()) < tolerance * error.std() / math.sqrt(n)
    naive_error = unweighted(rows)(theta, index) - truth
    assert naive_error.mean() > 20 * naive_error.std() / math.sqrt(n)


def test_weight_stays_finite_on_large_margins() -> None:
    far = torch.tensor([[60.0], [-60.0]], dtype=torch.float64)
    one = torch.ones(2, dtype=torch.float64)
    for flip in (0.0, 0.3, 1.0):
        rows = NoisyRows(far, one, one, -one, flip * one)
        theta = torch.ones(1, dtype=torch.float64, requires_grad=True)
        value = debiased(rows)(theta, torch.arange(2)).sum()
        assert value.isfinite()
        assert torch.autograd.grad(value, theta)[0].isfinite().all()


def test_last_iterate_steps_by_hand() -> None:
    # T = 8: phases of 4, 2, 1, 1 steps; the first size is 2 / (3 √8). T = 5: the halvings come at steps 3, 4 and 5.
    sizes = last_iterate_steps(8, gradient_bound=3.0) * 3 * math.sqrt(8) / 2
    assert sizes.tolist() == pytest.approx([1, 1, 1, 1, 0.5, 0.5, 0.25, 0.125])
    assert (last_iterate_steps(5, 2.0) * math.sqrt(5)).tolist() == pytest.approx([1, 1, 0.5, 0.25, 0.125])
    assert last_iterate_steps(1, 2.0).tolist() == [1.0]


def test_projection() -> None:
    assert project_to_unit_ball(torch.tensor([3.0, 4.0])).tolist() == pytest.approx([0.6, 0.8])
    assert project_to_unit_ball(torch.tensor([0.3, 0.4])).tolist() == pytest.approx([0.3, 0.4])
    assert project_to_unit_ball(torch.full((2, 2), 2.0)).norm().item() == pytest.approx(1)


def test_one_step_by_hand() -> None:
    # Two steps of sizes 2 / (4 √2) and half of it; the second batch has a zero row and moves nothing.
    # At θ = 0 both losses are log 2, so w = 1; d(wℓ)/dz for p = 1/2, y clean: ℓ²/((ℓ + ℓ')/2) has slope 2ℓ_z = −1.
    x = torch.tensor([[1.0, 0.0], [0.0, 0.0]], dtype=torch.float64)
    one = torch.ones(2, dtype=torch.float64)
    rows = NoisyRows(x, one, one, -one, 0.5 * one)
    theta = single_pass_sgd(debiased(rows), rows=2, shape=(2,), gradient_bound=4.0)
    assert theta.tolist() == pytest.approx([2 / (4 * math.sqrt(2)), 0])


def test_multi_pass_stays_in_the_ball_and_repeats_with_its_generator() -> None:
    rows = rotated_labels(200, noise=0.3, dimensions=3, radius=10, generator=torch.Generator().manual_seed(1))

    def run(seed: int) -> Tensor:
        return multi_pass_sgd(
            debiased(rows),
            rows=200,
            shape=(3,),
            steps=60,
            gradient_bound=10,
            generator=torch.Generator().manual_seed(seed),
        )

    assert run(0).shape == (60, 3)
    assert torch.equal(run(0), run(0))
    assert not torch.equal(run(0), run(1))
    assert run(0).norm(dim=1).max() <= 1 + 1e-12


def test_best_iterate_has_the_lowest_objective(generator: torch.Generator) -> None:
    rows, _ = binary_problem(generator)
    iterates = torch.randn(30, 5, dtype=torch.float64, generator=generator)
    index = torch.arange(80)
    risks = torch.stack([debiased(rows)(theta, index).mean() for theta in iterates])
    assert torch.equal(best_iterate(debiased(rows), iterates, rows=80), iterates[risks.argmin()])


def test_multiclass_sgd_recovers_the_clean_classifier(generator: torch.Generator) -> None:
    """Matrix Θ: three classes, class 0 mostly called 1; weights undo it where the naive risk is misled."""
    n, radius = 4000, 12.0
    x = torch.randn(n, 3, dtype=torch.float64, generator=generator)
    x = radius * x / x.norm(dim=1, keepdim=True)
    clean = x.argmax(1)
    flip = torch.where(clean == 0, 0.7, 0.0).double()
    corrupted = (clean + 1) % 3
    observed = torch.where(torch.rand(n, generator=generator) < flip, corrupted, clean)
    rows = NoisyRows(x, observed, clean, corrupted, flip)

    def accuracy(theta: Tensor) -> float:
        return ((x @ theta.T).argmax(1) == clean).double().mean().item()

    def fit(objective) -> Tensor:
        return single_pass_sgd(objective, rows=n, shape=(3, 3), gradient_bound=radius, batch_size=4)

    assert accuracy(fit(debiased(rows, loss=cross_entropy))) > 0.95
    assert accuracy(fit(unweighted(rows, loss=cross_entropy))) < 0.9


def test_bad_input_is_refused(generator: torch.Generator) -> None:
    one = torch.ones(3, dtype=torch.float64)
    with pytest.raises(UnderstudyError, match="1/2"):
        advised(NoisyRows(one[:, None], one, one, -one, 0.5 * one))
    with pytest.raises(UnderstudyError, match="gradient_bound"):
        single_pass_sgd(lambda t, i: t.sum() + i, rows=3, shape=(1,), gradient_bound=0)
    with pytest.raises(UnderstudyError, match="noise"):
        rotated_labels(3, noise=1.2, dimensions=2, radius=1, generator=generator)


@pytest.mark.parametrize("noise", [0.02, 0.1, 0.3, 0.5, 0.8, 1.0])
def test_naive_objective_fails(noise: float) -> None:
    """Proposition E.3 on the circle, by quadrature: naive minimiser, its excess clean risk, the best risk."""
    radius = failing_radius(noise, 2)
    angle = (torch.arange(400_000, dtype=torch.float64) + 0.5) * (2 * math.pi / 400_000)
    x = radius * torch.stack([angle.cos(), angle.sin()], dim=1)
    clean = torch.where(x[:, 0] > 0, 1.0, -1.0).double()
    wrong = rotated_direction(noise, 2)
    noisy = torch.where(x @ wrong > 0, 1.0, -1.0).double()

    def risk(labels: Tensor, theta: Tensor) -> float:
        return logistic_loss(labels, x @ theta).mean().item()

    best = torch.tensor([1.0, 0.0], dtype=torch.float64)
    assert (noisy != clean).double().mean().item() == pytest.approx(noise, abs=1e-4)
    for turned in (0.01, -0.01):
        nearby = torch.stack([torch.cos(torch.tensor(turned)), torch.sin(torch.tensor(turned))]).double()
        assert risk(clean, nearby) > risk(clean, best)
        assert risk(noisy, rotated_direction(noise + turned, 2)) > risk(noisy, wrong)
    assert risk(noisy, 0.99 * wrong) > risk(noisy, wrong)
    assert risk(clean, best) <= noise / 2
    assert risk(clean, wrong) - risk(clean, best) >= noise / 2


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.5, pytest.param(0.1, marks=pytest.mark.torture)])
def test_debiased_sgd_does_not_fail(noise: float) -> None:
    """Theorems E.4 and E.5 where the naive objective fails, in 10 dimensions; fresh rows measure the risk."""
    d, n = 10, 5000
    radius = failing_radius(noise, d)
    fresh = rotated_labels(
        100_000, noise=noise, dimensions=d, radius=radius, generator=torch.Generator().manual_seed(1)
    )
    rows = rotated_labels(n, noise=noise, dimensions=d, radius=radius, generator=torch.Generator().manual_seed(2))

    def excess(theta: Tensor) -> float:
        best = logistic_loss(fresh.clean, fresh.x[:, 0]).mean()
        return (logistic_loss(fresh.clean, fresh.x @ theta).mean() - best).item()

    shape, bound = (d,), radius
    assert excess(single_pass_sgd(unweighted(rows), rows=n, shape=shape, gradient_bound=bound)) >= noise / 2
    assert excess(single_pass_sgd(debiased(rows), rows=n, shape=shape, gradient_bound=bound)) < noise / 2
    seeded = torch.Generator().manual_seed(3)
    iterates = multi_pass_sgd(debiased(rows), rows=n, shape=shape, steps=n, gradient_bound=bound, generator=seeded)
    assert excess(best_iterate(debiased(rows), iterates, rows=n)) < noise / 2
