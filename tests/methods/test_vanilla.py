"""Vanilla distillation: hand-worked losses, with and without temperature."""

import math

import pytest
import torch

import understudy as us
from understudy.maths.losses import poly
from understudy.objective import Objective, Outputs, Step

TEACHER = torch.tensor([[0.8, 0.2]])
# f = (0.75, 0.25)
LOGITS = torch.tensor([[math.log(3.0), 0.0]])


def _loss(objective: Objective) -> float:
    step = Step(Outputs(LOGITS), TEACHER, torch.tensor([0]), temperature=objective.temperatures[1])
    return float(objective.pool_losses(step))


def test_soft_and_hard_targets() -> None:
    assert _loss(us.vanilla()) == pytest.approx(-0.8 * math.log(0.75) - 0.2 * math.log(0.25), rel=1e-6)
    assert _loss(us.vanilla(hard=True)) == pytest.approx(-math.log(0.75), rel=1e-6)


def test_temperature_divides_both_logits_and_scales_the_loss_where_asked() -> None:
    # T = 2: student odds √3, teacher odds 2.
    f = math.sqrt(3) / (1 + math.sqrt(3))
    tempered = -2 / 3 * math.log(f) - 1 / 3 * math.log(1 - f)
    assert _loss(us.vanilla(temperature=2)) == pytest.approx(tempered, rel=1e-6)
    assert _loss(us.weighted(temperature=2)) == pytest.approx(tempered, rel=1e-6)
    assert _loss(us.vanilla(temperature=2, temperature_scale=True)) == pytest.approx(4 * tempered, rel=1e-6)
    # A hard target has no temperature; the student has.
    assert _loss(us.vanilla(temperature=2, hard=True)) == pytest.approx(-math.log(f), rel=1e-6)


@pytest.mark.parametrize("scale", [None, False, True])
def test_gold_and_pool_in_one_call_are_the_two_apart(scale: bool | None) -> None:
    objective = us.vanilla(temperature=2, temperature_scale=scale)
    labels, both = torch.tensor([[1.0, 0.0]]), torch.cat([LOGITS + 1, LOGITS])
    step = Step(Outputs(LOGITS), TEACHER, torch.tensor([0]), temperature=2)
    apart = torch.cat([objective.gold_losses(both[:1], labels), objective.pool_losses(step)])
    torch.testing.assert_close(objective.all_losses(both, labels, step), apart)


def test_pair_of_temperatures() -> None:
    objective = us.vanilla(temperature=(1.0, 2.0))
    assert objective.temperatures == (1.0, 2.0)
    assert _loss(objective) == pytest.approx(_loss(us.vanilla(temperature=2)))
    own = objective.gold_losses(LOGITS, torch.tensor([[1.0, 0.0]]))
    assert own.item() == pytest.approx(-math.log(0.75), rel=1e-6)
    swapped = us.vanilla(temperature=(2.0, 1.0)).gold_losses(LOGITS, torch.tensor([[1.0, 0.0]]))
    f = math.sqrt(3) / (1 + math.sqrt(3))
    assert swapped.item() == pytest.approx(-math.log(f), rel=1e-6)


def test_zero_probabilities_survive_tempering() -> None:
    objective = us.vanilla(temperature=3)
    step = Step(Outputs(LOGITS), torch.tensor([[1.0, 0.0]]), torch.tensor([0]), temperature=3)
    assert objective.target(step).tolist() == [[1.0, 0.0]]
    assert objective.pool_losses(step).isfinite().all()


def test_any_loss_fits_the_slot() -> None:
    expected = -0.8 * math.log(0.75) - 0.2 * math.log(0.25) + 0.8 * 0.25 + 0.2 * 0.75
    assert _loss(us.vanilla(loss=poly)) == pytest.approx(expected, rel=1e-6)


def test_vanilla_needs_no_estimate(generator: torch.Generator) -> None:
    x = torch.randn(12, 3, generator=generator)
    gold = us.Gold(x[:4], [0, 1, 0, 1])
    pool = us.Pool(x, torch.randn(12, 2, generator=generator).softmax(-1))
    run = us.train(us.models.linear(3, 2), gold, pool, us.vanilla(), epochs=1, progress=False)
    assert not any(name.startswith(("slam.", "debias.", "vanilla.")) for name in run.columns)


@pytest.mark.parametrize("temperature", [0, -1.0, (1.0, 0.0), float("nan")])
def test_temperature_is_positive(temperature: float) -> None:
    with pytest.raises(us.UnderstudyError, match="temperature"):
        us.vanilla(temperature=temperature)
