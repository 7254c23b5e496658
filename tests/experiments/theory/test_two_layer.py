"""Theorem 1 of Dong et al. at a size that runs: the parts exactly, the claim over seeds."""

from collections.abc import Callable

import pytest
import torch
from experiments.theory.two_layer import (
    Descent,
    clusterable,
    descend,
    label_function,
    margin,
    slow_decay,
    trust_labels,
    two_layer,
)

from understudy.errors import UnderstudyError

RHO = 0.25


def draw(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(("n", "clusters", "radius", "rho"), [(32, 2, 0.3, 0.25), (60, 5, 0.9, 0.4), (9, 3, 0.0, 0.0)])
def test_data_meets_its_definition(n: int, clusters: int, radius: float, rho: float) -> None:
    data = clusterable(n, clusters, 12, radius, rho, generator=draw(0))
    torch.testing.assert_close(data.x.norm(dim=1), torch.ones(n, dtype=torch.float64))
    torch.testing.assert_close(data.centres.norm(dim=1), torch.ones(clusters, dtype=torch.float64))
    assert ((data.x - data.centres[data.cluster]).norm(dim=1) <= radius + 1e-9).all()
    for label in range(clusters):
        rows = data.cluster == label
        assert data.truth[rows].unique().numel() == 1
        assert int((data.y != data.truth)[rows].sum()) == int(rho * int(rows.sum()))
    assert set(data.y.tolist()) <= {-1.0, 1.0}


def test_label_function_by_hand() -> None:
    """ρ = 0.3: slope 4/0.4 = 10, saturated beyond 0.1."""
    f = torch.tensor([-2.0, -0.05, 0.0, 0.02, 0.1, 0.7])
    torch.testing.assert_close(label_function(f, 0.3), torch.tensor([-1.0, -0.5, 0.0, 0.2, 1.0, 1.0]))


def test_schedule_by_hand() -> None:
    alpha = slow_decay(10, 20)
    assert [alpha(t) for t in (0, 9, 10, 15, 18, 20, 99)] == pytest.approx([1, 1, 1, 0.5, 0.2, 0, 0])


def test_output_by_hand() -> None:
    weights = torch.tensor([[1.0, 0.0], [0.0, 2.0]])
    x = torch.tensor([[0.5, 0.25], [1.0, 0.0]])
    expected = torch.tensor([0.0, torch.tanh(torch.tensor(1.0)) / 2**0.5])
    torch.testing.assert_close(two_layer(weights, x), expected)


@pytest.mark.parametrize("alpha", [1.0, 0.3])
def test_steps_follow_the_gradient(alpha: float) -> None:
    """Two steps against autograd on ½‖f − ŷ‖² with ŷ detached, at the rate 1/2n."""
    data = clusterable(10, 2, 6, 0.4, RHO, generator=draw(1))
    found = descend(data.x, data.y, width=8, steps=2, alpha=lambda t: alpha, rho=RHO, generator=draw(2), record=(0, 1))
    weights = torch.randn(8, 6, dtype=torch.float64, generator=draw(2)).requires_grad_()
    for t in range(2):
        f = two_layer(weights, data.x)
        torch.testing.assert_close(found.at[t], f.detach())
        target = (alpha * data.y + (1 - alpha) * label_function(f, RHO)).detach()
        (gradient,) = torch.autograd.grad(0.5 * (f - target).square().sum(), weights)
        weights = (weights - gradient / 20).detach().requires_grad_()
    torch.testing.assert_close(found.weights, weights.detach())


def test_bad_input_is_named() -> None:
    with pytest.raises(UnderstudyError, match=r"rho = 0\.5"):
        clusterable(8, 2, 3, 0.1, 0.5, generator=draw(0))
    with pytest.raises(UnderstudyError, match="9 clusters"):
        clusterable(8, 9, 3, 0.1, 0.1, generator=draw(0))
    with pytest.raises(UnderstudyError, match="width 7"):
        descend(torch.ones(2, 3), torch.ones(2), width=7, steps=1, alpha=trust_labels, rho=0.1, generator=draw(0))


def test_the_error_on_fresh_rows_falls_as_theorem_2_bounds_it() -> None:
    """By √n at least, with one constant; plain training, which fits the wrong labels, stays far above."""
    for n in (64, 256):
        data = clusterable(n + 400, 2, 40, 0.3, RHO, generator=draw(2))
        for alpha, low, high in ((slow_decay(60, 200), 0.0, 0.25), (trust_labels, 1.0, 9.0)):
            run = descend(data.x[:n], data.y[:n], width=128, steps=2000, alpha=alpha, rho=RHO, generator=draw(102))
            error = (two_layer(run.weights, data.x[n:]) - data.truth[n:]).square().mean()
            assert low < error * n**0.5 < high


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.torture) for seed in range(1, 5))])
def test_recovers_the_truth_without_early_stopping(seed: int) -> None:
    """Six thousand steps each: long enough for plain training to memorise every wrong label."""
    data = clusterable(32, 2, 40, 0.3, RHO, generator=draw(seed))
    t1, t2 = 60, 200

    def run(alpha: Callable[[int], float]) -> Descent:
        return descend(
            data.x,
            data.y,
            width=128,
            steps=6000,
            alpha=alpha,
            rho=RHO,
            generator=draw(100 + seed),
            record=(t1, 100, t2),
        )

    distilled, plain = run(slow_decay(t1, t2)), run(trust_labels)
    assert margin(plain.outputs, data.y) > 0  # it has fitted the labels it saw, so the wrong ones are wrong
    assert margin(plain.outputs, data.truth) < -0.5
    assert margin(distilled.outputs, data.truth) > 0.9
    assert (distilled.outputs - data.truth).norm() < 0.05 * data.truth.norm()  # outputs, not only signs, converge
    stopped_early = max(margin(outputs, data.truth) for outputs in plain.at.values())
    assert margin(distilled.outputs, data.truth) > 2 * max(stopped_early, 0)
