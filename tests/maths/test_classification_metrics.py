"""Metrics agree with scikit-learn's and with hand-worked numbers; their intervals keep their level."""

import numpy as np
import pytest
from scipy import stats
from sklearn import metrics

from understudy.maths.classification_metrics import _f1_correlation, by_class, confusion_counts, macro_f1, mean, overall
from understudy.maths.proportions import exact, placements


def drawn(rng: np.random.Generator, rows: int, classes: int = 3) -> tuple[np.ndarray, np.ndarray]:
    probs = rng.dirichlet(np.full(classes, 0.7), rows)
    truth = np.array([rng.choice(classes, p=0.8 * row + 0.2 / classes) for row in probs])
    return probs, truth


@pytest.mark.parametrize("classes", [2, 4])
def test_estimates_are_scikit_learns(classes: int) -> None:
    probs, truth = drawn(np.random.default_rng(0), 200, classes)
    predicted, found = probs.argmax(1), overall(probs, truth)
    assert found["accuracy"].estimate == pytest.approx(metrics.accuracy_score(truth, predicted))
    assert found["balanced_accuracy"].estimate == pytest.approx(metrics.balanced_accuracy_score(truth, predicted))
    assert found["macro_f1"].estimate == pytest.approx(metrics.f1_score(truth, predicted, average="macro"))
    assert found["log_loss"].estimate == pytest.approx(metrics.log_loss(truth, probs))
    scores = probs[:, 1] if classes == 2 else probs
    assert found["auc"].estimate == pytest.approx(metrics.roc_auc_score(truth, scores, multi_class="ovr"))
    expected = metrics.precision_recall_fscore_support(truth, predicted)
    for label, one in enumerate(by_class(confusion_counts(truth, predicted, classes=classes))):
        values = (one.precision.estimate, one.recall.estimate, one.f1.estimate, one.rows)
        assert values == pytest.approx([part[label] for part in expected])


def test_correlations_of_f1_are_those_of_the_gradients_written_out() -> None:
    counts = np.random.default_rng(0).integers(0, 9, (5, 5)) + 0.5
    step, gradient = 1e-6, np.zeros((5, 25))

    def f1(counts: np.ndarray) -> np.ndarray:
        return 2 * counts.diagonal() / (counts.sum(0) + counts.sum(1))

    for cell in range(25):
        more = counts.copy()
        more.flat[cell] += step
        gradient[:, cell] = (f1(more) - f1(counts)) / step
    covariance = (gradient * counts.ravel()) @ gradient.T
    deviation = np.sqrt(covariance.diagonal())
    np.testing.assert_allclose(_f1_correlation(counts), covariance / np.outer(deviation, deviation), atol=1e-5)


def test_the_interval_of_the_auc_of_three_classes_is_as_wide_as_its_draws() -> None:
    """The mean width of the interval against the standard deviation over 300 draws: ends that are averaged over
    classes, as if these erred together, are 1.4 times as wide."""
    rng = np.random.default_rng(0)
    found = [overall(*drawn(rng, 120))["auc"] for _ in range(300)]
    spread = np.std([one.estimate for one in found])
    assert np.mean([one.width for one in found]) == pytest.approx(2 * 1.96 * spread, rel=0.12)


def test_placements_by_hand() -> None:
    """Of the kind: 3 and 1; not: 2, 1 and 0. 3 lies above all three, 1 above one and beside one."""
    kind = np.array([True, False, True, False, False])
    assert placements(np.array([3.0, 2, 1, 1, 0]), kind).tolist() == pytest.approx([1, 0.5, 0.5, 0.75, 1])


def test_by_hand() -> None:
    confusion = np.array([[6, 2], [1, 3]])
    first = by_class(confusion)[0]
    assert (first.precision, first.recall) == (exact(6, 7), exact(6, 8))
    assert first.f1.estimate == pytest.approx(12 / 15)
    assert first.f1.low == pytest.approx(2 * exact(6, 9).low / (1 + exact(6, 9).low))
    assert macro_f1(confusion).estimate == pytest.approx((12 / 15 + 6 / 9) / 2)


def test_classes_without_rows_and_no_rows_at_all() -> None:
    found = overall(np.array([[0.9, 0.1, 0.0]] * 4), np.zeros(4, dtype=np.int64))
    assert found["accuracy"].estimate == found["balanced_accuracy"].estimate == found["macro_f1"].estimate == 1
    assert not found["auc"].known
    # One class: F1 = 2J / (1 + J) of J = 4 of 4, not "1 for certain".
    low = exact(4, 4).low
    assert (found["macro_f1"].low, found["macro_f1"].high) == (pytest.approx(2 * low / (1 + low)), 1)
    unseen = by_class(np.array([[3, 0], [0, 0]]))[1]
    assert not unseen.precision.known and not unseen.recall.known and not unseen.f1.known


@pytest.mark.parametrize("rows", [50, 300])
def test_intervals_of_macro_f1_and_balanced_accuracy_keep_their_level(rows: int) -> None:
    """200 draws from a known confusion matrix with a rare class; 95% ± three standard errors, and slack for 50 rows."""
    rng = np.random.default_rng(rows)
    shares = np.array([[0.40, 0.06, 0.04], [0.08, 0.25, 0.02], [0.03, 0.03, 0.09]])
    both = shares.sum(0) + shares.sum(1)
    truth = {"macro_f1": (2 * shares.diagonal() / both).mean()}
    truth["balanced_accuracy"] = (shares.diagonal() / shares.sum(1)).mean()
    held = dict.fromkeys(truth, 0)
    for counts in rng.multinomial(rows, shares.ravel(), size=200):
        cells = np.repeat(np.arange(9), counts)
        found = overall(np.eye(3)[cells % 3], cells // 3)
        for name, value in truth.items():
            held[name] += found[name].low <= value <= found[name].high
    for name, times in held.items():
        assert 0.885 <= times / 200 <= 0.995, name


def test_the_interval_of_a_mean_is_bent_by_skewness() -> None:
    values = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    low, high = stats.t.interval(0.95, 4, values.mean(), stats.sem(values))
    assert (mean(values).low, mean(values).high) == (pytest.approx(low), pytest.approx(high))
    # By hand: mean 1, deviation 2, skewness 0.75 / √4 = 0.375, t(3) = 3.1824: 8 (∛2.17 − 1) and 8 (∛−0.2168 − 1).
    found = mean(np.array([0.0, 0.0, 0.0, 4.0]))
    assert (found.low, found.high) == (pytest.approx(1 - 2.3572, abs=1e-3), pytest.approx(1 + 12.806, abs=1e-2))
    assert mean(np.full(9, 0.3)).width == 0


def test_the_interval_of_the_log_loss_is_finite_and_above_zero() -> None:
    probs = np.array([[1.0, 0.0]] * 23 + [[1e-4, 1 - 1e-4]])
    found = overall(probs, np.zeros(24, dtype=np.int64))["log_loss"]
    assert mean(-np.log(probs[:, 0])).low < 0 == found.low and found.high < np.inf
    assert not overall(probs[:1], np.zeros(1, dtype=np.int64))["log_loss"].known


def test_the_interval_of_skew_losses_keeps_its_level() -> None:
    """exp(N(0, 1)) of 24 rows."""
    draws = np.exp(np.random.default_rng(0).normal(size=(1500, 24)))
    held = np.mean([one.low <= np.exp(0.5) <= one.high for one in map(mean, draws)])
    plain = np.abs(draws.mean(1) - np.exp(0.5)) <= stats.t.ppf(0.975, 23) * stats.sem(draws, axis=1)
    assert plain.mean() < 0.88 and 0.905 <= held <= 0.965
