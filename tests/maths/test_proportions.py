"""Intervals of shares against SciPy, against numbers worked by hand, and against what they promise."""

import math

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import roc_auc_score

from understudy.errors import UnderstudyError
from understudy.maths.proportions import (
    UNKNOWN,
    Share,
    area,
    cross_validated,
    disagreement,
    exact,
    fold_effects,
    holm,
    stratified,
    two_sided,
)


@pytest.mark.parametrize(("hits", "rows"), [(0, 50), (12, 200), (50, 50), (1, 1), (391, 520)])
def test_an_end_leaves_a_fortieth_outside_with_the_count_itself_as_half(hits: int, rows: int) -> None:
    found = exact(hits, rows)
    for end, beyond in ((found.low, stats.binom.sf), (found.high, lambda k, n, p: stats.binom.cdf(k - 1, n, p))):
        if 0 < end < 1:
            assert beyond(hits, rows, end) + stats.binom.pmf(hits, rows, end) / 2 == pytest.approx(0.025, abs=1e-9)
    wide = stats.binomtest(hits, rows).proportion_ci(method="exact")
    assert wide.low <= found.low <= found.estimate == hits / rows <= found.high <= wide.high


def test_no_error_in_fifty_rows_is_not_certainty() -> None:
    # By hand: (1 − p)^50 / 2 = 0.025.
    assert exact(0, 50).high == pytest.approx(1 - 0.05 ** (1 / 50))
    assert exact(50, 50).low == pytest.approx(0.05 ** (1 / 50))
    assert exact(0, 0) == UNKNOWN and not UNKNOWN.known


@pytest.mark.parametrize(("rows", "least", "mean"), [(24, 0.925, 0.959), (100, 0.92, 0.952)])
def test_shares_are_held_as_often_as_said(rows: int, least: float, mean: float) -> None:
    """Without simulation: the chance of every count times whether its interval holds the share."""
    counts, shares = np.arange(rows + 1), np.linspace(0.01, 0.99, 197)
    found = [exact(int(count), rows) for count in counts]
    low, high = (np.array([getattr(one, end) for one in found]) for end in ("low", "high"))
    held = (low <= shares[:, None]) & (shares[:, None] <= high)
    coverage = (held * stats.binom.pmf(counts, rows, shares[:, None])).sum(1)
    assert coverage.min() >= least and coverage.mean() == pytest.approx(mean, abs=0.002)


def test_a_cross_validated_share_by_hand() -> None:
    """p = 51 / 102, and 1 + 0.75 · 0.2 / 0.25 = 1.6: as wide as 62.5 rows are."""
    found, plain = cross_validated(50, 100, 0.2), exact(31.25, 62.5)
    assert (found.estimate, found.low, found.high, found.rows) == (0.5, plain.low, plain.high, 100)
    assert cross_validated(150, 200, 0.0) == exact(150, 200)
    half = exact(75, 100)
    assert (cross_validated(150, 200, 1.0).low, cross_validated(150, 200, 1.0).high) == (half.low, half.high), "at most"
    assert cross_validated(20, 20, 0.1).high == 1 and cross_validated(20, 20, 0.1).low < exact(20, 20).low


def test_disagreement_is_of_pairs() -> None:
    assert disagreement([[0, 1, 1, 0], [0, 1, 0, 0], [1, 1, 0, 0]]) == pytest.approx((0.25 + 0.5 + 0.25) / 3)
    assert disagreement([[0, 1]]) == 0.0


def test_how_far_the_models_of_folds_differ_by_hand() -> None:
    """Variances of three rows among three models: 4/3, 0 and 12, their mean 40/9; twice that of 16 among the rows."""
    values = np.array([[0.0, 0, 3], [2, 0, 3], [0, 0, 9]])[:, :, None]
    own = np.array([[0.0], [4], [8]])
    assert fold_effects(values, own) == pytest.approx([1 + 80 / 9 / 16])
    assert fold_effects(values, own / 2) == pytest.approx([2.0]), "at most"
    assert fold_effects(values[:1].repeat(3, 0), own) == pytest.approx([1.0]), "one model"


def test_cross_validated_accuracies_are_held_as_often_as_said(rng: np.random.Generator) -> None:
    """Least squares on 50 rows of noise, 4 folds: of plain intervals 88% hold the truth, as if there were 31 rows."""
    plain, widened, sets = 0, 0, 500
    for _ in range(sets):
        x, y = np.c_[np.ones(150), rng.normal(size=(150, 5))], rng.choice([-1, 1], 50)
        fold, correct, classes = rng.permutation(50) % 4, 0, []
        for number in range(4):
            rest, mine = x[:50][fold != number], x[:50][fold == number]
            weights = np.linalg.solve(rest.T @ rest + np.eye(6), rest.T @ y[fold != number])
            correct += int((np.sign(mine @ weights) == y[fold == number]).sum())
            classes.append(x[50:] @ weights > 0)
        for_all, wider = exact(correct, 50), cross_validated(correct, 50, disagreement(classes))
        plain += for_all.low <= 0.5 <= for_all.high
        widened += wider.low <= 0.5 <= wider.high
    assert plain / sets < 0.92 and 0.93 <= widened / sets <= 0.985


def test_strata_by_hand() -> None:
    found = stratified([2, 1], [10, 20], [0.5, 0.5])
    assert found.estimate == pytest.approx(0.5 * 0.2 + 0.5 * 0.05)
    # Leaning on 3.5/31 by two rows: 0.185484 and 0.055718, mean 0.120601, variance 0.0044345; 0.106056 / 0.0044345.
    assert found.rows == pytest.approx(23.916, abs=2e-3)
    plain = exact(0.125 * found.rows, found.rows)
    assert (found.low, found.high) == pytest.approx((plain.low, plain.high))


def test_one_stratum_is_the_plain_share() -> None:
    assert stratified([12], [200], [1.0]).rows == pytest.approx(200)
    assert stratified([12], [200], [1.0]).low == pytest.approx(exact(12, 200).low)
    # A stratum without weight does not count, rows or no rows.
    assert stratified([12, 0, 5], [200, 0, 9], [1.0, 0, 0]) == stratified([12], [200], [1.0])


def test_a_small_population_widens_the_interval() -> None:
    # Its own share varies as a draw of 200 rows does: half the effective rows.
    assert stratified([12], [200], [1.0], population=200).rows == pytest.approx(100)


def test_strata_without_rows_are_refused() -> None:
    with pytest.raises(UnderstudyError, match="merge strata"):
        stratified([1, 0], [10, 0], [0.5, 0.5])
    with pytest.raises(UnderstudyError, match="sum to 1"):
        stratified([1, 0], [10, 10], [0.5, 0.6])


def test_more_rows_for_a_narrower_interval() -> None:
    share = Share(0.06, 0.03, 0.11, 200)
    # Half the width takes four times the rows: 800 in all.
    assert share.more_rows_for(0.02, 200) == 600
    assert share.more_rows_for(0.05, 200) == 0
    wanted = 200 + exact(12, 200).more_rows_for(0.01, 200)
    # The exact interval's extra width goes away a little faster than 1/√rows.
    assert 0.009 < exact(0.06 * wanted, wanted).width / 2 <= 0.01
    with pytest.raises(UnderstudyError, match="more than 0"):
        share.more_rows_for(0, 200)


@pytest.mark.parametrize(("hits", "rows"), [(27, 33), (6, 33), (5, 10), (0, 1), (391, 520)])
def test_two_sided_is_the_binomial_test(hits: int, rows: int) -> None:
    assert two_sided(hits, rows) == pytest.approx(stats.binomtest(hits, rows).pvalue)
    assert two_sided(0, 0) == 1


def test_holm_by_hand() -> None:
    # Sorted 0.01·3, 0.02·2, 0.5·1; never falling, never above 1.
    assert holm([0.02, 0.5, 0.01]).tolist() == pytest.approx([0.04, 0.5, 0.03])
    assert holm([0.01, 0.011]).tolist() == pytest.approx([0.02, 0.02])
    assert holm([0.9, 0.9]).tolist() == [1, 1]
    assert holm([]).tolist() == []


def test_area_agrees_with_scikit_learn(rng: np.random.Generator) -> None:
    scores, wrong = rng.integers(0, 8, 300), rng.random(300) < 0.2
    assert area(scores, wrong).estimate == pytest.approx(roc_auc_score(wrong, scores))
    assert area([1, 2], [True, True]) == UNKNOWN
    # Told apart without a miss, but by three pairs only.
    assert area([3, 1, 1, 1], [True, False, False, False]).estimate == 1
    assert area([3, 1, 1, 1], [True, False, False, False]).low < 0.8


def test_the_area_s_interval_covers(rng: np.random.Generator) -> None:
    truth = float(stats.norm.cdf(1 / math.sqrt(2)))  # shifted by 1
    held = 0
    for _ in range(300):
        wrong = np.arange(200) < 20
        found = area(rng.normal(size=200) + wrong, wrong)
        held += found.low <= truth <= found.high
    assert held / 300 > 0.9
