"""The moving average against a hand-worked sequence; modes, buffers, checkpoints."""

import pytest
import torch
from torch import nn

from understudy.errors import UnderstudyError
from understudy.training.averages import EMA
from understudy.training.options import TrainingOptions


class One(nn.Module):
    """One parameter, one float and one integer buffer."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([value]))
        self.register_buffer("mean", torch.zeros(1))
        self.register_buffer("steps", torch.tensor(0))


def set_to(model: One, value: float) -> None:
    with torch.no_grad():
        model.weight.fill_(value)


def test_decay_by_hand() -> None:
    """decay 0, 1/2, 2/3 while warming up: the mean of the iterates so far, 6, 7, 5."""
    model = One(100.0)
    ema = EMA(model)
    assert ema.module.weight.item() == 100  # the model's own initialisation
    for value, mean in ((6.0, 6.0), (8.0, 7.0), (1.0, 5.0)):
        set_to(model, value)
        ema.update(model)
        assert ema.module.weight.item() == pytest.approx(mean)
    assert ema.updates == 3


def test_decay_is_capped() -> None:
    """At decay 0.6 the third update uses 0.6, not 2/3: 0.6 · 7 + 0.4 · 1 = 4.6; at t = 2000 the default is 0.999."""
    model = One(0.0)
    ema = EMA(model, decay=0.6)
    for value in (6.0, 8.0, 1.0):
        set_to(model, value)
        ema.update(model)
    assert ema.module.weight.item() == pytest.approx(4.6)

    late = EMA(One(1.0))
    late.updates = 2000
    late.update(One(2.0))
    assert late.module.weight.item() == pytest.approx(1.001)


def test_equation_1_of_the_s_badge_paper_by_hand() -> None:
    """Without warm-up: 0.9 · 100 + 0.1 · 6 = 90.6, 0.9 · 90.6 + 0.1 · 8 = 82.34; the same as one sum."""
    model = One(100.0)
    ema = EMA(model, decay=0.9, warmup=False)
    for value, average in ((6.0, 90.6), (8.0, 82.34)):
        set_to(model, value)
        ema.update(model)
        assert ema.module.weight.item() == pytest.approx(average)
    assert ema.module.weight.item() == pytest.approx(0.9**2 * 100 + 0.1 * (0.9 * 6 + 8))


def test_a_resumed_training_may_not_change_the_warm_up() -> None:
    net = nn.Linear(2, 2)
    settings = [TrainingOptions(epochs=1, ema=ema).settings()["ema"] for ema in (EMA(net), EMA(net, warmup=False))]
    assert settings == [0.999, "0.999 without warm-up"]


def test_buffers_are_copied_not_averaged() -> None:
    model = One(0.0)
    ema = EMA(model)
    for step in range(1, 4):
        model.mean.fill_(10.0 * step)
        model.steps.fill_(step)
        ema.update(model)
    assert ema.module.mean.item() == 30
    assert ema.module.steps.item() == 3


def test_eval_mode_and_independence() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 2)).train()
    ema = EMA(model)
    ema.update(model)
    assert model.training and all(p.requires_grad for p in model.parameters())
    assert not any(m.training for m in ema.module.modules())
    assert not any(p.requires_grad for p in ema.module.parameters())
    before = {name: value.clone() for name, value in ema.module.state_dict().items()}
    x = torch.randn(5, 3)
    ema.module(x)
    model(x).sum().backward()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.sub_(parameter.grad)
    for name, value in ema.module.state_dict().items():
        assert torch.equal(value, before[name]), name


def test_agrees_with_float64_over_a_training_run() -> None:
    torch.manual_seed(0)
    model = nn.Linear(4, 3)
    ema = EMA(model, decay=0.9)
    expected = model.weight.detach().double().clone()
    for t in range(50):
        with torch.no_grad():
            model.weight.add_(torch.randn_like(model.weight))
        ema.update(model)
        decay = min(1 - 1 / (t + 1), 0.9)
        expected = decay * expected + (1 - decay) * model.weight.detach().double()
    torch.testing.assert_close(ema.module.weight.double(), expected, rtol=1e-5, atol=1e-5)


def test_reset_forgets_the_last_round() -> None:
    model = One(5.0)
    ema = EMA(model)
    for _ in range(10):
        ema.update(model)
    fresh = One(-3.0)
    fresh.mean.fill_(2.0)
    ema.reset(fresh)
    assert (ema.module.weight.item(), ema.module.mean.item(), ema.updates) == (-3, 2, 0)
    set_to(fresh, 4.0)
    ema.update(fresh)
    assert ema.module.weight.item() == 4


def test_checkpoint_continues_with_the_same_bits() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    straight, first = EMA(model), EMA(model)
    for _ in range(3):
        with torch.no_grad():
            model[0].weight.add_(torch.randn(4, 3))
        straight.update(model)
        first.update(model)
    state = {name: value.clone() for name, value in first.state_dict().items()}
    assert all(isinstance(value, torch.Tensor) for value in state.values())
    second = EMA(nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)))
    second.load_state_dict(state)
    with torch.no_grad():
        model[0].weight.add_(1)
    straight.update(model)
    second.update(model)
    for name, value in straight.state_dict().items():
        assert torch.equal(value, second.state_dict()[name]), name


def test_module_without_parameters() -> None:
    ema = EMA(nn.ReLU())
    ema.update(nn.ReLU())
    ema.reset(nn.ReLU())
    assert ema.updates == 0


def test_misuse_is_explained() -> None:
    with pytest.raises(UnderstudyError, match="decay"):
        EMA(nn.Linear(2, 2), decay=1.0)
    ema = EMA(nn.Linear(2, 2))
    with pytest.raises(UnderstudyError, match="make a new EMA"):
        ema.update(nn.Linear(2, 3))
    with pytest.raises(UnderstudyError, match="'updates' is missing"):
        ema.load_state_dict({})
    with pytest.raises(UnderstudyError, match="another model"):
        ema.load_state_dict(EMA(nn.Linear(3, 3)).state_dict())
