"""Gold and Pool keep rows, labels, ids and the teacher labels together."""

import numpy as np
import pytest
import torch

import understudy as us
from understudy.store.fingerprints import fingerprint

X = torch.arange(10.0).reshape(5, 2)
Y = torch.tensor([0, 1, 2, 1, 0])
PROBS = torch.tensor([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8], [0.4, 0.3, 0.3], [0.2, 0.2, 0.6]])


def test_gold_keeps_what_it_was_given() -> None:
    gold = us.Gold(X, Y.tolist(), PROBS, ids=list("abcde"))
    assert len(gold) == 5
    assert gold.x.equal(X)
    assert gold.y.equal(Y)
    assert gold.calibration_rows().tolist() == [0, 1, 2, 3, 4]
    assert us.Gold(X, Y).calibration_rows().tolist() == []
    assert "5 rows" in repr(gold)
    assert "5 rows" in repr(us.Pool(X, PROBS))


def test_rows_without_the_teachers_word_do_not_estimate() -> None:
    gold = us.Gold(X, Y, [0, -1, 2, -1, 2])
    rows, labels = gold.calibration()
    assert rows.tolist() == [0, 2, 4]
    assert labels is not None
    assert labels.top1().tolist() == [0, 2, 2]


def test_chosen_rows_never_estimate() -> None:
    assert us.Gold(X, Y, PROBS, chosen=True).calibration()[0].tolist() == []
    gold = us.Gold(X[:3], Y[:3], PROBS[:3]) + us.Gold(X[3:], Y[3:], PROBS[3:], chosen=True)
    rows, labels = gold.calibration()
    assert rows.tolist() == [0, 1, 2]
    assert labels is not None
    assert len(labels) == 3


def test_take_keeps_everything_aligned() -> None:
    gold = us.Gold(X, Y, [0, -1, 2, 1, 2], ids=[10, 11, 12, 13, 14], chosen=torch.tensor([0, 0, 0, 1, 0]).bool())
    part = gold.take(torch.tensor([4, 1, 3]))
    assert part.rows.take(torch.arange(3)).equal(X[[4, 1, 3]])
    assert part.y.tolist() == [0, 1, 1]
    assert part.ids is not None
    assert part.ids.tolist() == [14, 11, 13]
    assert part.teacher_rows.tolist() == [0, 2]
    assert part.teacher is not None
    assert part.teacher.top1().tolist() == [2, 1]
    rows, labels = part.calibration()
    assert rows.tolist() == [0]
    assert labels is not None
    assert labels.top1().tolist() == [2]


def test_concatenation_keeps_everything_aligned() -> None:
    silent, spoken = us.Gold(X[:2], Y[:2]), us.Gold(X[2:], Y[2:], PROBS[2:])
    both = silent + spoken
    assert both.x.equal(X)
    assert both.y.equal(Y)
    assert both.teacher_rows.tolist() == [2, 3, 4]
    rows, labels = both.calibration()
    assert rows.tolist() == [2, 3, 4]
    assert labels is not None
    assert labels.dense(torch.arange(3), 3).equal(PROBS[2:])
    named = us.Gold(X[:2], Y[:2], ids=["a", "b"]) + us.Gold(X[2:3], Y[2:3], ids=["c"])
    assert named.ids is not None
    assert named.ids.tolist() == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (us.Gold(X, Y, ids=range(5)), "ids"),
        (us.Gold(X, Y, teacher=Y), "form"),
        (us.Gold(X, Y, teacher=torch.full((5, 4), 0.25)), "classes"),
    ],
)
def test_sets_that_do_not_fit_together(other: us.Gold, message: str) -> None:
    with pytest.raises(us.UnderstudyError, match=message):
        us.Gold(X, Y, PROBS) + other


def test_the_same_row_twice_is_refused() -> None:
    with pytest.raises(us.UnderstudyError, match="more than once"):
        us.Gold(X, Y, ids=range(5)) + us.Gold(X[:1], Y[:1], ids=[3])


def test_pool() -> None:
    pool = us.Pool(X.numpy(), PROBS.numpy().astype(np.float16), ids=np.arange(5) * 2)
    part = pool.take(torch.tensor([3, 0]))
    assert part.rows.take(torch.tensor([0])).equal(X[[3]])
    assert part.teacher is not None
    assert part.teacher.top1().tolist() == [0, 0]
    assert part.ids is not None
    assert part.ids.tolist() == [6, 0]
    assert us.Pool(X).teacher is None


def test_the_teacher_must_know_every_gold_class() -> None:
    with pytest.raises(us.UnderstudyError, match=r"gold\.y row 2 is class 2, but the teacher knows 2 classes"):
        us.Gold(X, Y, teacher=torch.full((5, 2), 0.5))


def test_digits() -> None:
    x, y = us.digits()
    assert x.shape == (1797, 64)
    assert x.dtype == torch.float32
    assert (x.min(), x.max()) == (0, 1)
    assert y.unique().tolist() == list(range(10))


def test_rows_that_estimate_only() -> None:
    marked = torch.tensor([1, 0, 0, 1, 0]).bool()
    gold = us.Gold(X, Y, PROBS, None, torch.tensor([0, 1, 0, 0, 0]).bool(), estimate_only=marked)
    assert gold.calibration_rows().tolist() == [0, 2, 3, 4] and gold.training_rows().tolist() == [1, 2, 4]
    assert gold.training() is not None and gold.training().y.tolist() == [1, 2, 0]  # type: ignore[union-attr]
    assert gold.take(torch.tensor([4, 3])).estimate_only.tolist() == [False, True]
    both = us.Gold(X, Y, PROBS) + gold
    assert both.estimate_only.tolist() == [False] * 5 + marked.tolist()
    assert us.Gold(X, Y, PROBS, estimate_only=True).training() is None
    assert "2 of these never train" in repr(gold)
    plain = us.Gold(X, Y, PROBS)
    assert plain.training() is plain and plain.estimate_only.tolist() == [False] * 5


def test_the_mark_is_refused_where_it_cannot_hold() -> None:
    with pytest.raises(us.UnderstudyError, match=r"gold\.estimate_only row 2 is also chosen"):
        us.Gold(X, Y, PROBS, chosen=torch.arange(5) > 1, estimate_only=torch.arange(5) < 3)
    with pytest.raises(us.UnderstudyError, match="none of them"):
        us.Gold(X, Y, estimate_only=True)
    with pytest.raises(us.UnderstudyError, match=r"gold\.estimate_only"):
        us.Gold(X, Y, PROBS, estimate_only=[True, False])


def test_the_mark_changes_the_fingerprint() -> None:
    assert fingerprint(us.Gold(X, Y, PROBS, estimate_only=True)) != fingerprint(us.Gold(X, Y, PROBS))


def test_unequal_probabilities_stay_with_their_rows() -> None:
    nan = float("nan")
    one = us.Gold(torch.zeros(3, 1), [0, 1, 0], ids=["a", "b", "c"], probability=[0.5, nan, 0.25])
    assert one.chosen.tolist() == [True, False, True], "no random sample"
    both = one + us.Gold(torch.zeros(1, 1), [1], ids=["d"])
    taken = both.take(torch.tensor([3, 2, 0])).probability
    assert taken is not None and bool(taken[0].isnan()) and taken[1:].tolist() == [0.25, 0.5]
    equal = us.Gold(torch.zeros(2, 1), [0, 1], probability=[0.1, 0.1])
    assert not bool(equal.chosen.any())
    for bad, why in (([0.5, 0.0], "row 1 is 0"), ([0.5, 1.5], "row 1 is 1.5"), ([0.5], "1"), ([[0.5], [0.5]], "shape")):
        with pytest.raises(us.UnderstudyError, match=why):
            us.Gold(torch.zeros(2, 1), [0, 1], probability=bad)


def test_no_rows_join_like_others() -> None:
    gold = us.Gold(X, Y, PROBS)
    none = gold.take(torch.empty(0, dtype=torch.long))
    for both in (none + gold, gold + none):
        assert both.y.equal(Y) and both.teacher_rows.equal(gold.teacher_rows)
    assert (gold + gold).batch.tolist() == [0] * 5 + [1] * 5
