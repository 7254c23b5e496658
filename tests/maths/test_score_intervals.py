"""Score intervals against Wilson's, against a general optimiser, and against what they promise."""

import numpy as np
import pytest
from scipy import optimize, stats

from understudy.maths.proportions import wilson
from understudy.maths.score_intervals import (
    Strata,
    constrained_shares,
    mean_intervals,
    score_intervals,
    score_statistic,
)

HITS, ROWS = np.array([[2.0, 8.0], [1.0, 20.0]]), np.array([[80.0, 20.0], [500.0, 25.0]])
WEIGHTS = np.array([[0.78, 0.22], [0.96, 0.04]])
ENDLESS = np.full((2, 2), np.inf)


Z = 1.959964


@pytest.mark.parametrize(("hits", "rows"), [(0, 30), (3, 100), (7, 10), (50, 50), (40, 80)])
def test_one_stratum_is_wilsons_but_for_skewness(hits: int, rows: int) -> None:
    one = np.ones((1, 1))
    strata = Strata(hits * one, rows * one, np.inf * one)
    wanted = stats.binomtest(hits, rows).proportion_ci(method="wilson")
    estimate, *ends = mean_intervals(strata, one)
    assert estimate[0] == hits / rows

    def lower(share: float) -> float:
        """The lower end: z of the share seen is Cornish and Fisher's quantile, by the binomial's skewness."""

        def excess(p: float) -> float:
            error = np.sqrt(p * (1 - p) / rows)
            skew = max(float(stats.binom.stats(rows, p, moments="s")), 0)
            return (share - p) / error - Z - (Z**2 - 1) / 6 * skew

        return optimize.brentq(excess, 1e-9, share - 1e-9) if share else 0.0

    low, high = lower(hits / rows), 1 - lower(1 - hits / rows)
    for found in (ends, score_intervals(strata, lambda theta: (one, theta), estimate)):
        assert (found[0][0], found[1][0]) == pytest.approx((low, high), abs=1e-6)
    if 2 * hits < rows:  # the end that is far from the border is Wilson's
        assert high == pytest.approx(wanted.high, abs=1e-6) and low <= wanted.low


@pytest.mark.parametrize("rows", [24, 100])
def test_no_share_of_a_binomial_is_held_in_less_than_93_percent(rows: int) -> None:
    """Exact sums over all outcomes; Wilson's interval falls to 84% at 0.18 / rows, and is 4% narrower at most."""
    hits, p = np.arange(rows + 1.0)[:, None], np.geomspace(0.01 / rows, 0.5, 400)
    strata = Strata(hits, np.full_like(hits, rows), np.full_like(hits, np.inf))
    _, low, high = mean_intervals(strata, np.ones_like(hits))
    chance = stats.binom.pmf(np.arange(rows + 1)[:, None], rows, p)
    held = (chance * ((low[:, None] <= p) & (p <= high[:, None]))).sum(0)
    assert held.min() > 0.93
    plain = np.array([wilson(float(each), rows).width for each in hits[:, 0]])
    assert ((chance.T @ (high - low)) / (chance.T @ plain)).max() < 1.04


def test_a_stratum_without_a_row_may_be_anything() -> None:
    """30% of the population is unknown: the interval of the others, and all or nothing of these."""
    hits, rows = np.array([[12.0, 0.0]]), np.array([[40.0, 1e-6]])
    _, low, high = mean_intervals(Strata(hits, rows, np.full((1, 2), np.inf)), np.array([[0.7, 0.3]]))
    _, *known = mean_intervals(Strata(hits[:, :1], rows[:, :1], np.full((1, 1), np.inf)), np.ones((1, 1)))
    assert (low[0], high[0]) == pytest.approx((0.7 * known[0][0], 0.7 * known[1][0] + 0.3), abs=1e-5)


def test_a_population_as_small_as_gold_doubles_the_variance() -> None:
    """Its own share is a draw of as many rows: 1/40 + 1/40 = 1/20, Wilson's interval of half as many rows."""
    one = np.ones((1, 1))
    _, low, high = mean_intervals(Strata(10 * one, 40 * one, 40 * one), one)
    assert high[0] == pytest.approx(wilson(5, 20).high, abs=1e-6) and low[0] < wilson(5, 20).low


def test_constrained_shares_are_those_of_a_general_optimiser() -> None:
    target = np.array([0.2, 0.03])
    found = constrained_shares(HITS, ROWS, WEIGHTS, target)
    for row in range(2):

        def loss(p: np.ndarray, row: int = row) -> float:
            return -float(HITS[row] @ np.log(p) + (ROWS[row] - HITS[row]) @ np.log(1 - p))

        sum_is = {"type": "eq", "fun": lambda p, row=row: WEIGHTS[row] @ p - target[row]}
        start = np.full(2, target[row])
        best = optimize.minimize(loss, start, bounds=[(1e-9, 1 - 1e-9)] * 2, constraints=sum_is, tol=1e-12)
        assert found[row] == pytest.approx(best.x, abs=1e-4)
        assert WEIGHTS[row] @ found[row] == pytest.approx(target[row], abs=1e-9)


def test_the_ends_are_just_not_rejected() -> None:
    strata = Strata(HITS, ROWS, ENDLESS)
    estimate, low, high = mean_intervals(strata, WEIGHTS)
    for end in (low, high, *score_intervals(strata, lambda theta: (WEIGHTS, theta), estimate)):
        assert np.abs(score_statistic(Strata(HITS, ROWS, ENDLESS), WEIGHTS, end, Z)) == pytest.approx(Z, abs=1e-3)
    assert (low < estimate).all() and (estimate < high).all()


def test_a_target_out_of_reach_is_rejected() -> None:
    assert np.isinf(score_statistic(Strata(HITS, ROWS, ENDLESS), WEIGHTS, np.array([1.5, -0.5]), Z)).all()


@pytest.mark.parametrize(("share", "rows", "accuracy"), [(0.01, 30, 0.75), (0.1, 300, 0.6), (0.3, 100, 0.95)])
def test_it_holds_the_share_where_normal_intervals_do_not(share: float, rows: int, accuracy: float) -> None:
    """400 draws; at 1% and 30 rows the interval of prediction-powered inference holds in 28% of them."""
    rng, yes = np.random.default_rng(0), share * accuracy + (1 - share) * (1 - accuracy)
    named = rng.binomial(rows, yes, 400)
    counts = np.stack([rows - named, named], 1).astype(float)
    rates = np.array([share * (1 - accuracy) / (1 - yes), share * accuracy / yes])
    hits = rng.binomial(counts.astype(int), rates).astype(float)
    enough = counts.min(1) >= 2
    hits, counts, weights = hits[enough], counts[enough], np.array([[1 - yes, yes]])
    _, low, high = mean_intervals(Strata(hits, counts, np.full_like(counts, np.inf)), weights)
    assert 0.92 <= np.mean((low <= share) & (share <= high)) <= 0.99


def test_strata_of_estimated_size_vary_like_their_mean() -> None:
    """Equal weights: two strata whose sizes are their own counts are one stratum of all rows, at the estimate."""
    hits, rows = np.array([[2.0, 30.0]]), np.array([[60.0, 40.0]])
    within, together = rows / 100, np.zeros((1, 2), dtype=np.int64)
    strata = Strata(hits, rows, np.full_like(hits, np.inf), together, within)
    # Just above the estimate the constrained shares are the shares seen: 0.32 · 0.68 / 100. At z = 1 skewness adds 0.
    found = score_statistic(strata, within, np.array([0.32 + 1e-7]), 1.0)
    assert found[0] == pytest.approx(-1e-7 / np.sqrt(0.32 * 0.68 / 100), rel=1e-3)
    known = score_statistic(strata._replace(together=None, within=None), within, np.array([0.32 + 1e-7]), 1.0)
    variance = 0.6**2 * (2 / 60) * (58 / 60) / 60 + 0.4**2 * 0.75 * 0.25 / 40
    assert known[0] == pytest.approx(-1e-7 / np.sqrt(variance), rel=1e-3)


def test_strata_without_an_error_have_an_interval_whatever_the_rounding() -> None:
    """Hits in all rows of some strata and in none of others: the variance at the estimate is exactly 0."""
    rng = np.random.default_rng(0)
    for _ in range(100):
        rows, population = rng.integers(5, 60, (1, 4)).astype(float), rng.integers(100, 999, (1, 4)).astype(float)
        right = rng.random((1, 4)) < 0.5
        c = population / population.sum()
        found, other = (mean_intervals(Strata(rows * hit, rows, population), c) for hit in (right, ~right))
        assert found[2] - found[1] > 0.01 and found[1] <= found[0] <= found[2]
        assert np.allclose((found[1], found[2]), (1 - other[2], 1 - other[1]), atol=1e-6)
