"""Intervals over seeds and test rows at once: against a brute-force sum, special cases, and coverage."""

import numpy as np
import pytest
from scipy import stats

from understudy.comparison.interval import Interval
from understudy.comparison.outcome import Comparison, Correct, Outcome


def brute_force(values: list[np.ndarray], rows: list[np.ndarray]) -> tuple[float, float]:
    """(mean, variance of the mean): the double sum over all pairs of observations that share a seed or a row."""
    seeds = len(values)
    mean = sum(mine.mean() for mine in values) / seeds
    every = [
        (s, row, (v - mean) / (seeds * len(values[s])))
        for s in range(seeds)
        for row, v in zip(rows[s], values[s], strict=True)
    ]
    within_seed = sum(a[2] * b[2] for a in every for b in every if a[0] == b[0])
    within_row = sum(a[2] * b[2] for a in every for b in every if a[1] == b[1])
    alone = sum(a[2] ** 2 for a in every)
    count = len({row for _, row, _ in every})
    return mean, seeds / (seeds - 1) * within_seed + max(count / (count - 1) * within_row - alone, 0)


def test_crossed_agrees_with_the_sum_over_pairs(rng: np.random.Generator) -> None:
    rows = [np.arange(30)] * 4
    values = [rng.normal(0.1, 1, 30) + rng.normal(size=30) for _ in rows]
    mean, variance = brute_force(values, rows)
    found = Interval.crossed(values, rows)
    assert found.mean == pytest.approx(mean) and found.error == pytest.approx(variance**0.5)


def test_rows_that_are_tested_once_leave_the_seeds_interval(rng: np.random.Generator) -> None:
    # Folds: every row belongs to one seed, so the spread of the seeds already holds that of the rows.
    values = [rng.normal(size=20) for _ in range(5)]
    found = Interval.crossed(values, [np.arange(20 * s, 20 * s + 20) for s in range(5)])
    plain = Interval.of(mine.mean() for mine in values)
    # n / (n − 1) for 100 rows is the only difference.
    assert found.error == pytest.approx(plain.error, rel=0.02) and found.error >= plain.error


def test_seeds_that_agree_still_leave_the_rows(rng: np.random.Generator) -> None:
    # Five seeds with one and the same outcome: what is left is the t-interval over the 40 test rows.
    values = rng.normal(0.2, 1, 40)
    found = Interval.crossed([values] * 5, [np.arange(40)] * 5)
    over_rows = stats.ttest_1samp(values, 0)
    assert found.error == pytest.approx(stats.sem(values))
    assert found.p_value == pytest.approx(over_rows.pvalue) and found.freedom == pytest.approx(over_rows.df)


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
        values = [of_rows + shift + rng.normal(size=50) for shift in of_seeds]
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
