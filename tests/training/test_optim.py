"""Schedules at points worked by hand; optimizers by name."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

from understudy.errors import UnderstudyError
from understudy.training.optimizers import grouped, make_optimizer
from understudy.training.options import TrainingOptions, find_schedule, piecewise, set_lr


@pytest.mark.parametrize(
    ("name", "points"),
    [
        ("constant", {0.0: 1, 0.99: 1}),
        ("cosine", {0.0: 1, 1 / 3: 0.75, 0.5: 0.5, 1.0: 0}),
        ("linear", {0.0: 1, 0.25: 0.75, 1.0: 0}),
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
    net = nn.ParameterList([parameter])
    optimizer = make_optimizer(TrainingOptions(epochs=1, optimizer=name, **settings), net)  # type: ignore[arg-type]
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


def test_hooks_are_called_once_a_step() -> None:
    """Also where PyTorch's own class has put its wrapper around the step."""
    parameter, calls = nn.Parameter(torch.ones(1)), list[str]()
    for each in (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW):
        each([parameter], lr=0.0)
    hook = register_optimizer_step_pre_hook(lambda *_: calls.append("step"))
    for name in ("sgd", "adam", "adamw"):
        _one_step(name)
    hook.remove()
    assert len(calls) == 3 * 2


def test_refused() -> None:
    with pytest.raises(UnderstudyError, match="adamw"):
        _one_step("lion")


def test_groups_learn_at_their_own_rates() -> None:
    """One step of SGD with gradient 1: the rate times its scale, and what decays by its own decay. By hand."""
    net = nn.ModuleDict({"body": nn.Linear(1, 1), "head": nn.Linear(1, 1)})
    for parameter in net.parameters():
        nn.init.ones_(parameter)
        parameter.grad = torch.ones_like(parameter)
    groups = {"head.*": {"lr_scale": 10}, "*.bias": {"weight_decay": 0.0}}
    options: dict[str, Any] = {"optimizer": "sgd", "lr": 0.5, "weight_decay": 0.2, "momentum": 0.0}
    optimizer = make_optimizer(TrainingOptions(epochs=1, groups=groups, **options), net)
    set_lr(optimizer, 0.1)
    optimizer.step()
    found = {name: float(value) for name, value in net.state_dict().items()}
    assert found == pytest.approx(
        {"body.weight": 1 - 0.1 * 1.2, "body.bias": 1 - 0.1, "head.weight": 1 - 1.2, "head.bias": 0.0}
    )


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ({"haed.*": {"lr_scale": 2}}, "no parameter is called 'haed.\\*'"),
        ({"*": {"lr": 2}}, "'lr' is unknown; say lr_scale or weight_decay"),
        ({"*": {"lr_scale": -1}}, "must be a number and not negative"),
    ],
)
def test_groups_that_cannot_be_meant(groups: Any, message: str) -> None:
    with pytest.raises(UnderstudyError, match=message):
        grouped(nn.Linear(1, 1), groups)


def test_the_rate_rises_while_training_warms_up() -> None:
    recipe = TrainingOptions(epochs=1, lr=0.1, warmup=0.2, schedule="linear")
    rates = [recipe.lr_at(progress) for progress in (0.0, 0.1, 0.2, 0.6, 1.0)]
    assert rates == pytest.approx([0.0, 0.05, 0.1, 0.05, 0.0])
    assert TrainingOptions(epochs=1, lr=0.1, warmup=1.0).lr_at(1.0) == 0.1
    # Fine-tuning on gold is at a constant rate from its first step on.
    tuned = TrainingOptions(epochs=1, lr=0.1, warmup=0.2, schedule="cosine", finetune_epochs=1).finetuning()
    assert tuned.lr_at(0.0) == tuned.lr_at(0.9) > 0
