"""Generalised cross-entropy: values by hand, its limits, and which rows the truncation stops."""

import math

import pytest
import torch

import understudy as us
from understudy.objective import Outputs, Step

CONTRACT = {"build": lambda: us.gce(truncated=True)}


def _step(probs: list[list[float]], labels: list[int], progress: float = 0.5) -> Step:
    logits = torch.tensor(probs, dtype=torch.float64).log().requires_grad_()
    teacher = torch.nn.functional.one_hot(torch.tensor(labels), len(probs[0])).double()
    return Step(Outputs(logits), teacher, torch.arange(len(labels)), progress=progress)


def test_values_by_hand() -> None:
    """(1 − 0.25^½) / ½ = 1, and (1 − 0.64^½) / ½ = 0.4."""
    found = us.gce(g=0.5).pool_losses(_step([[0.25, 0.75], [0.36, 0.64]], [0, 1]))
    torch.testing.assert_close(found.detach(), torch.tensor([1.0, 0.4], dtype=torch.float64))


def test_limits_are_absolute_error_and_cross_entropy() -> None:
    step = _step([[0.2, 0.8], [0.9, 0.1]], [0, 0])
    torch.testing.assert_close(us.gce(g=1.0).pool_losses(step).detach(), torch.tensor([0.8, 0.1], dtype=torch.float64))
    torch.testing.assert_close(us.gce(g=1e-6).pool_losses(step), us.vanilla().pool_losses(step), rtol=1e-5, atol=1e-6)


def test_truncation_stops_rows_the_student_disbelieves() -> None:
    step = _step([[0.5, 0.5], [0.51, 0.49], [0.1, 0.9]], [0, 0, 0])
    objective = us.gce(truncated=True)
    losses = objective.pool_losses(step)
    weights = objective.pool_weights(losses, step)
    assert weights is not None
    assert weights.tolist() == [0.0, 1.0, 0.0]
    (weights * losses).sum().backward()
    truncated = us.maths.losses.truncated_gce
    # The weight gives the gradient that the loss with its constant would.
    step_again = _step([[0.5, 0.5], [0.51, 0.49], [0.1, 0.9]], [0, 0, 0])
    truncated(step_again.outputs.logits.log_softmax(-1), step_again.teacher).sum().backward()
    torch.testing.assert_close(step.outputs.logits.grad[1:], step_again.outputs.logits.grad[1:])  # type: ignore[index]


def test_truncation_waits_for_the_warm_up() -> None:
    objective = us.gce(truncated=True, warmup=0.3)
    for progress, expected in ((0.29, 1.0), (0.3, 0.0)):
        step = _step([[0.1, 0.9]], [0], progress)
        weights = objective.pool_weights(objective.pool_losses(step), step)
        assert weights is not None and weights.item() == expected


def test_truncation_looks_at_the_tempered_prediction() -> None:
    """f = softmax((ln 9, 0)) = (0.9, 0.1); at temperature 2 it is (0.75, 0.25)."""
    objective = us.gce(truncated=True, threshold=0.8, temperature=2.0)
    logits = torch.tensor([[math.log(9), 0.0]])
    step = Step(Outputs(logits), torch.tensor([[1.0, 0.0]]), torch.arange(1), progress=0.5, temperature=2.0)
    weights = objective.pool_weights(objective.pool_losses(step), step)
    assert weights is not None and weights.item() == 0.0


@pytest.mark.parametrize("options", [{"g": 0.0}, {"g": 1.5}, {"threshold": 1.0}, {"warmup": 2.0}])
def test_options_are_checked(options: dict[str, float]) -> None:
    with pytest.raises(us.UnderstudyError, match=next(iter(options))):
        us.gce(truncated=True, **options)
