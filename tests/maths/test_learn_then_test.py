"""``maths/learn_then_test.py``: exact tails, the order of tests, and a band that holds everywhere at once."""

import numpy as np
import pytest
from scipy.stats import binom

from understudy.maths.learn_then_test import fallback, simultaneous_band, tail


def test_tail_by_hand_and_beside_scipy() -> None:
    # All of 29 rows right, at 0.9: 0.9^29 = 0.0471, the first below 0.05; one of two right at 0.5: 3/4.
    assert tail([28, 29, 1, 0], [28, 29, 2, 5], 0.9)[:2] == pytest.approx([0.9**28, 0.9**29])
    assert float(tail(1, 2, 0.5)) == 0.75 and float(tail(0, 0, 0.5)) == 1
    hits = np.arange(0, 201)
    assert tail(hits, 200, 0.87) == pytest.approx(binom.sf(hits - 1, 200, 0.87), rel=1e-9, abs=1e-300)


def test_fixed_sequence_and_fallback_by_hand() -> None:
    p = [0.01, 0.03, 0.2, 0.001]
    assert fallback(p, [0.05, 0, 0, 0]).tolist() == [True, True, False, False]
    # Half at the first and half at the last: 0.01 ≤ 0.025; 0.03 > 0.025 ends it; 0.001 ≤ 0.025 begins anew.
    assert fallback(p, [0.025, 0, 0, 0.025]).tolist() == [True, False, False, True]
    # What was carried on adds up: 0.03 ≤ 0.025 + 0.025.
    assert fallback([0.01, 0.03], [0.025, 0.025]).tolist() == [True, True]


def test_fallback_makes_a_mistake_in_at_most_delta() -> None:
    # All hypotheses true; p-values alike, independent, or opposed.
    rng = np.random.default_rng(1)
    one, many = rng.uniform(size=(4000, 1)), rng.uniform(size=(4000, 4))
    for p in (np.repeat(one, 4, 1), many, np.hstack([one, 1 - one, one, 1 - one])):
        broken = np.mean([fallback(each, [0.05, 0.02, 0, 0.03]).any() for each in p])
        assert broken < 0.1 + 3 * 0.0047


def test_band_of_equal_and_of_independent_candidates() -> None:
    rng = np.random.default_rng(0)
    one = rng.random((400, 1)) < 0.8
    answered = np.ones((400, 6), bool)
    low, _ = simultaneous_band(answered, np.repeat(one, 6, 1), 0.95)
    alone, _ = simultaneous_band(answered[:, :1], one, 0.95)
    assert low == pytest.approx(np.repeat(alone, 6), abs=2e-3)  # six times the same: no wider
    apart = rng.random((400, 6)) < 0.8
    low, high = simultaneous_band(answered, apart, 0.95)
    sidak, _ = simultaneous_band(answered[:, :1], apart[:, :1], 0.95 ** (1 / 6))
    assert low[0] == pytest.approx(float(sidak[0]), abs=3e-3) and (high > low).all()


def test_band_covers_everywhere_at_once() -> None:
    # Accuracy of a cascade over thresholds on a uniform score s: student right with 1 − s/2, teacher with 0.85.
    rng, held, thresholds = np.random.default_rng(2), 0, np.arange(0, 1.01, 0.1)
    truth = thresholds - thresholds**2 / 4 + (1 - thresholds) * 0.85
    for _ in range(150):
        s = rng.random(200)
        student, teacher = rng.random(200) < 1 - s / 2, rng.random(200) < 0.85
        correct = np.where(s[:, None] > thresholds, teacher[:, None], student[:, None])
        low, high = simultaneous_band(np.ones_like(correct), correct, 0.95)
        held += bool(((low <= truth) & (truth <= high)).all())
    assert held / 150 >= 0.90
