"""What a seed deals, and which methods are compared."""

import pytest
import torch

import understudy as us
from understudy.comparison.candidates import named_methods
from understudy.comparison.cells import FOLDS, split_for_seed


def gold_of(rows: int, *, chosen: bool | torch.Tensor = False) -> us.Gold:
    y = torch.arange(rows) % 3
    return us.Gold(torch.arange(rows).float().unsqueeze(1), y, teacher=torch.eye(3)[y], chosen=chosen)


def numbers(part: us.Gold | None) -> set[int]:
    return set() if part is None else {int(row) for row in part.rows.take(torch.arange(len(part))).squeeze(1)}


def test_folds_test_every_gold_row_once() -> None:
    gold = gold_of(60)
    tested: list[int] = []
    for seed in range(FOLDS):
        parts = split_for_seed(gold, test=None, select=0.25, seed=seed)
        train, select, test = numbers(parts.gold), numbers(parts.select), numbers(parts.test)
        assert not (train & select or train & test or select & test) and len(train | select | test) == 60
        assert (len(select), len(test)) == (12, 12) and set(parts.rows.tolist()) == test
        assert parts.gold.calibration_rows().tolist() == list(range(len(parts.gold)))
        tested += parts.rows.tolist()
    assert sorted(tested) == list(range(60))
    # The next round of seeds cuts anew; the same seed never does.
    assert numbers(split_for_seed(gold, test=None, select=0.0, seed=FOLDS).test) != numbers(
        split_for_seed(gold, test=None, select=0.0, seed=0).test
    )
    again = split_for_seed(gold, test=None, select=0.25, seed=2)
    assert numbers(again.gold) == numbers(split_for_seed(gold, test=None, select=0.25, seed=2).gold)


def test_chosen_rows_always_train() -> None:
    chosen = torch.arange(60) >= 40
    for seed in range(FOLDS):
        parts = split_for_seed(gold_of(60, chosen=chosen), test=None, select=0.2, seed=seed)
        assert set(range(40, 60)) <= numbers(parts.gold)
    with pytest.raises(us.UnderstudyError, match="8 gold rows are too few to be cut into 5 folds"):
        split_for_seed(gold_of(60, chosen=torch.arange(60) >= 8), test=None, select=0.0, seed=0)


def test_with_test_rows_all_of_gold_serves() -> None:
    gold, test = gold_of(30), gold_of(7)
    parts = split_for_seed(gold, test=test, select=0.0, seed=3)
    assert numbers(parts.gold) == set(range(30)) and parts.test is test and parts.select is None
    assert parts.rows.tolist() == list(range(7))
    picks = gold_of(5)
    assert split_for_seed(gold, test=test, select=picks, seed=3).select is picks
    with pytest.raises(us.UnderstudyError, match="leaves no row on one side"):
        split_for_seed(gold, test=test, select=0.001, seed=3)


def test_baselines_are_always_there() -> None:
    pool = us.Pool(torch.randn(4, 2), torch.tensor([[0.9, 0.1], [0.6, 0.4], [0.5, 0.5], [0.2, 0.8]]))
    found, notes = named_methods(["slam", "slam:lower_bound=0.6"], pool)
    assert list(found) == ["gold only", "vanilla", "confident", "slam", "slam:lower_bound=0.6"] and not notes
    mine = us.confident(0.25)
    found, _ = named_methods({"confident": mine, "late": lambda: us.weighted(refresh_every=5)}, pool)
    assert found["confident"] is mine and found["late"].refresh_every == 5
    # Bare hard labels all have the same confidence.
    found, notes = named_methods(["slam"], us.Pool(torch.randn(3, 2), torch.tensor([0, 1, 0])))
    assert "confident" not in found and "all labels have the same confidence" in notes[0]


@pytest.mark.parametrize(
    ("methods", "complaint"),
    [
        (["nonsense"], "no method 'nonsense'; use one of bootstrap"),
        (["slam", "slam"], "named twice"),
        (["slam:lower_bund=1"], "unknown option 'lower_bund' of slam; did you mean 'lower_bound'"),
        ("slam", "pass a list"),
        ({"teacher": us.slam()}, "always compared"),
        ({"mine": 3}, "is a int; pass what a method returns"),
    ],
)
def test_methods_that_cannot_be(methods: object, complaint: str) -> None:
    pool = us.Pool(torch.randn(2, 2), torch.tensor([[0.9, 0.1], [0.6, 0.4]]))
    with pytest.raises(us.UnderstudyError, match=complaint):
        named_methods(methods, pool)  # type: ignore[arg-type]
