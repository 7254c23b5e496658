"""Class-prior shift: the test's numbers, its false alarms, and the warning in training."""

import warnings

import numpy as np
import pytest
import torch
from scipy.stats import chi2_contingency

import understudy as us
from understudy.labels.forms import Hard
from understudy.labels.reliability import class_shift, homogeneity


def test_worked_by_hand() -> None:
    """Gold (60, 40), pool (300, 700): expected (32.73, 67.27) and (327.27, 672.73), chi-square 33.77 + … on 1 df."""
    gold, pool = Hard([0] * 60 + [1] * 40), Hard([0] * 300 + [1] * 700)
    shift = class_shift(gold, pool, 2)
    assert shift.distance == pytest.approx(0.3)
    expected = np.outer([100, 1000], [360, 740]) / 1100
    statistic = ((np.array([[60, 40], [300, 700]]) - expected) ** 2 / expected).sum()
    assert statistic == pytest.approx(37.1622, abs=1e-3)
    assert shift.p_value == pytest.approx(1.09e-9, rel=0.01)
    assert (shift.most, shift.gold_share, shift.pool_share) == (0, 0.6, 0.3)
    assert shift.alarming


def test_equals_scipy_without_rare_classes(rng: np.random.Generator) -> None:
    for _ in range(20):
        table = rng.integers(50, 200, (2, 5)).astype(float)
        assert homogeneity(table[0], table[1]) == pytest.approx(chi2_contingency(table, correction=False).pvalue)


def test_rare_classes_are_counted_together() -> None:
    """Expected gold rows 45, 45, 4, 3, 3: the last three make one column of 10."""
    gold, pool = np.array([40.0, 50, 10, 0, 0]), np.array([4500.0, 4500, 400, 300, 300])
    merged = np.array([[40, 50, 10], [4500, 4500, 1000]])
    assert homogeneity(gold, pool) == pytest.approx(chi2_contingency(merged, correction=False).pvalue)
    # A rare group too small to stand alone joins the smallest other class.
    gold, pool = np.array([60.0, 38, 1, 1]), np.array([6000.0, 3900, 50, 50])
    merged = np.array([[60, 40], [6000, 4000]])
    assert homogeneity(gold, pool) == pytest.approx(chi2_contingency(merged, correction=False).pvalue)
    assert homogeneity(np.array([3.0, 0]), np.array([100.0, 200])) == 1.0
    assert homogeneity(np.array([9.0, 0]), np.array([9.0, 0])) == 1.0


@pytest.mark.parametrize(("classes", "gold_rows"), [(2, 30), (10, 50), (10, 500), (100, 300)])
def test_false_alarms_are_rare(classes: int, gold_rows: int) -> None:
    rng = np.random.default_rng(classes + gold_rows)
    alarms = significant = 0
    repeats = 1000
    for _ in range(repeats):
        shares = rng.dirichlet(np.ones(classes))
        gold, pool = rng.multinomial(gold_rows, shares), rng.multinomial(5000, shares)
        p = homogeneity(gold.astype(float), pool.astype(float))
        distance = np.abs(gold / gold_rows - pool / 5000).sum() / 2
        significant += p < 0.01
        alarms += p < 1e-3 and distance > 0.1
    assert alarms <= 0.004 * repeats
    # The p-value itself is near its nominal level.
    assert significant <= 0.025 * repeats


def test_real_shifts_are_found() -> None:
    rng = np.random.default_rng(0)
    found = 0
    for _ in range(100):
        gold = Hard(rng.choice(10, 300, p=np.full(10, 0.1)))
        pool = Hard(rng.choice(10, 5000, p=np.array([0.28, *[0.08] * 9])))
        found += class_shift(gold, pool, 10).alarming
    assert found >= 90


def _train(gold_labels: list[int], pool_labels: list[int]) -> us.Run:
    def rows(labels: list[int]) -> torch.Tensor:
        return torch.eye(2)[labels]

    return us.train(
        us.models.mlp(inputs=2, hidden=(4,), classes=2),
        us.Gold(rows(gold_labels), gold_labels, gold_labels),
        us.Pool(rows(pool_labels), pool_labels),
        us.slam(),
        epochs=1,
        progress=False,
    )


def test_training_warns_once_and_keeps_the_numbers() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run = _train([0] * 60 + [1] * 40, [0] * 60 + [1] * 440)
    shifts = [warning for warning in caught if "draw gold at random" in str(warning.message)]
    assert [warning.category for warning in shifts] == [us.UnderstudyWarning]
    assert shifts[0].filename == __file__
    assert run.facts["class_shift"] == pytest.approx(0.48)
    assert run.facts["class_shift_p"] < 1e-6


def test_training_is_silent_without_a_shift() -> None:
    run = _train([0, 1] * 50, [0, 1] * 200)
    assert run.facts["class_shift"] == 0
    assert run.facts["class_shift_p"] == 1


def test_too_few_calibration_rows_warn() -> None:
    with pytest.warns(us.UnderstudyWarning, match="19 gold rows calibrate the teacher over 2 classes; 20 or more"):
        _train([0, 1] * 9 + [0], [0, 1] * 100)
    _train([0, 1] * 10, [0, 1] * 100)
