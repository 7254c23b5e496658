"""Schedules at points worked by hand; optimizers by name."""

import pytest
import torch
from torch import nn

from understudy.errors import UnderstudyError
from understudy.training.optimizers import make_optimizer
from understudy.training.recipe import find_schedule, piecewise


@pytest.mark.parametrize(
    ("name", "points"),
    [
        ("constant", {0.0: 1, 0.99: 1}),
        ("cosine", {0.0: 1, 1 / 3: 0.75, 0.5: 0.5, 1.0: 0}),
        ("step", {0.49: 1, 0.5: 0.1, 0.74: 0.1, 0.75: 0.01, 1.0: 0.01}),
        # Epochs 80, 120, 160, 180 of 200.
        ("papers-cifar", {79.9 / 200: 1, 0.4: 0.1, 0.6: 0.01, 0.8: 1e-3, 0.9: 5e-4, 1.0: 5e-4}),
        ("papers-imagenet", {0.29: 1, 0.3: 0.1, 0.6: 0.01, 0.8: 1e-3, 1.0: 1e-3}),
    ],
)
def test_schedules(name: str, points: dict[float, float]) -> None:
    schedule = find_schedule(name)
    assert [schedule(p) for p in points] == pytest.approx(list(points.values()), abs=1e-12)


def test_own_schedules() -> None:
    assert find_schedule([(0.25, 0.5), (0.5, 0.0)])(0.3) == 0.5
    assert find_schedule(lambda progress: 1 - progress)(0.3) == pytest.approx(0.7)
    assert piecewise([])(0.5) == 1
    with pytest.raises(UnderstudyError, match="cosine"):
        find_schedule("cosinus")


def _one_step(name: str, **options: float) -> float:
    parameter = nn.Parameter(torch.tensor([1.0]))
    settings = {"lr": 0.1, "weight_decay": 0.0, "momentum": 0.0} | options
    optimizer = make_optimizer(name, [parameter], **settings)
    for _ in range(2):
        parameter.grad = torch.tensor([2.0])
        optimizer.step()
    return parameter.item()


def test_two_steps_worked_by_hand() -> None:
    assert _one_step("sgd") == pytest.approx(1 - 0.2 - 0.2)
    # Momentum ½: the second step is 0.1 (2 + 1).
    assert _one_step("sgd", momentum=0.5) == pytest.approx(1 - 0.2 - 0.3)
    # Weight decay joins the gradient: 1 − 0.1·2.5 = 0.75, then − 0.1 (2 + 0.375).
    assert _one_step("sgd", weight_decay=0.5) == pytest.approx(0.75 - 0.2375)
    # Adam moves by lr while the gradient stays the same; AdamW first shrinks by 1 − 0.1·0.5.
    assert _one_step("adam") == pytest.approx(0.8, abs=1e-6)
    assert _one_step("adamw", weight_decay=0.5) == pytest.approx((0.95 - 0.1) * 0.95 - 0.1, abs=1e-6)


def test_refused() -> None:
    with pytest.raises(UnderstudyError, match="adamw"):
        _one_step("lion")
    frozen = nn.Linear(2, 2).requires_grad_(False)
    with pytest.raises(UnderstudyError, match="requires_grad"):
        make_optimizer("adam", frozen.parameters(), lr=0.1, weight_decay=0, momentum=0)
