"""Self-distillation: the blend by hand, what its share depends on, and that it does better than plain training."""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import understudy as us
from understudy.data.noise import uniform_flip
from understudy.objective import Outputs, Step


def _step(logits: list[list[float]], labels: list[int], progress: float = 0.0) -> Step:
    outputs = torch.tensor(logits, requires_grad=True)
    teacher = torch.nn.functional.one_hot(torch.tensor(labels), len(logits[0])).float()
    return Step(Outputs(outputs), teacher, torch.arange(len(labels)), progress=progress)


def test_target_by_hand() -> None:
    """Two of four predictions agree with the labels: 1 − α = 0.8 · ½ = 0.4."""
    step = _step([[2.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 3.0], [1.0, 0.0, 0.0]], [0, 1, 0, 2])
    target = us.self_distillation(0.8).target(step)
    expected = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.6, 0.0, 0.4], [0.4, 0.0, 0.6]]
    torch.testing.assert_close(target, torch.tensor(expected))
    assert not target.requires_grad


def test_soft_target_is_tempered_by_hand() -> None:
    """softmax((2 ln 3, 0) / 2) = (3/4, 1/4); the prediction is right, so 1 − α = 0.5 · 1."""
    step = _step([[2 * math.log(3), 0.0]], [0])
    target = us.self_distillation(0.5, target="soft", target_temperature=2.0).target(step)
    torch.testing.assert_close(target, torch.tensor([[0.5 + 0.5 * 0.75, 0.5 * 0.25]]))
    assert not target.requires_grad


def test_the_share_is_clipped_at_one() -> None:
    step = _step([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]], [0, 0, 1])
    torch.testing.assert_close(us.self_distillation(1.6).target(step), torch.tensor([[1.0, 0.0]] * 3))


def test_strength_zero_is_vanilla() -> None:
    step = _step([[1.0, 0.3], [0.1, 0.2]], [1, 1])
    torch.testing.assert_close(us.self_distillation(0.0).pool_losses(step), us.vanilla().pool_losses(step))


def test_a_schedule_replaces_the_adaptive_share() -> None:
    objective = us.self_distillation(schedule=lambda progress: 1 - progress)
    for progress, alpha in ((0.0, 1.0), (0.25, 0.75), (1.0, 0.0)):
        target = objective.target(_step([[0.0, 1.0]], [0], progress))
        torch.testing.assert_close(target, torch.tensor([[alpha, 1 - alpha]]))


def test_a_soft_target_is_sharpened_where_no_temperature_is_given() -> None:
    """T = ½ squares the odds: (3/4, 1/4) becomes (9, 1) / 10; the best class has no temperature."""
    step = Step(Outputs(torch.tensor([[math.log(3.0), 0.0]])), torch.tensor([[1.0, 0.0]]), torch.arange(1))
    target = us.self_distillation(1.0, target="soft").target(step)
    torch.testing.assert_close(target, torch.tensor([[0.9, 0.1]]))
    with pytest.raises(us.UnderstudyError, match="pass target='soft'"):
        us.self_distillation(target_temperature=0.5)


def test_soft_labels_blend_too() -> None:
    step = Step(Outputs(torch.tensor([[5.0, 0.0]])), torch.tensor([[0.7, 0.3]]), torch.arange(1))
    torch.testing.assert_close(us.self_distillation(0.5).target(step), torch.tensor([[0.85, 0.15]]))
    torch.testing.assert_close(us.self_distillation(0.5, hard=True).target(step), torch.tensor([[1.0, 0.0]]))


@pytest.mark.parametrize(
    "options",
    [
        {"strength": -1.0},
        {"target": "medium"},
        {"target_temperature": 0.0},
        {"schedule": lambda progress: progress},
        {"schedule": lambda progress: 2 - progress},
    ],
)
def test_options_are_checked(options: dict[str, object]) -> None:
    with pytest.raises(us.UnderstudyError, match=next(iter(options))):
        us.self_distillation(**options)


def _noisy_blobs(seed: int) -> tuple[Tensor, Tensor, Tensor]:
    g = torch.Generator().manual_seed(seed)
    y = torch.arange(600) % 3
    x = torch.randn(3, 20, generator=g)[y] + torch.randn(600, 20, generator=g)
    noisy, _ = uniform_flip(y, 0.4, 3, seed=seed)
    return x, y, noisy


def test_no_gold_is_needed_and_wrong_labels_are_not_memorised() -> None:
    x, y, noisy = _noisy_blobs(0)
    found = {}
    for objective in (us.vanilla(), us.self_distillation()):
        run = us.train(
            lambda: us.models.mlp(20, 3, hidden=(128,)), None, us.Pool(x, us.Hard(noisy, classes=3)), objective,
            epochs=30, batch_size=50, lr=5e-3, schedule="cosine", progress=False,
        )  # fmt: skip
        found[objective.name] = float((run.predict(x).argmax(1) == y).double().mean())
    assert found["self_distillation"] > found["vanilla"] + 0.05


@pytest.mark.torture
def test_fashion_mnist_with_forty_percent_flips(shared_data: Callable[[str], Path]) -> None:
    """A small version of experiments/air_fashion_mnist.py: better than plain training, finds wrong labels."""
    from sklearn.metrics import roc_auc_score

    with np.load(shared_data("fashion_mnist.npz"), allow_pickle=False) as arrays:
        x = torch.from_numpy(arrays["x_train"][:4000].reshape(4000, -1)).float() / 255
        y = torch.from_numpy(arrays["y_train"][:4000]).long()
        x_test = torch.from_numpy(arrays["x_test"][:2000].reshape(2000, -1)).float() / 255
        y_test = torch.from_numpy(arrays["y_test"][:2000]).long()
    noisy, wrong = uniform_flip(y, 0.4, 10, seed=0)
    accuracy = {}
    for objective in (us.vanilla(), us.self_distillation()):
        run = us.train(
            lambda: us.models.mlp(784, 10, hidden=(512, 512)), None, us.Pool(x, us.Hard(noisy, classes=10)), objective,
            epochs=40, schedule="cosine", progress=False,
        )  # fmt: skip
        accuracy[objective.name] = us.evaluate(run.student, us.Gold(x_test, y_test))["accuracy"]
    assert accuracy["self_distillation"] > accuracy["vanilla"] + 0.07
    assert roc_auc_score(wrong, run.columns["refined.wrong"]) > 0.95
    assert (run.columns["refined.label"] == y).double().mean() > (noisy == y).double().mean() + 0.1
