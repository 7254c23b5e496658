"""``us.estimate``: numbers worked by hand, coverage of the pool's own shares, groups, weights, and what is refused."""

import numpy as np
import pytest
import torch

import understudy as us
from understudy.auditing.pool_estimates import Estimate, draw_weights
from understudy.maths.proportions import wilson


def sets(truth: np.ndarray, named: np.ndarray, on_pool: np.ndarray, **more: object) -> tuple[us.Gold, us.Pool]:
    gold = us.Gold(np.zeros((len(truth), 1)), truth, teacher=us.Hard(named, classes=2), **more)
    return gold, us.Pool(np.zeros((len(on_pool), 1)), us.Hard(on_pool, classes=2))


def by_hand() -> tuple[us.Gold, us.Pool]:
    """Of 20 gold rows named 1, 15 are; of 80 named 0, 4 are 1. The pool is named 1 on 30%."""
    named = np.repeat([1, 0], [20, 80])
    truth = np.concatenate([np.repeat([1, 0], [15, 5]), np.repeat([1, 0], [4, 76])])
    return sets(truth, named, np.repeat([1, 0], [3000, 7000]))


def one(found: list[Estimate], what: str, label: int | None) -> Estimate:
    return next(each for each in found if (each.what, each.label, each.group) == (what, label, None))


def test_values_by_hand() -> None:
    found = us.estimate(*by_hand(), what=["share", "accuracy", "precision", "recall", "f1"])
    # 0.3 · 15/20 + 0.7 · 4/80 = 0.26; of these 0.225 are named so.
    assert one(found, "share", 1).value.estimate == pytest.approx(0.26)
    assert one(found, "share", 0).value.estimate == pytest.approx(0.74)
    assert one(found, "accuracy", None).value.estimate == pytest.approx(0.225 + 0.665)
    assert one(found, "precision", 1).value.estimate == pytest.approx(0.75)
    assert one(found, "recall", 1).value.estimate == pytest.approx(0.225 / 0.26)
    assert one(found, "f1", 1).value.estimate == pytest.approx(2 * 0.225 / (0.3 + 0.26))
    for each in found:
        assert 0 <= each.value.low < each.value.estimate < each.value.high <= 1
    alone = one(found, "share", 1).gold_only
    assert alone == wilson(19, 100) and alone.estimate == 0.19
    worth = one(found, "share", 1).worth
    assert worth is not None and worth > 1.2


def test_shares_of_two_classes_mirror_each_other() -> None:
    yes, no = (one(us.estimate(*by_hand()), "share", label).value for label in (1, 0))
    assert (no.low, no.high) == pytest.approx((1 - yes.high, 1 - yes.low), abs=1e-6)


def test_a_teacher_that_knows_nothing_costs_nearly_nothing() -> None:
    rng = np.random.default_rng(0)
    truth, named = rng.integers(0, 2, 200), rng.integers(0, 2, 200)
    found = one(us.estimate(*sets(truth, named, rng.integers(0, 2, 5000))), "share", 1)
    assert found.worth is not None and found.worth > 0.93


def test_the_intervals_hold_the_pools_own_figures() -> None:
    rng, kept = np.random.default_rng(0), {"share": 0, "recall": 0, "difference": 0}
    for _ in range(30):
        truth = (rng.random(3100) < 0.1).astype(int)
        named = np.where(rng.random(3100) < 0.85, truth, 1 - truth)
        side = rng.integers(0, 2, 3100)
        gold, pool = sets(truth[:100], named[:100], named[100:])
        found = us.estimate(gold, pool, what=["share", "recall"], by=(side[:100], side[100:]))
        own, others = truth[100:], side[100:] == 1
        wanted = {
            "share": (one(found, "share", 1), own.mean()),
            "recall": (one(found, "recall", 1), named[100:][own == 1].mean()),
            "difference": (
                next(each for each in found if each.difference and each.label == 1 and each.group == "1"),
                own[others].mean() - own[~others].mean(),
            ),
        }
        for name, (each, true) in wanted.items():
            kept[name] += each.value.low <= true <= each.value.high
    assert min(kept.values()) >= 25  # of 30 at 95%: fewer in 3 of 1,000


def test_rows_drawn_with_known_probabilities_count_by_them() -> None:
    gold, pool = by_hand()
    # All rows named 1 were drawn three times as often: within a stratum all weigh alike, so nothing changes.
    odds = np.where(gold.teacher.top1().numpy() == 1, 0.3, 0.1)
    plain, weighted = (one(us.estimate(gold, pool, probability=p), "share", 1).value for p in (None, odds))
    assert (plain.low, plain.high) == pytest.approx((weighted.low, weighted.high))
    # Of the rows named 1, those that are 1 were drawn three times as often: 15 · 1 of 15 · 1 + 5 · 3.
    odds = np.where((gold.y.numpy() == 1) & (gold.teacher.top1().numpy() == 1), 0.3, 0.1)
    found = one(us.estimate(gold, pool, probability=odds), "share", 1).value
    assert found.estimate == pytest.approx(0.3 * 15 / 30 + 0.7 * 4 / 80)
    with pytest.raises(us.UnderstudyError, match="row 15 is 0; a probability is above 0 and at most 1"):
        us.estimate(gold, pool, probability=odds - 0.1)


def test_chosen_rows_count_only_with_their_probability() -> None:
    named = np.repeat([1, 0], [20, 80])
    chosen = np.arange(100) % 2 == 0
    gold, pool = sets(named, named, np.repeat([1, 0], [30, 70]), chosen=chosen)
    assert one(us.estimate(gold, pool), "share", 1).value.rows == 50
    assert one(us.estimate(gold, pool, probability=np.full(100, 0.1)), "share", 1).value.rows == 100


def test_what_it_cannot_estimate_is_refused() -> None:
    gold, pool = by_hand()
    with pytest.raises(us.UnderstudyError, match=r"what='mean'\) is not known; choose from share, accuracy"):
        us.estimate(gold, pool, what=["mean"])
    with pytest.raises(us.UnderstudyError, match="by holds 3 values for 100 gold rows"):
        us.estimate(gold, pool, by=(["a", "b", "c"], ["a"] * 10_000))
    with pytest.raises(us.UnderstudyError, match="no gold row has a teacher label"):
        us.estimate(us.Gold(np.zeros((4, 1)), np.array([0, 1, 0, 1])), pool)


def test_gold_brings_its_probabilities() -> None:
    gold, pool = by_hand()
    odds = np.where((gold.y.numpy() == 1) & (gold.teacher.top1().numpy() == 1), 0.3, 0.1)
    given = one(us.estimate(gold, pool, probability=odds), "share", 1).value
    gold.mark_drawn(torch.from_numpy(odds))
    assert bool(gold.chosen.all()) and one(us.estimate(gold, pool), "share", 1).value == given


def test_a_random_sample_and_a_drawn_one_are_averaged_by_their_precision() -> None:
    # Kish's rows of 1/0.5 and 1/0.25, i.e. 2 and 4, are 36/20 = 1.8: weights 0.6 and 1.2, which sum to them.
    assert draw_weights(np.array([0.5, np.nan, 0.25])).tolist() == pytest.approx([0.6, 1.0, 1.2])
