"""Random weights: a rectified Gaussian of mean 1, repeatable, and new in every epoch."""

import pytest
import torch
from scipy import stats
from torch import Tensor

import understudy as us
from understudy.methods.random_weights import gaussian
from understudy.objective import Context, Outputs, Step


def _weights(epoch: int = 0, seed: int = 0, rows: Tensor | None = None) -> Tensor:
    weight = us.random_weight()
    pool = us.Pool(torch.zeros(500, 1), us.Hard([0, 1] * 250, classes=2))
    context = Context(None, pool, classes=2, predict=lambda x: x, features=lambda x: x, seed=seed)
    rows = torch.arange(500) if rows is None else rows
    columns = {"random.key": weight.prepare(context)["key"][rows]}
    step = Step(Outputs(torch.zeros(len(rows), 2)), torch.zeros(len(rows), 2), rows, columns, epoch=epoch)
    return weight(torch.zeros(len(rows)), step)


def test_scaled_by_hand() -> None:
    weight = us.random_weight()
    key = torch.tensor([11, 22, 33, 44, 55, 66])
    step = Step(Outputs(torch.zeros(6, 2)), torch.zeros(6, 2), torch.arange(6), {"random.key": key}, epoch=3)
    positive = [max(z, 0.0) for z in gaussian(key, 3).tolist()]
    assert sum(positive) > 0
    expected = torch.tensor([6 * z / sum(positive) for z in positive])
    torch.testing.assert_close(weight(torch.zeros(6), step), expected)


def test_rectified_gaussian_of_mean_one() -> None:
    weights = _weights()
    assert (weights >= 0).all()
    assert weights.mean().item() == pytest.approx(1.0)
    assert 0.4 < (weights == 0).double().mean() < 0.6


def test_the_draws_are_standard_normal_and_independent() -> None:
    key = torch.randint(1 << 62, (20_000,), generator=torch.Generator().manual_seed(0))
    draws = torch.stack([gaussian(key, epoch) for epoch in range(4)])
    for draw in draws:
        assert stats.kstest(draw.numpy(), "norm").pvalue > 1e-3
    off = torch.corrcoef(draws) - torch.eye(4)
    assert off.abs().max() < 0.03
    # Consecutive keys, too, have unrelated draws.
    consecutive = gaussian(torch.arange(20_000), 0)
    assert stats.kstest(consecutive.numpy(), "norm").pvalue > 1e-3
    assert abs(torch.corrcoef(torch.stack([consecutive[1:], consecutive[:-1]]))[0, 1]) < 0.03


def test_seed_and_epoch_decide() -> None:
    assert _weights(1, 7).equal(_weights(1, 7))
    assert not _weights(1, 7).equal(_weights(2, 7))
    assert not _weights(1, 7).equal(_weights(1, 8))
    order = torch.randperm(500, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(_weights(rows=order), _weights()[order])


def test_mean_weight_over_a_training_is_about_one() -> None:
    pool = us.Pool(torch.randn(200, 2), us.Hard([0, 1] * 100, classes=2))
    run = us.train(us.models.linear(2, 2), None, pool, us.random_weights(), epochs=20, progress=False)
    weight = run.columns["refined.weight"]
    assert abs(weight.mean() - 1) < 1e-5
    assert weight.std() > 0.05


def test_a_batch_that_drew_no_weight_makes_no_step() -> None:
    """Single rows: about half of them draw 0, and weight decay must not move the student there."""
    pool = us.Pool(torch.zeros(40, 2), us.Hard([0] * 40, classes=2))
    net = us.models.linear(2, 2)
    run = us.train(
        net, None, pool, us.random_weights(), epochs=1, batch_size=1, lr=0.1, optimizer="sgd", momentum=0.0,
        weight_decay=1.0, progress=False,
    )  # fmt: skip
    # Rows of zeros send no gradient to the weight matrix, so each step shrinks it by 0.9.
    steps = int((run.columns["refined.weight"] > 0).sum())
    assert 10 < steps < 30
    torch.testing.assert_close(next(run.student.parameters()), next(net.parameters()) * 0.9**steps)
