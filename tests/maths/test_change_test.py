"""Exact tests of a change by hand, against SciPy's and by brute force; intervals that hold at all looks."""

from itertools import permutations

import numpy as np
import pytest
from scipy.stats import binom, fisher_exact

from understudy.maths.change_test import ChangeTest, compare_counts, confidence_sequence


def change_test(stratum: np.ndarray, after: np.ndarray, hit: np.ndarray) -> ChangeTest:
    size = int(stratum.max(initial=-1)) + 1
    parts = (slice(None), after, hit, after & hit)
    rows, late, hits, seen = (np.bincount(stratum[part], minlength=size) for part in parts)
    (found,) = compare_counts(rows, late, hits[:, None], seen[:, None])
    return found


def test_pairs_are_mcnemar() -> None:
    # 20 anchors asked twice: 9 right then wrong, 1 wrong then right, 10 right twice. P(at most 1 of 10 heads).
    anchor, after, right = np.repeat(np.arange(20), 2), np.tile([False, True], 20), np.ones(40, dtype=bool)
    right[1:18:2] = False
    right[18] = False
    found = change_test(anchor, after, right)
    assert found.fell == pytest.approx(11 / 1024) == pytest.approx(float(binom.cdf(1, 10, 0.5)))
    assert found.rose == pytest.approx(1 - 1 / 1024)
    assert (found.seen, found.expected, found.rows) == (11, 15.0, 20) and found.difference == pytest.approx(-0.4)


def test_one_stratum_is_fishers_test() -> None:
    rng = np.random.default_rng(0)
    hit, after = rng.random(300) < 0.6, rng.random(300) < 0.3
    table = [[(after & hit).sum(), (after & ~hit).sum()], [(~after & hit).sum(), (~after & ~hit).sum()]]
    found = change_test(np.zeros(300, dtype=np.int64), after, hit)
    assert found.fell == pytest.approx(fisher_exact(table, "less")[1])
    assert found.rose == pytest.approx(fisher_exact(table, "greater")[1])
    assert found.difference == pytest.approx(hit[after].mean() - hit[~after].mean())


def test_strata_by_all_orders_of_their_answers() -> None:
    answers = [[1, 1, 0], [1, 0, 0, 1], [1, 0], [0, 0], [1]]
    late = [[0, 1, 1], [0, 0, 0, 1], [0, 1], [0, 1], [1]]
    sums: dict[int, float] = {0: 1.0}
    for hits, after in zip(answers, late, strict=True):
        orders = list(permutations(hits))
        new: dict[int, float] = {}
        for order in orders:
            here = sum(h for h, a in zip(order, after, strict=True) if a) if 0 < sum(after) < len(after) else 0
            for total, chance in sums.items():
                new[total + here] = new.get(total + here, 0) + chance / len(orders)
        sums = new
    stratum = np.repeat(np.arange(5), [len(each) for each in answers])
    found = change_test(stratum, np.concatenate(late).astype(bool), np.concatenate(answers).astype(bool))
    assert found.seen == 1 + 1 + 0 + 0, "the last anchor has nothing to be compared with"
    assert found.fell == pytest.approx(sum(chance for total, chance in sums.items() if total <= 2))
    assert found.rose == pytest.approx(sum(chance for total, chance in sums.items() if total >= 2))


def test_nothing_to_compare_is_no_evidence() -> None:
    empty = np.empty(0, dtype=np.int64)
    all_late = np.zeros(5, dtype=np.int64)
    for found in (change_test(empty, empty > 0, empty > 0), change_test(all_late, all_late == 0, np.arange(5) < 2)):
        assert (found.fell, found.rose, found.difference, found.rows) == (1.0, 1.0, 0.0, 0)
    rows, late, hits, seen = np.array([100]), np.array([50]), np.array([[50, 20]]), np.array([[27, 2]])
    near, far = compare_counts(rows, late, hits, seen, beyond=2)
    exact, same = compare_counts(rows, late, hits, seen)
    assert near.fell == near.rose == 1 and exact.rose < 1 and near.difference == exact.difference and far == same


def test_the_interval_is_where_the_mixture_is_not_ahead() -> None:
    # ∫ q^9 (1−q) dq = 1/110; at the ends p^9 (1−p) is a twentieth of that.
    found = confidence_sequence(9, 10)
    for end in (found.low, found.high):
        assert end**9 * (1 - end) == pytest.approx(0.05 / 110)
    assert (
        confidence_sequence(10, 10).low == pytest.approx((0.05 / 11) ** 0.1) and confidence_sequence(10, 10).high == 1
    )
    assert confidence_sequence(0, 10).low == 0 and not confidence_sequence(0, 0).known
    assert confidence_sequence(450, 500).low < 0.9 < confidence_sequence(450, 500).high


def test_intervals_hold_at_all_looks_together() -> None:
    rng, lost = np.random.default_rng(0), 0
    for _ in range(40):
        hits = (rng.random((20, 25)) < 0.9).sum(1).cumsum()
        ends = (confidence_sequence(int(hit), 25 * (look + 1)) for look, hit in enumerate(hits))
        lost += any(not one.low <= 0.9 <= one.high for one in ends)
    assert lost <= 6  # of 40 at 5%: more in 3 of 1,000
