"""Confident: exactly the surest share of the pool is kept, ties by row order."""

from typing import Any

import pytest
import torch
from torch import Tensor

import understudy as us
from understudy.objective import Context, Outputs, Step

CONTRACT = {"skip": {"hard_labels": "hard labels without a confidence cannot be ranked"}}
# Margins 0.8, 0.2, 0.5, 0.2.
TEACHER = torch.tensor([[0.9, 0.1], [0.6, 0.4], [0.25, 0.75], [0.4, 0.6]])


def _context(teacher: Any) -> Context:
    def unused(x: object) -> Tensor:
        raise AssertionError("confidence is the teacher's alone")

    pool = us.Pool(torch.zeros(len(teacher), 1), teacher)
    return Context(None, pool, classes=3, predict=unused, features=unused)


def _kept(teacher: Any, *args: Any, **options: Any) -> list[float]:
    return us.confident_weight(*args, **options).prepare(_context(teacher))["kept"].tolist()


@pytest.mark.parametrize("measure", ["margin", "entropy"])
def test_the_surest_rows_are_kept(measure: str) -> None:
    assert _kept(TEACHER, 0.5, measure) == [1, 0, 1, 0]
    # The two last are tied: the earlier row wins.
    assert _kept(TEACHER, 0.75, measure) == [1, 1, 1, 0]
    assert _kept(TEACHER, 1.0, measure) == [1, 1, 1, 1]
    assert _kept(TEACHER, 0.01, measure) == [1, 0, 0, 0]


def test_margin_and_entropy_may_disagree() -> None:
    # Margins 0.5 and 0.3; entropies 0.69 > 0.65: the second is surer only by entropy.
    teacher = [[0.7, 0.2, 0.1], [0.65, 0.35, 0.0]]
    assert _kept(teacher, 0.5, "margin") == [1, 0]
    assert _kept(teacher, 0.5, "entropy") == [0, 1]


def test_the_count_is_exact_among_ties() -> None:
    confidence = [0.9, 0.5, 0.9, 0.5, 0.5, 0.5, 0.9, 0.5, 0.5, 0.5]
    assert _kept(us.Hard([0] * 10, confidence), 0.5) == [1, 1, 1, 1, 0, 0, 1, 0, 0, 0]
    assert _kept(us.Hard([0] * 10, confidence), 0.5, "entropy") == [1, 1, 1, 1, 0, 0, 1, 0, 0, 0]


def test_kept_rows_share_the_batchs_weight() -> None:
    objective, context = us.confident(0.5), _context(TEACHER)
    assert objective.weight is not None
    columns = {"confident.kept": objective.weight.prepare(context)["kept"]}
    step = Step(Outputs(torch.zeros(4, 2)), TEACHER, torch.arange(4), columns)
    assert objective.pool_weights(torch.ones(4), step).tolist() == [2, 0, 2, 0]  # type: ignore[union-attr]
    assert context.facts["confident.kept_rows"] == 2


def test_training_is_training_on_the_kept_rows_alone() -> None:
    g = torch.Generator().manual_seed(1)
    x, teacher = torch.randn(20, 3, generator=g), torch.randn(20, 2, generator=g).softmax(-1)
    best = (teacher[:, 0] - teacher[:, 1]).abs().argsort(descending=True)[:6].sort().values
    net = us.models.linear(3, 2)
    options = {"epochs": 3, "batch_size": 20, "optimizer": "sgd", "lr": 0.5, "progress": False}
    all_rows = us.train(net, None, us.Pool(x, teacher), us.confident(0.3), **options)
    some = us.train(net, None, us.Pool(x[best], teacher[best]), us.vanilla(), **options)
    for a, b in zip(all_rows.student.parameters(), some.student.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    "teacher",
    [us.Hard([0, 1, 1]), torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]), us.Hard([0, 1, 1], [0.5, 0.5, 0.5])],
)
def test_labels_that_are_equally_sure_cannot_be_ranked(teacher: Any) -> None:
    with pytest.raises(us.UnderstudyError, match="equally sure"):
        _kept(teacher)


@pytest.mark.parametrize("options", [{"share": 0.0}, {"share": 1.2}, {"measure": "vibes"}])
def test_options_are_checked(options: dict[str, Any]) -> None:
    with pytest.raises(us.UnderstudyError, match=next(iter(options))):
        us.confident(**options)
