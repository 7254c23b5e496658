"""Fidelity weights: exp(−β u / mean u) by hand, from every kind of label and from given uncertainties."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

import understudy as us
from understudy.objective import Columns, Context, Outputs, Step


def _context(teacher: Any, rows: int, classes: int = 2) -> Context:
    def unused(x: object) -> Tensor:
        raise AssertionError("fidelity does not look at the student")

    return Context(None, us.Pool(torch.zeros(rows, 1), teacher), classes=classes, predict=unused, features=unused)


def _weight(objective: us.Objective, context: Context) -> list[float]:
    assert objective.weight is not None
    columns: Columns = objective.weight.prepare(context)
    rows = torch.arange(len(columns["weight"]))
    step = Step(
        Outputs(torch.zeros(len(rows), 2)), torch.zeros(len(rows), 2), rows, {"fidelity.weight": columns["weight"]}
    )
    weights = objective.pool_weights(torch.ones(len(rows)), step)
    assert weights is not None
    return weights.tolist()


def test_entropy_form_by_hand() -> None:
    # Entropies 0 and log 2, their mean ½ log 2.
    context = _context([[1.0, 0.0], [0.5, 0.5]], 2)
    assert _weight(us.fidelity(), context) == pytest.approx([1.0, math.exp(-2)])
    assert _weight(us.fidelity(beta=0.5), context) == pytest.approx([1.0, math.exp(-1)])
    assert context.facts["fidelity.mean_weight"] == pytest.approx((1 + math.exp(-1)) / 2)


def test_given_uncertainty_by_hand() -> None:
    context = _context([[0.9, 0.1], [0.6, 0.4]], 2)
    found = _weight(us.fidelity(beta=2, uncertainty=[0.1, 0.3]), context)
    assert found == pytest.approx([math.exp(-1), math.exp(-3)])


def test_beta_does_not_depend_on_the_pools_size() -> None:
    """The mean, not the total: a pool twice over has the same weights twice over."""
    teacher = torch.tensor([[0.9, 0.1], [0.6, 0.4], [0.99, 0.01]])
    once = _weight(us.fidelity(), _context(teacher, 3))
    assert _weight(us.fidelity(), _context(teacher.repeat(2, 1), 6)) == pytest.approx(once * 2)


def test_hard_labels_all_count_the_same() -> None:
    assert _weight(us.fidelity(beta=3), _context([0, 1, 1], 3)) == [1.0, 1.0, 1.0]
    assert _weight(us.fidelity(beta=3), _context([[1.0, 0.0], [0.0, 1.0]], 2)) == [1.0, 1.0]


def test_hard_labels_with_a_confidence() -> None:
    # What is left open: 0.1 and 0.3, their mean 0.2.
    context = _context(us.Hard([0, 1], [0.9, 0.7]), 2)
    assert _weight(us.fidelity(), context) == pytest.approx([math.exp(-0.5), math.exp(-1.5)])
    with pytest.raises(us.UnderstudyError, match="outside"):
        _weight(us.fidelity(), _context(us.Hard([0, 1], [3.0, 0.7]), 2))


def test_the_loss_is_multiplied() -> None:
    g = torch.Generator().manual_seed(0)
    x, teacher = torch.randn(9, 3, generator=g), torch.randn(9, 2, generator=g).softmax(-1)
    net, pool = us.models.linear(3, 2), us.Pool(x, teacher)
    run = us.train(net, None, pool, us.fidelity(beta=2), epochs=1, batch_size=9, progress=False)
    f = net(x).double().softmax(-1)
    entropy = -(teacher.double() * teacher.double().log()).sum(1)
    weight = torch.exp(-2 * entropy / entropy.mean())
    expected = (weight * -(teacher.double() * f.log()).sum(1)).mean()
    assert run.history[0]["loss"] == pytest.approx(expected.item(), rel=1e-5)
    torch.testing.assert_close(run.columns["fidelity.weight"], weight.float())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"uncertainty": [0.1]}, "1 rows"),
        ({"uncertainty": [[0.1, 0.1], [0.2, 0.2]]}, "one number per pool row"),
        ({"uncertainty": [0.1, -0.1]}, "row 1"),
        ({"uncertainty": [math.nan, 0.1]}, "row 0"),
    ],
)
def test_uncertainty_is_checked(options: dict[str, Any], message: str) -> None:
    with pytest.raises(us.UnderstudyError, match=message):
        _weight(us.fidelity(**options), _context([[0.9, 0.1], [0.6, 0.4]], 2))


@pytest.mark.parametrize("beta", [-1.0, math.nan, math.inf])
def test_beta_is_checked(beta: float) -> None:
    with pytest.raises(us.UnderstudyError, match="beta"):
        us.fidelity(beta)
