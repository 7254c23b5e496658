"""Bootstrapping: the two targets by hand, and where the gradient flows."""

import math

import pytest
import torch

import understudy as us
from understudy.objective import Outputs, Step

CONTRACT = {"build": lambda: us.bootstrap(target="soft")}


def _step(logits: list[list[float]], teacher: list[list[float]], temperature: float = 1.0) -> Step:
    outputs = Outputs(torch.tensor(logits, dtype=torch.float64, requires_grad=True))
    target = torch.tensor(teacher, dtype=torch.float64)
    return Step(outputs, target, torch.arange(len(logits)), temperature=temperature)


def test_hard_target_by_hand() -> None:
    step = _step([[0.0, 1.0, 0.0]], [[1.0, 0.0, 0.0]])
    target = us.bootstrap().target(step)
    torch.testing.assert_close(target, torch.tensor([[0.8, 0.2, 0.0]], dtype=torch.float64))
    assert not target.requires_grad


def test_soft_target_by_hand() -> None:
    """f = softmax((ln 3, 0)) = (¾, ¼): 0.95 (0, 1) + 0.05 (¾, ¼)."""
    target = us.bootstrap(target="soft").target(_step([[math.log(3), 0.0]], [[0.0, 1.0]]))
    torch.testing.assert_close(target.detach(), torch.tensor([[0.0375, 0.9625]], dtype=torch.float64))


def test_soft_loss_is_cross_entropy_plus_entropy_with_its_gradient() -> None:
    step = _step([[0.3, -1.0, 0.4], [2.0, 0.0, 1.0]], [[0.0, 1.0, 0.0], [0.2, 0.2, 0.6]])
    logits = step.outputs.logits
    found = us.bootstrap(target="soft", beta=0.7).pool_losses(step)
    f = logits.softmax(-1)
    expected = -(0.7 * step.teacher * f.log()).sum(-1) - 0.3 * (f * f.log()).sum(-1)
    torch.testing.assert_close(found, expected)
    gradients = [torch.autograd.grad(losses.sum(), logits, retain_graph=True)[0] for losses in (found, expected)]
    torch.testing.assert_close(*gradients)


def test_soft_target_is_tempered_like_the_prediction() -> None:
    step = _step([[2 * math.log(3), 0.0]], [[1.0, 0.0]], temperature=2.0)
    target = us.bootstrap(target="soft", beta=0.5, temperature=2.0, hard=True).target(step)
    torch.testing.assert_close(target.detach(), torch.tensor([[0.875, 0.125]], dtype=torch.float64))


@pytest.mark.parametrize("options", [{"target": "medium"}, {"beta": 1.2}])
def test_options_are_checked(options: dict[str, object]) -> None:
    with pytest.raises(us.UnderstudyError, match=next(iter(options))):
        us.bootstrap(**options)
