"""Taylor cross-entropy: the series worked by hand, its two ends, and the loss as a slot."""

import math

import pytest
import torch

import understudy as us
from understudy.objective import Objective, Outputs, Step

TEACHER = torch.tensor([[0.8, 0.2]])
# f = (0.75, 0.25)
LOGITS = torch.tensor([[math.log(3.0), 0.0]])


def _loss(objective: Objective) -> float:
    step = Step(Outputs(LOGITS), TEACHER, torch.tensor([0]), temperature=objective.temperatures[1])
    return float(objective.pool_losses(step))


@pytest.mark.parametrize(
    ("degree", "soft", "hard"),
    [
        (1, 0.8 * 0.25 + 0.2 * 0.75, 0.25),
        (2, 0.8 * (0.25 + 0.03125) + 0.2 * (0.75 + 0.28125), 0.28125),
        (3, 0.8 * (0.28125 + 0.25**3 / 3) + 0.2 * (1.03125 + 0.75**3 / 3), 0.28125 + 0.25**3 / 3),
    ],
)
def test_the_series_by_hand(degree: int, soft: float, hard: float) -> None:
    assert _loss(us.taylor(degree)) == pytest.approx(soft, rel=1e-6)
    assert _loss(us.taylor(degree, hard=True)) == pytest.approx(hard, rel=1e-6)


def test_the_default_degree_is_two() -> None:
    assert _loss(us.taylor()) == _loss(us.taylor(degree=2))


def test_many_terms_are_cross_entropy() -> None:
    assert _loss(us.taylor(degree=300)) == pytest.approx(_loss(us.vanilla()), rel=1e-5)


def test_temperature() -> None:
    # T = 2: student odds √3, teacher odds 2; T² = 4 is left out unless asked for.
    f = math.sqrt(3) / (1 + math.sqrt(3))
    one = 2 / 3 * (1 - f) + 1 / 3 * f
    assert _loss(us.taylor(1, temperature=2)) == pytest.approx(one, rel=1e-6)
    assert _loss(us.taylor(1, temperature=(1, 2), temperature_scale=True)) == pytest.approx(4 * one, rel=1e-6)


def test_gold_rows_have_the_same_loss() -> None:
    own = us.taylor(2).gold_losses(LOGITS, torch.tensor([[0.0, 1.0]]))
    assert own.item() == pytest.approx(0.75 + 0.75**2 / 2, rel=1e-6)


def test_hopeless_labels_cost_a_bounded_amount() -> None:
    log_f = torch.tensor([[0.0, -1e4]])
    assert us.taylor_loss(2)(log_f, torch.tensor([[0.0, 1.0]])).item() == pytest.approx(1.5)


def test_the_slot_reads_well_and_compares_by_value() -> None:
    assert repr(us.taylor_loss(3)) == "TaylorLoss(degree=3)"
    assert us.taylor_loss(3) == us.taylor_loss(3) != us.taylor_loss(2)
    assert us.taylor(3).name == "taylor"


@pytest.mark.parametrize("degree", [0, -1, 1.5])
def test_degree_is_checked(degree: float) -> None:
    with pytest.raises(us.UnderstudyError, match="degree"):
        us.taylor(degree)  # type: ignore[arg-type]
