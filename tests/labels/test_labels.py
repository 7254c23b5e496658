"""The forms of a teacher's labels behave alike."""

import numpy as np
import pytest
import torch

from understudy.errors import UnderstudyError
from understudy.labels.forms import Hard, Soft, as_labels
from understudy.maths.confidence import entropy, margin

PROBS = torch.tensor([[0.2, 0.5, 0.3], [0.9, 0.05, 0.05]])


def test_soft() -> None:
    soft = as_labels(PROBS)
    assert isinstance(soft, Soft)
    assert (len(soft), soft.classes) == (2, 3)
    assert soft.top1().tolist() == [1, 0]
    assert soft.labelled().all()
    assert soft.dense(torch.tensor([1, 1, 0]), 3).equal(PROBS[[1, 1, 0]])
    assert soft.take(torch.tensor([1])).top1().tolist() == [0]
    assert soft.confidence("margin").equal(margin(PROBS))
    assert soft.confidence("entropy").equal(entropy(PROBS))
    assert Soft.concatenate([soft, soft.take(torch.tensor([1]))]).top1().tolist() == [1, 0, 0]
    assert soft.leading(1, 2, 2).probs[0].tolist() == pytest.approx([0.9, 0.05])
    assert soft.positions(torch.tensor([2, 1])).tolist() == [1, 1]


def test_soft_labels_are_stored_as_given() -> None:
    half = PROBS.half()
    assert Soft(half).probs.data_ptr() == half.data_ptr()
    assert Soft(half).dense(torch.tensor([0]), 3).dtype == torch.float32


def test_hard() -> None:
    hard = as_labels([2, -1, 0])
    assert isinstance(hard, Hard)
    assert hard.classes is None
    assert hard.labelled().tolist() == [True, False, True]
    assert hard.dense(torch.tensor([0, 2]), 4).tolist() == [[0, 0, 1, 0], [1, 0, 0, 0]]
    assert hard.confidence("margin").tolist() == [1, 1, 1]
    assert hard.confidence("entropy").tolist() == [0, 0, 0]
    both = Hard.concatenate([hard, Hard([1], classes=5)])
    assert both.labels.tolist() == [2, -1, 0, 1]
    assert both.classes == 5


def test_confidence_travels_with_its_rows() -> None:
    hard = Hard(np.array([1, 0, 1]), [0.1, 0.2, 0.3])
    assert hard.take(torch.tensor([2, 0])).given.tolist() == pytest.approx([0.3, 0.1])  # type: ignore[union-attr]
    with pytest.raises(UnderstudyError, match="to all or to none"):
        Hard.concatenate([hard, Hard([1])])


def test_one_hot_rows_are_hard_labels() -> None:
    plain = Soft(torch.eye(3)).simplest()
    assert isinstance(plain, Hard)
    assert plain.classes == 3
    assert plain.labels.tolist() == [0, 1, 2]
    assert isinstance(Soft(PROBS).simplest(), Soft)
    assert isinstance(Soft(torch.cat([torch.eye(3), PROBS])).simplest(), Soft)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Hard([0, 3], classes=3), r"row 1 is 3, but there are 3 classes"),
        (lambda: Hard([0, -2]), "row 1 is -2"),
        (lambda: Hard([0, 1], [0.5]), "confidence has 1 rows"),
        (lambda: Hard([0, 1], [0.5, float("nan")]), "confidence row 1 is NaN"),
        (lambda: as_labels([[0.5, 0.6]], "pool.teacher"), r"pool\.teacher row 0 sums to 1\.1"),
        (lambda: as_labels(torch.ones(2, 2, 2)), "shape"),
        (lambda: as_labels(["cat", "dog"], "pool.teacher"), r"pool\.teacher is not a numeric"),
        (lambda: Soft.concatenate([Soft(PROBS), Soft(torch.tensor([[0.5, 0.5]]))]), "classes"),
    ],
)
def test_labels_that_cannot_be_meant_are_errors(make: object, message: str) -> None:
    with pytest.raises(UnderstudyError, match=message):
        make()  # type: ignore[operator]


def test_no_confidence_is_needed_where_there_is_no_label() -> None:
    assert len(Hard([0, -1], [0.5, float("nan")])) == 2
