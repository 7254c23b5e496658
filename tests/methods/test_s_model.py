"""S-model: how the layer starts, that it learns the noise, and that predict does not see it."""

import math

import pytest
import torch

import understudy as us
from understudy.methods.s_model import TransitionLayer
from understudy.objective import Context, Outputs, Step


def _layer(objective: us.Objective, gold: us.Gold | None = None, classes: int = 2) -> TransitionLayer:
    pool = us.Pool(torch.zeros(2, 1), us.Hard([0, 1], classes=classes))
    context = Context(gold, pool, classes=classes, predict=lambda x: x, features=lambda x: x)
    assert objective.link is not None
    layer = objective.link.module(context)
    assert isinstance(layer, TransitionLayer)
    return layer


def test_identity_start_by_hand() -> None:
    """0.8 I + 0.2 / 4."""
    found = _layer(us.s_model(smoothing=0.2), classes=4).transition()
    torch.testing.assert_close(found.detach(), 0.8 * torch.eye(4) + 0.05)


def test_confusion_start_by_hand() -> None:
    """Class 0 is called 0, 0, 1, 1 on gold: (0.5, 0.5); class 1 always 1: (0, 1)."""
    gold = us.Gold(torch.zeros(5, 1), [0, 0, 0, 0, 1], us.Hard([0, 0, 1, 1, 1], classes=2))
    found = _layer(us.s_model("confusion", smoothing=0.1), gold).transition()
    torch.testing.assert_close(found.detach(), torch.tensor([[0.5, 0.5], [0.05, 0.95]]))


def test_predictions_start_by_hand_and_by_a_sum_over_rows() -> None:
    """p(0) = (1, ½), labels 0 and 1: T₀[0] = (1, ½) / 1.5, T₀[1] = (0, ½) / 0.5; for soft labels the same sum."""
    probs = torch.tensor([[1.0, 0.0], [0.5, 0.5]])
    found = _layer(us.s_model("predictions", smoothing=0.1, noisy_probs=probs)).transition()
    torch.testing.assert_close(found.detach(), 0.9 * torch.tensor([[2 / 3, 1 / 3], [0.0, 1.0]]) + 0.05)

    g = torch.Generator().manual_seed(0)
    probs, labels = (torch.randn(30, 3, generator=g, dtype=torch.float64).softmax(-1) for _ in range(2))
    context = Context(None, us.Pool(torch.zeros(30, 1), labels), classes=3, predict=lambda x: x, features=lambda x: x)
    for hard in (False, True):
        link = us.s_model_link(init="predictions", noisy_probs=probs, hard=hard)
        q = torch.nn.functional.one_hot(labels.argmax(1), 3).double() if hard else labels
        by_rows = torch.zeros(3, 3, dtype=torch.float64)
        for row in range(30):
            by_rows += probs[row].unsqueeze(1) * q[row].unsqueeze(0)
        torch.testing.assert_close(link.start(context), by_rows / probs.sum(0).unsqueeze(1), rtol=1e-6, atol=1e-6)


def test_predictions_start_near_the_noise_without_gold() -> None:
    """30% of class 0 is called 1; a net trained on these labels for a while knows the classes: T₀ is near the noise."""
    g = torch.Generator().manual_seed(0)
    y = torch.randint(2, (2000,), generator=g)
    x = 4 * torch.nn.functional.one_hot(y, 2) + torch.randn(2000, 2, generator=g)
    noisy = torch.where((y == 0) & (torch.rand(2000, generator=g) < 0.3), 1, y)
    pool = us.Pool(x, us.Hard(noisy, classes=2))
    net = us.models.linear(2, 2)
    before = us.train(net, None, pool, us.vanilla(), epochs=3, lr=0.05, progress=False).predict(x)
    run = us.train(net, None, pool, us.s_model("predictions", noisy_probs=before), epochs=3, lr=0.02, progress=False)
    assert (run.predict(x).argmax(1) == y).double().mean() > 0.97


def test_loss_by_hand_and_its_gradient_reaches_the_layer() -> None:
    """f = (¾, ¼) through ((0.9, 0.1), (0.1, 0.9)): (0.7, 0.3)."""
    objective = us.s_model(smoothing=0.2)
    layer = _layer(objective)
    logits = torch.tensor([[math.log(3), 0.0]])
    step = Step(Outputs(logits), torch.tensor([[0.0, 1.0]]), torch.arange(1), modules={"s_model": layer})
    losses = objective.pool_losses(step)
    torch.testing.assert_close(losses.detach(), torch.tensor([-math.log(0.3)]))
    losses.sum().backward()
    assert layer.weight.grad is not None and layer.weight.grad.abs().min() > 0


def test_the_layer_learns_the_noise_and_stays_out_of_predict() -> None:
    g = torch.Generator().manual_seed(0)
    y = torch.randint(2, (3000,), generator=g)
    x = 4 * torch.nn.functional.one_hot(y, 2) + torch.randn(3000, 2, generator=g)
    noisy = torch.where((y == 0) & (torch.rand(3000, generator=g) < 0.4), 1, y)
    gold = us.Gold(x[:40], y[:40], us.Hard(noisy[:40], classes=2))
    pool = us.Pool(x[40:], us.Hard(noisy[40:], classes=2))
    run = us.train(us.models.linear(2, 2), gold, pool, us.s_model(), epochs=20, lr=0.02, gold_repeat=5, progress=False)
    layer = run.modules["s_model"]
    assert isinstance(layer, TransitionLayer)
    torch.testing.assert_close(layer.transition()[0].detach(), torch.tensor([0.6, 0.4]), atol=0.06, rtol=0)
    # The student itself says the truth, not the label.
    assert (run.predict(x).argmax(1) == y).double().mean() > 0.97


def test_bad_input_fails_before_the_first_step() -> None:
    x, net = torch.zeros(4, 1), us.models.linear(1, 3)
    pool = us.Pool(x, us.Hard([0, 1, 2, 0], classes=3))
    with pytest.raises(us.UnderstudyError, match="gold rows can estimate"):
        us.train(net, None, pool, us.s_model("confusion"), epochs=1, progress=False)
    gold = us.Gold(x[:3], [0, 1, 0], us.Hard([0, 1, 2], classes=3))
    with pytest.warns(us.UnderstudyWarning), pytest.raises(us.UnderstudyError, match=r"s_model.* class 2"):
        us.train(net, gold, pool, us.s_model("confusion"), epochs=1, progress=False)

    with pytest.raises(us.UnderstudyError, match=r"give \(4, 3\)"):
        us.train(net, None, pool, us.s_model("predictions", noisy_probs=torch.ones(4, 2)), epochs=1, progress=False)
    with pytest.raises(us.UnderstudyError, match="never names class 2"):
        probs = torch.tensor([[0.5, 0.5, 0.0]] * 4)
        us.train(net, None, pool, us.s_model("predictions", noisy_probs=probs), epochs=1, progress=False)
    for options in ({"init": "predictions"}, {"noisy_probs": torch.ones(4, 3)}):
        with pytest.raises(us.UnderstudyError, match="pass both"):
            us.s_model(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize("options", [{"init": "random"}, {"smoothing": 0.0}])
def test_options_are_checked(options: dict[str, object]) -> None:
    with pytest.raises(us.UnderstudyError, match=next(iter(options))):
        us.s_model(**options)
