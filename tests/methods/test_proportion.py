"""Proportion: inverse class frequencies of the teacher's best classes."""

import pytest
import torch

import understudy as us
from understudy.methods.proportion import inverse_frequency
from understudy.objective import Context


def test_weights_by_hand() -> None:
    """Five rows, two classes: 5 / (2 · 4) on the frequent one, 5 / (2 · 1) on the rare one."""
    found = inverse_frequency(torch.tensor([0, 0, 2, 0, 0]))
    torch.testing.assert_close(found, torch.tensor([0.625, 0.625, 2.5, 0.625, 0.625], dtype=torch.float64))
    assert found.mean() == 1


def test_every_class_has_the_same_total() -> None:
    labels = torch.randint(5, (1000,), generator=torch.Generator().manual_seed(0)) ** 2 % 5
    totals = torch.bincount(labels, weights=inverse_frequency(labels))
    totals = totals[totals > 0]
    torch.testing.assert_close(totals, torch.full_like(totals, 1000 / len(totals)))


def test_soft_labels_count_by_their_best_class() -> None:
    pool = us.Pool(torch.zeros(3, 1), torch.tensor([[0.6, 0.4], [0.9, 0.1], [0.3, 0.7]]))
    context = Context(None, pool, classes=2, predict=lambda x: x, features=lambda x: x)
    found = us.proportion_weight().prepare(context)["weight"]
    torch.testing.assert_close(found, torch.tensor([0.75, 0.75, 1.5]))
    assert context.facts["proportion.largest_weight"] == pytest.approx(1.5)


def test_the_run_keeps_and_applies_the_column() -> None:
    pool = us.Pool(torch.randn(8, 2), us.Hard([0] * 6 + [1] * 2, classes=2))
    run = us.train(us.models.linear(2, 2), None, pool, us.proportion(), epochs=2, progress=False)
    expected = torch.tensor([8 / 12] * 6 + [2.0] * 2)
    torch.testing.assert_close(run.columns["proportion.weight"], expected)
    torch.testing.assert_close(run.columns["refined.weight"], expected)
