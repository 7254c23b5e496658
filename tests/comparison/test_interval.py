"""Intervals over seeds and test rows at once: against a brute-force sum, special cases, and coverage."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from understudy.comparison.interval import Interval
from understudy.comparison.outcome import Comparison, Correct, Outcome


def brute_force(values: list[np.ndarray], rows: list[np.ndarray]) -> tuple[float, float, float]:
    """(mean, middle of the interval, variance): the double sum over all pairs that share a seed or a row.

    Two more rows, at −1 and at 1, belong to no seed.
    """
    seeds, count = len(values), len(set(np.concatenate(rows).tolist()))
    mean = sum(mine.mean() for mine in values) / seeds
    middle = mean * count / (count + 2)

    def pieces(centre: float) -> list[tuple[int, int, float]]:
        return [
            (s, row, (v - centre) / (seeds * len(values[s])))
            for s in range(seeds)
            for row, v in zip(rows[s], values[s], strict=True)
        ]

    within_seed = sum(a[2] * b[2] for a in pieces(mean) for b in pieces(mean) if a[0] == b[0])
    every = pieces(middle)
    within_row = sum(a[2] * b[2] for a in every for b in every if a[1] == b[1]) * (count / (count + 2)) ** 2
    ends = ((1 - middle) ** 2 + (1 + middle) ** 2) / (count + 2) ** 2
    alone = sum(a[2] ** 2 for a in every)
    return mean, middle, seeds / (seeds - 1) * within_seed + max(within_row + ends - alone, 0)


def test_crossed_agrees_with_the_sum_over_pairs(rng: np.random.Generator) -> None:
    rows = [np.arange(30)] * 4
    hard = rng.normal(0.1, 0.2, 30)
    values = [hard + rng.normal(0, 0.1, size=30) for _ in rows]
    mean, middle, variance = brute_force(values, rows)
    found = Interval.crossed(values, rows)
    assert found.mean == pytest.approx(mean) and found.error * 30 / 32 == pytest.approx(variance**0.5)
    assert (found.low + found.high) / 2 == pytest.approx(middle)


def test_two_methods_that_agree_on_every_row_may_still_differ() -> None:
    # By hand: two more rows, at −1 and 1, of 26: 0 ± t(23) · √(2/26) / √26, that is 0.0544 · 2.0687 = 0.1125.
    found = Interval.of_rows(np.zeros(24), lowest=-1.0)
    assert (found.mean, found.low, found.high) == (0, pytest.approx(-0.1125, abs=1e-4), pytest.approx(0.1125, abs=1e-4))
    # All of 24 right: 25/26 ± t(23) · √(25/26 · 1/26) / √26 = 0.9615 ± 0.0780.
    found = Interval.of_rows(np.ones(24), lowest=0.0)
    assert (found.mean, found.low, found.high) == (1, pytest.approx(0.8835, abs=1e-4), 1)


def test_a_difference_is_bonett_and_prices() -> None:
    # 9 rows only by the one, 4 only by the other, of 100: p12 = 10/102, p21 = 5/102; here t(99) for their z.
    values = np.repeat([1.0, -1.0, 0.0], [9, 4, 87])
    found = Interval.of_rows(values, lowest=-1.0)
    one, other = 10 / 102, 5 / 102
    half = stats.t.ppf(0.975, 99) * ((one + other - (one - other) ** 2) / 102) ** 0.5
    assert (found.low, found.high) == (pytest.approx(one - other - half), pytest.approx(one - other + half))
    assert found.excludes_zero == (found.p_value < 0.05) and found.mean == pytest.approx(0.05)


@pytest.mark.parametrize(("right", "gap", "alike"), [(0.9, 0.01, 0.9), (0.65, 0.1, 0.5)])
@pytest.mark.parametrize("rows", [24, 100])
def test_coverage_of_five_folds(right: float, gap: float, alike: float, rows: int) -> None:
    """Both are right on mostly the same rows: the t-interval over folds held the first difference in 48% at 24 rows."""
    rng, folds, held = np.random.default_rng(rows), np.array_split(np.arange(rows), 5), np.zeros(2)
    for _ in range(300):
        luck, own = rng.random((2, rows))
        one, other = luck < right, np.where(rng.random(rows) < alike, luck, own) < right - gap
        accuracy = Interval.crossed([one[fold].astype(float) for fold in folds], folds, lowest=0.0)
        difference = Interval.crossed([one[fold].astype(float) - other[fold] for fold in folds], folds)
        held += accuracy.low <= right <= accuracy.high, difference.low <= gap <= difference.high
    assert (held / 300 > 0.915).all()


def test_seeds_that_agree_still_leave_the_rows(rng: np.random.Generator) -> None:
    # Five seeds with one and the same outcome: what is left is the interval over the 40 test rows.
    values = (rng.random(40) < 0.7).astype(float)
    found = Interval.crossed([values] * 5, [np.arange(40)] * 5, lowest=0.0)
    assert found == replace(Interval.of_rows(values, lowest=0.0), count=5)


def test_p_value_agrees_with_scipy(rng: np.random.Generator) -> None:
    values = rng.normal(0.3, 1, 9)
    assert Interval.of(values).p_value == pytest.approx(stats.ttest_1samp(values, 0).pvalue)
    assert Interval.of([0.0, 0.0]).p_value == 1 and Interval.of([0.1, 0.1]).p_value == 0
    assert Interval.of([0.1]).p_value == 1


@pytest.mark.parametrize("row_effect", [0.0, 1.0])
def test_coverage_where_the_test_rows_are_a_sample(row_effect: float, rng: np.random.Generator) -> None:
    """Truth 0; 5 seeds share 50 test rows. The interval over seeds alone misses it often where rows matter."""
    crossed = plain = 0
    for _ in range(400):
        of_rows, of_seeds = row_effect * rng.normal(size=50), 0.05 * rng.normal(size=5)
        values = [(of_rows + shift + rng.normal(size=50)) / 4 for shift in of_seeds]
        crossed += not Interval.crossed(values, [np.arange(50)] * 5).excludes_zero
        plain += not Interval.of(mine.mean() for mine in values).excludes_zero
    assert crossed / 400 > 0.92
    assert (plain / 400 < 0.8) if row_effect else (plain / 400 > 0.92)


def test_a_comparison_pairs_by_row(rng: np.random.Generator) -> None:
    found = Comparison("vanilla")
    right = {name: rng.random((3, 60)) < share for name, share in (("vanilla", 0.7), ("slam", 0.8))}
    for name, by_seed in right.items():
        for seed, mine in enumerate(by_seed):
            found.add(name, seed, Outcome(float(mine.mean()), judged=Correct(np.arange(60), mine)))
    gap = found.difference("slam", "vanilla")
    values = [a.astype(float) - b for a, b in zip(right["slam"], right["vanilla"], strict=True)]
    assert gap == Interval.crossed(values, [np.arange(60)] * 3)
    assert gap.mean == pytest.approx(right["slam"].mean() - right["vanilla"].mean())
    # Row 0 is unknown on one side: the other 59 are compared.
    found.add("slam", 0, Outcome(0.8, judged=Correct(np.arange(1, 60), right["slam"][0][1:])))
    values[0], rows = values[0][1:], [np.arange(1, 60), np.arange(60), np.arange(60)]
    assert found.difference("slam", "vanilla") == Interval.crossed(values, rows)
    # One that does not say on which rows it was judged: nothing to pair by row, the seeds remain.
    found.add("slam", 0, Outcome(0.8))
    seeds = [found.outcomes["slam"][seed].last - found.outcomes["vanilla"][seed].last for seed in range(3)]
    assert found.difference("slam", "vanilla") == Interval.of(seeds)


def test_means_on_rows_of_their_own_differ_by_welch() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(1.0, 1.0, 12), rng.normal(0.5, 3.0, 7)
    found = Interval.of(a).minus(Interval.of(b))
    expected = stats.ttest_ind(a, b, equal_var=False)
    low, high = expected.confidence_interval()
    assert found.p_value == pytest.approx(expected.pvalue)
    assert (found.low, found.high, found.freedom) == pytest.approx((low, high, expected.df))
    assert Interval.of([1.0]).minus(Interval.of([0.5])).count == 1
