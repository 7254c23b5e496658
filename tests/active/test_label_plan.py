"""Who should label what: plans of a few rows by hand, and the edges."""

from typing import Any

import pytest
import torch
from torch import Tensor

import understudy as us
from understudy.active.label_plan import LabelPlan, measure_source

CLASSES = 3


def said(y: Tensor, right: float, seed: int) -> Tensor:
    """Right on exactly so many of the rows, spread over the classes."""
    wrong = torch.zeros(len(y), dtype=torch.bool)
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(seed))
    wrong[order[round(right * len(y)) :]] = True
    return torch.where(wrong, (y + 1 + torch.arange(len(y)) % (CLASSES - 1)) % CLASSES, y)


def plan(budget: float, *, rows: int = 60, gold: int = 90, **changes: Any) -> LabelPlan:
    """A small source (60% right, 1 an answer), a big one (90%, 5) and a human (40), on rows that nobody knows."""
    y = torch.arange(gold) % CLASSES
    given: dict[str, Any] = {
        "prices": {"small": 1.0, "big": 5.0, "human": 40.0}, "classes": CLASSES, "trusted": "human",
        "answers": torch.full((rows, 3), -1), "gold_answers": torch.stack([said(y, 0.6, 0), said(y, 0.9, 1), y], 1),
        "gold_y": y,
    }  # fmt: skip
    given |= changes
    return us.plan_labels(given.pop("prices"), budget, **given)


def paid(made: LabelPlan) -> float:
    asks = [*made.asks.items(), *made.gold_asks.items(), *made.trials.items()]
    price = {one.name: one.cost for one in made.sources}
    return sum(price[name] * len(rows) for name, rows in asks) + price.get("human", 0.0) * len(made.gold)


def test_small_budgets_buy_what_is_cheap_for_what_it_says() -> None:
    made = plan(20)
    # Worth (1 − 0.4·3/2)² = 0.16 for 1, and (1 − 0.1·3/2)² = 0.72 for 5: nearly the same; 1 for 40 is far off.
    assert len(made.asks["human"]) == len(made.gold) == 0
    assert made.cost == paid(made) <= 20
    assert made.clean[1] > made.clean[0] and made.errors[1] < made.errors[0]


def test_with_money_to_spare_everything_becomes_known() -> None:
    made = plan(60 * 46)
    assert len({*made.asks["human"].tolist(), *made.gold.tolist()}) == 60
    assert made.errors[1] == pytest.approx(0) and made.clean[1] == pytest.approx(60)
    assert made.cost == pytest.approx(paid(made)) and made.cost <= 60 * 46


@pytest.mark.parametrize("budget", [3.0, 41.0, 200.0, 777.0])
def test_the_budget_is_never_exceeded_and_no_label_planned_twice(budget: float) -> None:
    answers = torch.full((60, 3), -1)
    answers[:30, 0] = 1
    answers[:10, 2] = 2
    made = plan(budget, answers=answers)
    assert made.cost == pytest.approx(paid(made)) and made.cost <= budget + 1e-9
    for at, name in enumerate(("small", "big", "human")):
        rows = torch.cat([made.asks[name], made.gold_asks.get(name, made.gold[:0])])
        rows = torch.cat([rows, made.gold]) if name == "human" else rows
        assert len(rows) == len(set(rows.tolist()))
        assert bool((answers[rows, at] < 0).all())


def test_doubtful_rows_come_first() -> None:
    known = torch.full((50, CLASSES), 0.005)
    known[:, 0] = 0.99
    known[40:] = torch.tensor([0.4, 0.4, 0.2])
    made = plan(50, rows=50, answers=None, known=known)
    assert {row for rows in made.asks.values() for row in rows.tolist()} <= set(range(40, 50))
    assert made.gain[40:].min() > made.gain[:40].max() == 0


def test_contradicted_rows_are_worth_more_than_confirmed_ones() -> None:
    answers = torch.full((20, 3), -1)
    answers[:, 0] = 0
    answers[:10, 1], answers[10:, 1] = 0, 1  # both say 0; or they differ
    made = plan(120, rows=20, answers=answers)
    asked = {*made.asks["human"].tolist(), *made.gold.tolist()}
    assert len(asked) == 3 and asked <= set(range(10, 20))


def test_more_gold_pays_where_little_is_known_of_the_sources() -> None:
    prices = {"small": 1.0, "human": 8.0}
    few, many = (
        plan(1800, rows=2000, gold=gold, prices=prices, answers=torch.full((2000, 2), -1), gold_answers=torch.stack(
            [said(torch.arange(gold) % CLASSES, 0.7, 0), torch.arange(gold) % CLASSES], 1))
        for gold in (12, 3000)
    )  # fmt: skip

    def saved(made: LabelPlan) -> float:
        return max(value for _, value in made.splits) - made.splits[0][1]

    assert saved(few) > saved(many) >= 0


def test_new_gold_is_drawn_from_rows_that_seem_certain_too() -> None:
    """A sample of the doubtful ones alone would say that the teacher is worse than it is."""
    known = torch.full((2000, CLASSES), 1 / CLASSES)
    known[::4] = torch.tensor([1.0, 0.0, 0.0])
    y = torch.arange(12) % CLASSES
    drawn = [
        plan(
            1800, prices={"small": 1.0, "human": 20.0}, answers=None, known=known, gold=12, seed=seed,
            gold_answers=torch.stack([said(y, 0.7, 0), y], 1),
        ).gold
        for seed in range(5)
    ]  # fmt: skip
    assert len(torch.cat(drawn)) >= 10 and bool((torch.cat(drawn) % 4 == 0).any())


def test_the_price_of_new_gold_has_the_other_sources_answers_in_it() -> None:
    """All of 90 on gold: 40 for the human and 6 for the others make one row."""
    made = plan(90)
    assert max(count for count, _ in made.splits) == 1


def test_one_source_alone_labels_the_most_uncertain_rows() -> None:
    known = torch.tensor([[0.9, 0.05, 0.05], [0.34, 0.33, 0.33], [0.6, 0.2, 0.2]])
    y = torch.arange(30) % CLASSES
    made = us.plan_labels(
        {"big": 2}, 4.0, classes=CLASSES, known=known, gold_answers=said(y, 0.9, 0).unsqueeze(1), gold_y=y
    )
    assert made.asks["big"].tolist() == [1, 2] and made.cost == 4
    assert "none of the budget goes to new gold" in made.sentences[-1]


def test_free_labels_are_planned_for_all_rows() -> None:
    made = plan(1.0, prices={"small": 0.0, "big": 5.0, "human": 40.0})
    assert len(made.asks["small"]) == 60 and made.cost == 0


def test_a_source_worse_than_chance_is_left_out_and_swapped_classes_are_named() -> None:
    y = torch.arange(40) % 2
    answers = torch.full((9, 2), -1)
    made = us.plan_labels(
        {"odd": 1, "human": 5}, 20.0, classes=2, answers=answers, gold_answers=torch.stack([1 - y, y], 1), gold_y=y,
        trusted="human",
    )  # fmt: skip
    assert not len(made.asks["odd"]) and made.cost == 20
    assert any("odd" in line and "by chance" in line and "swapped?" in line for line in made.sentences)


def test_a_source_without_gold_gets_a_trial() -> None:
    y = torch.arange(90) % CLASSES
    unknown = torch.stack([said(y, 0.6, 0), torch.full_like(y, -1), y], 1)
    made = plan(500, gold_answers=unknown)
    assert len(made.trials["big"]) == 20  # 20% of the budget, at 5 each
    assert not len(made.asks["big"]) and made.cost <= 500
    assert any("big" in line and "first 20 gold rows" in line for line in made.sentences)
    assert not plan(30, gold_answers=unknown).trials  # ten rows would take more than its share


def test_without_any_gold_only_a_trusted_source_can_label() -> None:
    made = plan(80, gold_answers=None, gold_y=None)
    assert len(made.asks["human"]) + len(made.gold) == 2
    with pytest.raises(us.UnderstudyError, match=r"no source can label \(small: labelled 0 gold rows"):
        plan(80, gold_answers=None, gold_y=None, trusted=None)


def test_a_source_without_a_price_still_counts() -> None:
    answers = torch.full((60, 3), -1)
    answers[:30, 0] = 1
    made = plan(100, prices={"small": None, "big": 5.0, "human": 40.0}, answers=answers)
    assert "small" not in made.asks and made.known[:30, 1].min() > made.known[30:, 1].max()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"budget": 0.5}, "is too small for one label: the cheapest source, small, takes 1; raise"),
        ({"prices": {}}, "names no source that can label"),
        ({"prices": {"small": -1.0, "big": 1.0, "human": 1.0}}, "price of small is -1.0"),
        ({"trusted": "nobody"}, "trusted='nobody' has no price; use one of small, big, human"),
        ({"answers": None}, "the number of rows is unknown"),
        ({"answers": torch.full((4, 2), -1)}, "answers has 2 columns, prices= names 3 sources"),
        ({"gold_y": None}, "gold_answers= and gold_y= belong together"),
        ({"gold_y": torch.zeros(3, dtype=torch.long)}, "gold_y has 3 rows, gold_answers 90"),
        ({"known": torch.ones(60, 3)}, "known row 0 sums to 3, not 1"),
        ({"known": torch.ones(60, 2) / 2}, r"known has shape \(60, 2\)"),
        ({"budget": float("nan")}, "budget=nan must be a number"),
    ],
)
def test_impossible_plans_name_the_mistake(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(us.UnderstudyError, match=message):
        plan(changes.pop("budget", 50.0), **changes)


def test_the_same_seed_the_same_plan() -> None:
    one, two = plan(500, seed=3), plan(500, seed=3)
    assert one.sentences == two.sentences and one.gold.equal(two.gold)


def test_confusions_are_those_of_the_gold_rows_it_labelled() -> None:
    y = torch.arange(90) % CLASSES
    half = torch.where(torch.arange(90) < 45, said(y, 0.8, 0), -1)
    one = measure_source("half", 1.0, half, y, CLASSES)
    other = measure_source("half", 1.0, half[:45], y[:45], CLASSES)
    assert one.accuracy == other.accuracy and one.accuracy.rows == 45
    torch.testing.assert_close(one.confusion, other.confusion)
    torch.testing.assert_close(one.confusion.sum(1), torch.ones(CLASSES).double())
