"""Resample: batches are balanced by drawing, and the loss is not weighted on top."""

import torch

import understudy as us
from understudy.data.batches import plan_epoch
from understudy.objective import Context


def _pool() -> us.Pool:
    return us.Pool(torch.randn(2000, 2), us.Hard([0] * 1900 + [1] * 100, classes=2))


def test_sampling_column_by_hand() -> None:
    pool = us.Pool(torch.zeros(4, 1), us.Hard([0, 0, 0, 1], classes=2))
    context = Context(None, pool, classes=2, predict=lambda x: x, features=lambda x: x)
    found = us.balanced_sampling().prepare(context)["sampling"]
    torch.testing.assert_close(found / found.sum(), torch.tensor([1 / 6, 1 / 6, 1 / 6, 1 / 2]))


def test_batches_are_balanced() -> None:
    pool = _pool()
    context = Context(None, pool, classes=2, predict=lambda x: x, features=lambda x: x)
    sampling = us.balanced_sampling().prepare(context)["sampling"]
    rows = torch.cat([pools for _, pools in plan_epoch(0, 2000, batch_size=100, sampling=sampling)])
    assert len(rows) == 2000
    # A fair coin over 2,000 draws: within four standard deviations of a half.
    assert abs((rows >= 1900).double().mean() - 0.5) < 4 * 0.5 / 2000**0.5


def test_a_run_draws_so_and_weighs_nothing() -> None:
    pool = _pool()
    run = us.train(us.models.linear(2, 2), None, pool, us.resample(), epochs=3, progress=False)
    weights = run.columns["refined.weight"]
    # Rows never drawn have no weight; all the others exactly 1.
    assert torch.minimum(weights, (weights - 1).abs()).max() < 1e-5
    torch.testing.assert_close(weights[1900:], torch.ones(100))
    assert 0.6 < weights[:1900].mean() < 0.9  # 1 − exp(−3 · 1000 / 1900) = 0.79


def test_it_combines_with_a_weight() -> None:
    run = us.train(
        us.models.linear(2, 2), None, _pool(), us.resample(weight=us.proportion_weight()), epochs=1, progress=False
    )
    assert {"resample.sampling", "proportion.weight"} <= set(run.columns)
