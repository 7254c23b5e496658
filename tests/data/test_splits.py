"""Gold cut by purpose: disjoint, seeded, with the classes' shares kept."""

import numpy as np
import pytest
import torch

import understudy as us
from understudy.data.splits import fold_rows


def _gold(rows: int = 100, classes: int = 4) -> us.Gold:
    y = torch.arange(rows) % classes
    return us.Gold(torch.arange(float(rows))[:, None], y, torch.eye(classes)[y], ids=range(rows))


def _ids(part: us.Gold | None) -> list[int]:
    return [] if part is None or part.ids is None else part.ids.tolist()


def test_parts_are_disjoint_and_whole() -> None:
    parts = us.split(_gold(), estimate=30, select=0.2, test=10)
    assert [len(_ids(part)) for part in (parts.estimate, parts.select, parts.test, parts.train)] == [30, 20, 10, 40]
    assert sorted(i for part in parts for i in _ids(part)) == list(range(100))
    assert parts.estimate is not None
    # Rows travel with their label and the teacher's label.
    assert parts.estimate.y.tolist() == [i % 4 for i in _ids(parts.estimate)]
    assert parts.estimate.teacher is not None
    assert parts.estimate.teacher.top1().equal(parts.estimate.y)


def test_the_same_seed_gives_the_same_parts() -> None:
    first, again, other = (us.split(_gold(), test=30, seed=seed) for seed in (1, 1, 2))
    assert _ids(first.test) == _ids(again.test)
    assert _ids(first.test) != _ids(other.test)


def test_every_part_has_the_classes_shares() -> None:
    y = torch.tensor([0] * 80 + [1] * 16 + [2] * 4)
    gold = us.Gold(torch.zeros(100, 1), y, ids=range(100))
    for seed in range(5):
        parts = us.split(gold, estimate=25, test=25, seed=seed)
        for part in (parts.estimate, parts.test):
            assert part is not None
            counts = torch.bincount(part.y, minlength=3)
            assert ((counts - torch.tensor([20, 4, 1])).abs() <= 1).all()


def test_parts_of_size_zero_are_none() -> None:
    parts = us.split(_gold(), estimate=1.0)
    assert (parts.train, parts.select, parts.test) == (None, None, None)


def test_halves_of_an_odd_number_fit() -> None:
    parts = us.split(_gold(3), estimate=0.5, select=0.5)
    assert len(_ids(parts.estimate)) + len(_ids(parts.select)) == 3


@pytest.mark.parametrize("sizes", [{"test": 101}, {"test": 60, "select": 50}, {"select": 1.5}, {"test": -1}])
def test_impossible_sizes(sizes: dict[str, float]) -> None:
    with pytest.raises(us.UnderstudyError):
        us.split(_gold(), **sizes)


def _majority_accuracy(seed: int, *, stratify: bool) -> float:
    """Of always predicting the majority of the other folds, where the classes are coins."""
    y = torch.randint(2, (50,), generator=torch.Generator().manual_seed(seed))
    found = fold_rows(y, 4, seed, stratify=stratify)
    return sum(float((y[mine] == (y[rest].float().mean() > 0.5)).sum()) for rest, mine in found) / 50


def test_folds_that_evaluate_are_unbiased() -> None:
    """Half of 400 coins fall on either side; stratified folds would promise gold's majority share."""
    found = {each: np.mean([_majority_accuracy(seed, stratify=each) for seed in range(400)]) for each in (True, False)}
    assert found[True] > 0.54 and abs(found[False] - 0.5) < 0.015


def test_no_fold_has_all_rows_of_a_rare_class() -> None:
    y = torch.tensor([0] * 40 + [1] * 7 + [2] * 2 + [3])
    for seed in range(50):
        found = fold_rows(y, 4, seed, stratify=False)
        assert {len(mine) for _, mine in found} == {12, 13}
        for rest, _ in found:
            assert {0, 1, 2} <= set(y[rest].tolist())
        assert torch.cat([mine for _, mine in found]).sort().values.equal(torch.arange(50))
