"""Class ratio: clean shares, given or measured on gold, become weights of mean 1."""

import pytest
import torch
from torch import Tensor

import understudy as us
from understudy.objective import Context


def _weights(objective_weight: object, gold: us.Gold | None, labels: list[int], classes: int) -> Tensor:
    pool = us.Pool(torch.zeros(len(labels), 1), us.Hard(labels, classes=classes))
    context = Context(gold, pool, classes=classes, predict=lambda x: x, features=lambda x: x)
    return objective_weight.prepare(context)["weight"]  # type: ignore[attr-defined, no-any-return]


def test_given_shares_by_hand() -> None:
    """Shares 0.2 and 1 on three rows and one: mean 0.4, weights 0.5 and 2.5."""
    found = _weights(us.class_ratio_weight(clean_share=[0.2, 1.0]), None, [0, 0, 0, 1], 2)
    torch.testing.assert_close(found, torch.tensor([0.5, 0.5, 0.5, 2.5]))


def test_shares_from_gold_by_hand() -> None:
    """Label 0 is right once in two, label 1 always: it is the label's class that counts, not the true one."""
    gold = us.Gold(torch.zeros(3, 1), [0, 1, 1], us.Hard([0, 0, 1], classes=2))
    found = _weights(us.class_ratio_weight(), gold, [0, 1], 2)
    torch.testing.assert_close(found, torch.tensor([2 / 3, 4 / 3]))


def test_it_helps_against_background_flips() -> None:
    from understudy.data.noise import background_flip

    y = torch.arange(3000) % 5
    noisy, _ = background_flip(y, 0.5, 0, 5, seed=0)
    share = [float((y[noisy == label] == label).double().mean()) for label in range(5)]
    found = _weights(us.class_ratio_weight(clean_share=share), None, noisy.tolist(), 5)
    # A third of the background's labels are right, all of the others'.
    assert found[noisy == 0].mean() / found[noisy == 1].mean() == pytest.approx(1 / 3, abs=0.02)
    assert found.mean().item() == pytest.approx(1.0)


def test_bad_input_fails_before_the_first_step() -> None:
    x, net = torch.zeros(4, 1), us.models.linear(1, 3)
    pool = us.Pool(x, us.Hard([0, 1, 2, 0], classes=3))

    def train(objective: us.Objective, gold: us.Gold | None = None) -> None:
        us.train(net, gold, pool, objective, epochs=1, progress=False)

    with pytest.raises(us.UnderstudyError, match="gold rows can estimate"):
        train(us.class_ratio())
    with pytest.raises(us.UnderstudyError, match="named no gold row class 2"):
        train(us.class_ratio(), us.Gold(x[:3], [0, 1, 2], us.Hard([0, 1, 0], classes=3)))
    with pytest.raises(us.UnderstudyError, match="3 numbers"):
        train(us.class_ratio([0.5, 0.5]))
    with pytest.raises(us.UnderstudyError, match="3 numbers"):
        train(us.class_ratio([0.5, 0.5, 1.5]))
    with pytest.raises(us.UnderstudyError, match="every class in the pool is 0"):
        train(us.class_ratio([0.0, 0.0, 0.0]))


def test_a_batch_of_dirty_classes_alone_makes_no_step() -> None:
    """Weight decay would move the student by itself: with one row a batch, only the clean row may."""
    pool = us.Pool(torch.ones(5, 2), us.Hard([0, 0, 0, 0, 1], classes=2))
    net = us.models.linear(2, 2)
    options = {"epochs": 1, "batch_size": 1, "optimizer": "sgd", "weight_decay": 0.1, "momentum": 0.0}
    run = us.train(net, None, pool, us.class_ratio([0.0, 1.0]), lr=0.1, progress=False, **options)  # type: ignore[arg-type]
    # The clean row weighs 1 / mean(0, 0, 0, 0, 1) = 5.
    weight, bias = (parameter.detach() for parameter in net.parameters())
    slope = (torch.ones(2) @ weight.T + bias).softmax(-1) - torch.tensor([0.0, 1.0])
    expected = weight - 0.1 * (5 * slope[:, None] * torch.ones(2) + 0.1 * weight)
    torch.testing.assert_close(next(run.student.parameters()).detach(), expected)
