"""PolyLoss: cross-entropy plus its first polynomial term, worked by hand, and the loss as a slot."""

import math

import pytest
import torch

import understudy as us
from understudy.objective import Objective, Outputs, Step

TEACHER = torch.tensor([[0.8, 0.2]])
# f = (0.75, 0.25)
LOGITS = torch.tensor([[math.log(3.0), 0.0]])
CROSS_ENTROPY = -0.8 * math.log(0.75) - 0.2 * math.log(0.25)


def _loss(objective: Objective) -> float:
    step = Step(Outputs(LOGITS), TEACHER, torch.tensor([0]), temperature=objective.temperatures[1])
    return float(objective.pool_losses(step))


@pytest.mark.parametrize("epsilon", [-1.0, -0.4, 0.0, 1.0, 2.0, 50.0])
def test_cross_entropy_and_one_more_term(epsilon: float) -> None:
    # Σ q (1 − f) = 0.8 · 0.25 + 0.2 · 0.75 = 0.35
    assert _loss(us.poly(epsilon)) == pytest.approx(CROSS_ENTROPY + epsilon * 0.35, rel=1e-6)
    assert _loss(us.poly(epsilon, hard=True)) == pytest.approx(-math.log(0.75) + epsilon * 0.25, rel=1e-6)


def test_the_default_epsilon_is_one() -> None:
    assert _loss(us.poly()) == pytest.approx(CROSS_ENTROPY + 0.35, rel=1e-6)


def test_temperature() -> None:
    f = math.sqrt(3) / (1 + math.sqrt(3))
    one = -2 / 3 * math.log(f) - 1 / 3 * math.log(1 - f) + 3 * (2 / 3 * (1 - f) + 1 / 3 * f)
    assert _loss(us.poly(3, temperature=2)) == pytest.approx(one, rel=1e-6)
    assert _loss(us.poly(3, temperature=(1, 2), temperature_scale=True)) == pytest.approx(4 * one, rel=1e-6)


def test_gold_rows_have_the_same_loss() -> None:
    own = us.poly(2.0).gold_losses(LOGITS, torch.tensor([[0.0, 1.0]]))
    assert own.item() == pytest.approx(-math.log(0.25) + 2 * 0.75, rel=1e-6)


def test_the_slot_reads_well_and_compares_by_value() -> None:
    assert repr(us.poly_loss(2.0)) == "PolyLoss(epsilon=2.0)"
    assert us.poly_loss(2.0) == us.poly_loss(2.0) != us.poly_loss(1.0)
    assert us.poly().name == "poly"


@pytest.mark.parametrize("epsilon", [-1.01, math.inf, math.nan])
def test_epsilon_is_checked(epsilon: float) -> None:
    with pytest.raises(us.UnderstudyError, match="epsilon"):
        us.poly(epsilon)
