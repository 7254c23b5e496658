"""``us.estimate``: numbers worked by hand, coverage of the pool's own shares, groups, weights, and what is refused."""

import numpy as np
import pytest
import torch

import understudy as us
from understudy.auditing.pool_estimates import Estimate, Measured, Question, as_records
from understudy.auditing.pool_strata import Proxy, measure_pool
from understudy.maths.proportions import wilson
from understudy.maths.random_order import draw_weights


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
    assert alone is not None and alone.estimate == pytest.approx(0.19)
    # The pool's own share is a draw of 10,000 rows: 1/100 + 1/10,000 = 1/99.01.
    wanted = wilson(19 / 1.01, 100 / 1.01)
    assert alone.high == pytest.approx(wanted.high, abs=1e-7)
    assert wanted.low - 0.01 < alone.low < wanted.low  # of few hits the lower end lies lower
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
        found = us.estimate(gold, pool, by=(side[:100], side[100:])) + us.estimate(gold, pool, what=["recall"])
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
    # All rows named 1 were drawn three times as often: within a stratum all weigh alike, so nothing changes but that
    # gold was taken out of what it was drawn from: 3,020 of 10,100 rows were named 1.
    odds = np.where(gold.teacher.top1().numpy() == 1, 0.3, 0.1)
    found = one(us.estimate(gold, pool, probability=odds), "share", 1).value
    assert found.estimate == pytest.approx(0.302 / 1.01 * 15 / 20 + 0.708 / 1.01 * 4 / 80)
    # Of the rows named 1, those that are 1 were drawn three times as often: 15 · 1 of 15 · 1 + 5 · 3.
    odds = np.where((gold.y.numpy() == 1) & (gold.teacher.top1().numpy() == 1), 0.3, 0.1)
    found = one(us.estimate(gold, pool, probability=odds), "share", 1).value
    assert found.estimate == pytest.approx(0.302 / 1.01 * 15 / 30 + 0.708 / 1.01 * 4 / 80)
    with pytest.raises(us.UnderstudyError, match="row 15 is 0; a probability is above 0 and at most 1"):
        us.estimate(gold, pool, probability=odds - 0.1)


def test_the_pools_probabilities_size_the_strata() -> None:
    """40 of 200 gold rows were drawn at 0.5, 160 at 0.1; of the former half are 1, of the latter a tenth."""
    odds = np.repeat([0.5, 0.1], [40, 160])
    truth = np.concatenate([np.repeat([1, 0], [20, 20]), np.repeat([1, 0], [16, 144])])
    gold, pool = sets(truth, np.zeros(200, int), np.zeros(9800, int))
    pool_odds = np.repeat([0.5, 0.1], [2960, 6840])
    both = one(us.estimate(gold, pool, probability=(odds, pool_odds)), "share", 1)
    assert both.value.estimate == pytest.approx(0.3 * 0.5 + 0.7 * 0.1)
    # Without them, by 1/probability: 80 and 1,600 rows. Strata of estimated size are less certain.
    alone = one(us.estimate(gold, pool, probability=odds), "share", 1)
    assert alone.value.estimate == pytest.approx((80 * 0.5 + 1600 * 0.1) / 1680)
    assert alone.gold_only is not None and alone.value.width == pytest.approx(alone.gold_only.width, rel=0.02)


def test_what_no_gold_row_tells_is_unknown() -> None:
    gold, pool = by_hand()
    groups = np.repeat(["a"], 100), np.repeat(["a", "b"], 5000)
    found = us.estimate(gold, pool, what=["share", "accuracy"], by=groups)
    values = [each for each in found if each.group == "b"]
    assert len(values) == 6 and not any(each.value.known or each.worth for each in values)
    assert all(record["value"]["estimate"] is None for record in as_records(values))
    assert {(each.difference, each.value.low, each.value.high) for each in values} == {(False, 0, 1), (True, -1, 1)}
    assert all(each.value.known for each in found if each.group is None)
    # No gold row is called 2: its precision and recall are unknown, its share is not.
    three = us.estimate(gold, pool, what=["share", "precision", "recall", "f1"], class_names="abc")
    assert [one(three, name, 2).value.known for name in ("share", "precision", "recall", "f1")] == [True, *[False] * 3]
    assert (one(three, "precision", 2).value.low, one(three, "precision", 2).value.high) == (0, 1)


def test_f1_and_confusions_of_gold_alone_by_hand() -> None:
    found = us.estimate(*by_hand(), what=["f1", "confusion", "precision"])
    # 15 rows have both truth and label 1, 24 have either: r = 15/24, F1 = 2r / (1 + r) = 30/39.
    alone, wanted = one(found, "f1", 1).gold_only, wilson(15 / 1.01, 24 / 1.01)
    ends = [2 * end / (1 + end) for end in (15 / 24, wanted.low, wanted.high)]
    assert alone is not None and alone.estimate == pytest.approx(ends[0])
    assert ends[1] - 0.01 < alone.low < ends[1] and ends[2] < alone.high < ends[2] + 0.01  # skewness adds a little
    pairs = {each.name: each for each in found if each.what == "confusion"}
    assert pairs.keys() == {"0→1", "1→0"} and pairs["0→1"].value.estimate == 0.25
    # In two classes it is what precision leaves, from end to end.
    precision = one(found, "precision", 1).value
    assert (pairs["0→1"].value.low, pairs["0→1"].value.high) == pytest.approx((1 - precision.high, 1 - precision.low))


def test_how_many_more_gold_rows_reach_a_width() -> None:
    found = one(us.estimate(*by_hand()), "share", 1)
    # Half the width takes four times the rows.
    assert found.more_gold_rows(found.value.width / 2) == pytest.approx(300, abs=1)
    assert found.more_gold_rows(1) == 0


def test_other_labels_are_measured_in_strata_of_the_teachers() -> None:
    """Labels that are always right: accuracy 1, while the teacher's is 0.89; rows without such a label do not count."""
    gold, pool = by_hand()
    own = gold.y.numpy().copy()
    own[:5] = -1
    found = us.estimate(gold, pool, what=["accuracy", "share"], labels=(own, np.repeat([0, 1], 5000)))
    accuracy = one(found, "accuracy", None).value
    assert accuracy.estimate == 1 and accuracy.rows == 95 and accuracy.low > 0.9
    # Shares go by the teacher, and need no other label.
    assert one(found, "share", 1).value.estimate == pytest.approx(0.26)
    with pytest.raises(us.UnderstudyError, match="labels holds a class above 1"):
        us.estimate(gold, pool, labels=(own + 1, np.repeat([0, 1], 5000)))


def test_classes_with_few_gold_rows_share_a_stratum() -> None:
    """77 classes, 300 gold rows, the teacher as good at each as chance has it: 120 draws of the accuracy."""
    rng, questions, truths = np.random.default_rng(0), [], []
    for _ in range(120):
        right, named = rng.beta(4, 1.3, 77), rng.integers(0, 77, 2300)
        hit = rng.random(2300) < right[named]
        labels = named[:300], named[300:]
        data = Measured(np.where(hit, named, 99)[:300], labels, (Proxy(labels[0]), Proxy(labels[1])), ["x"] * 77)
        questions.append(Question("accuracy", None, None, None, data).tally())
        truths.append(hit[300:].mean())
    assert min(int(each.rows[each.pool > 0].min()) for each in questions) >= 20
    held = sum(
        low <= truth <= high
        for (_, low, high), truth in zip(measure_pool("accuracy", questions, False), truths, strict=True)
    )
    assert held >= 106  # of 120 at 95%: fewer in 4 of 1,000


def test_chosen_rows_count_only_with_their_probability() -> None:
    named = np.repeat([1, 0], [20, 80])
    chosen = np.arange(100) % 2 == 0
    gold, pool = sets(named, named, np.repeat([1, 0], [30, 70]), chosen=chosen)
    assert one(us.estimate(gold, pool), "share", 1).value.rows == 50
    assert one(us.estimate(gold, pool, probability=np.full(100, 0.1)), "share", 1).value.rows == 100


def test_rows_without_a_label_are_a_stratum_of_their_own() -> None:
    """As by hand, and 20 gold rows without a label, of which 12 are 1; the pool has 15% of them."""
    gold, _ = by_hand()
    truth = np.concatenate([gold.y.numpy(), np.repeat([1, 0], [12, 8])])
    gold, pool = sets(truth, np.repeat([1, 0, -1], [20, 80, 20]), np.repeat([1, 0, -1], [1500, 7000, 1500]))
    found = us.estimate(gold, pool, what=["share", "accuracy", "recall"])
    share = one(found, "share", 1)
    assert share.value.estimate == pytest.approx(0.15 * 0.75 + 0.7 * 0.05 + 0.15 * 0.6)
    assert share.gold_only is not None and share.gold_only.estimate == pytest.approx(31 / 120)
    # What is about labels is about the rows that have one.
    assert one(found, "accuracy", None).value.estimate == pytest.approx((15 * 0.75 + 70 * 0.95) / 85)
    assert one(found, "recall", 1).value.estimate == pytest.approx(15 * 0.75 / (15 * 0.75 + 70 * 0.05))


def test_unlabelled_pool_rows_that_gold_has_none_of_may_be_anything() -> None:
    gold, _ = by_hand()
    _, pool = sets(gold.y.numpy(), gold.y.numpy(), np.repeat([1, 0, -1], [1500, 7000, 1500]))
    with pytest.warns(us.UnderstudyWarning, match="15.0% of the pool rows have no label, but 0.0% of the gold rows"):
        found = one(us.estimate(gold, pool), "share", 1).value
    _, labelled = sets(gold.y.numpy(), gold.y.numpy(), np.repeat([1, 0], [1500, 7000]))
    known = one(us.estimate(gold, labelled), "share", 1).value
    assert found.low == pytest.approx(0.85 * known.low, abs=0.005)
    assert found.high == pytest.approx(0.85 * known.high + 0.15, abs=0.005)
    assert found.low < found.estimate < found.high


def test_what_it_cannot_estimate_is_refused() -> None:
    gold, pool = by_hand()
    with pytest.raises(us.UnderstudyError, match=r"what='mean'\) is not known; choose from share, accuracy"):
        us.estimate(gold, pool, what=["mean"])
    with pytest.raises(us.UnderstudyError, match=r"what=''\) is not known"):
        us.estimate(gold, pool, what=[])
    with pytest.raises(us.UnderstudyError, match="by holds 3 values for 100 gold rows"):
        us.estimate(gold, pool, by=(["a", "b", "c"], ["a"] * 10_000))
    with pytest.raises(us.UnderstudyError, match="by holds 1 values for 100 gold rows"):
        us.estimate(gold, pool, by=(2024, 2025))
    with pytest.raises(us.UnderstudyError, match=r"by has no group that gold and pool share \(\['1'\], \['1.0'\]\)"):
        us.estimate(gold, pool, by=(np.ones(100, dtype=int), np.ones(10_000)))
    with pytest.raises(us.UnderstudyError, match="by makes more groups of the pool than there are gold rows"):
        us.estimate(gold, pool, by=(np.arange(100), np.arange(10_000) % 101))
    for labels, fault in ((-1, "holds only −1 for gold or"), (np.nan, "holds no whole numbers; pass class numbers")):
        for mine, theirs in ((labels, 0), (0, labels)):
            with pytest.raises(us.UnderstudyError, match=f"labels {fault}"):
                us.estimate(gold, pool, labels=(np.full(100, mine), np.full(10_000, theirs)))
    odds = np.full(100, 0.5)
    with pytest.raises(us.UnderstudyError, match="probability is a tuple of 3; pass gold's, or gold's"):
        us.estimate(gold, pool, probability=(odds, odds, odds))
    with pytest.raises(us.UnderstudyError, match="probability of the pool is not known"):
        us.estimate(gold, pool, probability=(odds, np.full(10_000, np.nan)))
    with pytest.raises(us.UnderstudyError, match="proxy was reconciled from other rows"):
        us.estimate(gold, pool, proxy=3)
    # A group of one row without a label: what is about labels is unknown there, and nothing breaks.
    lone = sets(np.array([0]), np.array([0]), np.array([0, -1]))
    found = us.estimate(*lone, what=["precision", "f1"], by=(["a"], ["a", "b"]), probability=[0.5])
    assert found and not any(each.value.known for each in found if each.group == "b")
    with pytest.raises(us.UnderstudyError, match="no gold row has a teacher label"):
        us.estimate(us.Gold(np.zeros((4, 1)), np.array([0, 1, 0, 1])), pool)


def test_gold_brings_its_probabilities() -> None:
    gold, pool = by_hand()
    odds = np.where((gold.y.numpy() == 1) & (gold.teacher.top1().numpy() == 1), 0.3, 0.1)
    given = one(us.estimate(gold, pool, probability=odds), "share", 1).value
    gold.mark_drawn(torch.from_numpy(odds))
    assert bool(gold.chosen.all()) and one(us.estimate(gold, pool), "share", 1).value == given


def test_a_random_sample_and_a_drawn_one_are_averaged_by_their_precision() -> None:
    # Kish's rows of 1/0.5 and 1/0.25, i.e. 2 and 4, are 36/20 = 1.8: weights 0.6 and 1.2, which sum to them; the 6 rows
    # they stand for are beside the other one, which therefore counts 1.8/6 more.
    assert draw_weights(np.array([0.5, np.nan, 0.25])).tolist() == pytest.approx([0.6, 1.3, 1.2])


def test_batches_of_any_size_add_up() -> None:
    # Two of 4 rows, then two of 8 others: each batch counts as 2 rows, and the second knows the first's labels.
    odds, batch = np.array([0.5, 0.5, 0.25, 0.25]), np.array([0, 0, 1, 1])
    assert draw_weights(odds, batch).tolist() == pytest.approx([1.25, 1.25, 1, 1])
    first, second = (us.Gold(np.zeros((2, 1)), [0, 1], probability=[each] * 2) for each in (0.5, 0.25))
    both = first + second
    assert both.batch.tolist() == batch.tolist() and both.take(torch.tensor([3, 0])).batch.tolist() == [1, 0]
    joined = both + us.Gold(np.zeros((1, 1)), [0])
    assert joined.batch.tolist() == [0, 0, 1, 1, 2] and joined.probability.isnan().tolist() == [False] * 4 + [True]


def test_two_batches_estimate_without_bias_where_they_are_a_good_part_of_the_rows() -> None:
    """40 rows, of which 10 are 1 and three times as likely to be drawn: 8 rows, then 12 of the others."""
    rng, y, found = np.random.default_rng(0), np.repeat([1.0, 0.0], [10, 30]), []
    for _ in range(2000):
        odds, left = np.where(y == 1, 3.0, 1.0), np.ones(40, dtype=bool)
        drawn, chance = np.full(40, np.nan), 8 / odds.sum()
        picks = rng.random(40) < odds * chance
        drawn[picks], left[picks] = (odds * chance)[picks], False
        again = left & (rng.random(40) < 0.4)
        drawn[again] = 0.4
        rows = np.flatnonzero(picks | again)
        weights = draw_weights(drawn[rows], again[rows].astype(int))
        found.append([(weights * y[rows]).sum(), weights.sum()])
    hits, total = np.mean(found, axis=0)
    assert hits / total == pytest.approx(0.25, abs=0.008)  # 0.21 where the rows drawn before are forgotten


def test_reconciled_labels_narrow_the_interval_and_hold() -> None:
    """A feature that tells the classes apart: reconciled labels know more than a teacher that is 75% right."""
    rng = np.random.default_rng(0)
    truth = (rng.random(900) < 0.3).astype(int)
    x = rng.normal(size=(900, 2)).astype(np.float32)
    x[:, 0] += 3 * truth
    named = np.where(rng.random(900) < 0.75, truth, 1 - truth)
    gold = us.Gold(x[:100], truth[:100], teacher=us.Hard(named[:100], classes=2))
    pool = us.Pool(x[100:], us.Hard(named[100:], classes=2))
    teacher, both = (us.estimate(gold, pool, what=["share", "accuracy"], proxy=p) for p in ("teacher", "reconciled"))
    for name, label, true in (("share", 1, truth[100:].mean()), ("accuracy", None, (truth == named)[100:].mean())):
        found = one(both, name, label).value
        assert found.low < true < found.high and found.width < 0.8 * one(teacher, name, label).value.width
    with pytest.raises(us.UnderstudyError, match="proxy='best' is not known"):
        us.estimate(gold, pool, proxy="best")
