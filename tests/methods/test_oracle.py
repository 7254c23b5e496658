"""Oracle: weight 0 where the teacher is wrong, the rest scaled to mean 1 over the batch."""

from typing import Any

import pytest
import torch
from torch import Tensor

import understudy as us
from understudy.objective import Context, Outputs, Step

TEACHER = torch.tensor([[0.8, 0.2], [0.4, 0.6], [0.7, 0.3], [0.1, 0.9]])
TRUTH = [0, 0, 0, 1]

# The truth of the contract's pool rows.
CONTRACT = {"build": lambda: us.oracle(truth=torch.arange(12) % 4)}


def _context(teacher: Any = TEACHER) -> Context:
    def unused(x: object) -> Tensor:
        raise AssertionError("the oracle does not look at the student")

    return Context(None, us.Pool(torch.zeros(4, 1), teacher), classes=2, predict=unused, features=unused)


def _weights(objective: us.Objective, columns: dict[str, Tensor], rows: list[int]) -> list[float]:
    index = torch.tensor(rows)
    step = Step(
        Outputs(torch.zeros(len(rows), 2)),
        TEACHER[index],
        index,
        {name: column[index] for name, column in columns.items()},
    )
    found = objective.pool_weights(torch.ones(len(rows)), step)
    assert found is not None
    return found.tolist()


@pytest.mark.parametrize("teacher", [TEACHER, [0, 1, 0, 1]])
def test_rows_the_teacher_got_right_share_the_weight(teacher: Any) -> None:
    objective, context = us.oracle(truth=TRUTH), _context(teacher)
    assert objective.weight is not None
    columns = {"oracle.right": objective.weight.prepare(context)["right"]}
    assert columns["oracle.right"].tolist() == [1, 0, 1, 1]
    assert context.facts["oracle.share_right"] == 0.75
    assert _weights(objective, columns, [0, 1, 2, 3]) == pytest.approx([4 / 3, 0, 4 / 3, 4 / 3])
    assert _weights(objective, columns, [1, 3]) == [0, 2]
    assert _weights(objective, columns, [1]) == [0]


def test_training_is_training_on_the_right_rows_alone() -> None:
    g = torch.Generator().manual_seed(1)
    x, truth = torch.randn(20, 3, generator=g), torch.randint(2, (20,), generator=g)
    teacher = torch.randn(20, 2, generator=g).softmax(-1)
    right = teacher.argmax(1) == truth
    assert 0 < right.sum() < 20
    net = us.models.linear(3, 2)
    options = {"epochs": 3, "batch_size": 20, "optimizer": "sgd", "lr": 0.5, "progress": False}
    all_rows = us.train(net, None, us.Pool(x, teacher), us.oracle(truth), **options)
    some = us.train(net, None, us.Pool(x[right], teacher[right]), us.vanilla(), **options)
    for a, b in zip(all_rows.student.parameters(), some.student.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)


def test_the_truth_is_needed_and_checked() -> None:
    for truth, message in ((None, "truth="), ([0, 1], "2 rows"), ([0, 1, -1, 0], "row 2")):
        objective = us.oracle(truth)
        assert objective.weight is not None
        with pytest.raises(us.UnderstudyError, match=message):
            objective.weight.prepare(_context())
