"""Joint uncertainty: a hand-worked posterior, the intervals' own variances, and chances that come true."""

import numpy as np
import pytest

from understudy.comparison.outcome import Comparison, Correct, Outcome
from understudy.comparison.recommendation import _by_rows, _by_seeds, estimate_options, posterior, recommend


def test_posterior_by_hand() -> None:
    """Two options, errors 1 and 2 points, spread 1 point. W = diag(1/2, 1/5); μ = (0.5·80 + 0.2·84) / 0.7 = 81.142857;
    80 + (1/2)(81.142857 − 80) and 84 − (4/5)(84 − 81.142857)."""
    centres, spreads = posterior(np.array([0.80, 0.84]), np.diag([1e-4, 4e-4])[None], np.array([0.01]))
    assert centres[0].tolist() == pytest.approx([0.80571429, 0.81714286])
    # By brute force: draws of μ (flat over a wide range), θ and x, kept where x is close to what was measured.
    joint = np.block(
        [[np.eye(2) * 1e-4 + 1.0, np.eye(2) * 1e-4 + 1.0], [np.eye(2) * 1e-4 + 1.0, np.diag([2e-4, 5e-4]) + 1.0]]
    )
    conditional = joint[:2, :2] - joint[:2, 2:] @ np.linalg.inv(joint[2:, 2:]) @ joint[2:, :2]
    assert spreads[0] == pytest.approx(conditional, rel=1e-3)


def test_differences_have_the_variance_of_their_intervals(rng: np.random.Generator) -> None:
    found = Comparison("a")
    skill = rng.random(300)
    for name, level in (("a", 0.3), ("b", 0.25)):
        for seed in range(5):
            right = skill + 0.3 * rng.normal(size=300) > level + 0.05 * rng.normal()
            found.add(name, seed, Outcome(float(right.mean()), judged=Correct(np.arange(300), right)))
    known, interval = estimate_options(found, ["a", "b"]), found.difference("a", "b")
    gap, by_seeds, by_rows = known.gap("a", "b")
    assert gap == pytest.approx(interval.mean)
    assert by_seeds + by_rows == pytest.approx(interval.error**2, rel=0.1)
    alone = estimate_options(found, ["a"])
    assert alone.of_seeds[0, 0] + alone.of_rows[0, 0] == pytest.approx(found.accuracy("a").error ** 2, rel=0.05)


def test_chances_come_true() -> None:
    """Of the choices that are said to be best with a chance p, a share p is; and what is expected of them is what they
    are, though the winner of a race was lucky."""
    rng = np.random.default_rng(3)
    said, true, expected, reached, shown = [], [], [], [], []
    for _ in range(300):
        truth = 0.8 + 0.02 * rng.normal(size=5)
        values = truth[:, None] + 0.03 * rng.normal(size=(5, 5))
        found = Comparison("a")
        for name, mine in zip("abcde", values, strict=True):
            for seed, value in enumerate(mine):
                found.add(name, seed, Outcome(value))
        known = estimate_options(found, list("abcde"))
        draws = known.draws(500)
        best = int(draws.mean(0).argmax())
        said.append((draws.argmax(1) == best).mean())
        true.append(best == truth.argmax())
        expected.append(draws.mean(0)[best])
        reached.append(truth[best])
        shown.append(values.mean(1).max())
    assert np.mean(said) == pytest.approx(np.mean(true), abs=0.06)
    assert np.mean(expected) == pytest.approx(np.mean(reached), abs=0.004)
    assert np.mean(shown) > np.mean(reached) + 0.004, "else there is nothing to correct"


def test_few_seeds_are_drawn_towards_one_variance_by_hand() -> None:
    """Covariance of the means: 4/3, 1, and 1 between them; alike it is 7/6 and 1. Two options, three seeds: halfway."""
    known = _by_seeds(np.array([[0.0, 2, 4], [0, 0, 3]]))
    assert known == pytest.approx(np.array([[5 / 4, 1], [1, 13 / 12]]))


def test_what_no_seed_had_a_hand_in_has_the_variance_of_its_rows() -> None:
    """Two of four rows right, told twice: s² / n = (1/3) / 4, however often it is told; two more rows, (¼ + ¼) / 6²."""
    one = Outcome(0.5, judged=Correct(np.arange(4), np.array([True, True, False, False])))
    beyond, rows, folds = _by_rows([[one, one]], np.array([0.5]))
    assert beyond == pytest.approx(np.array([[1 / 12 + 1 / 72]])) and rows == 4 and not folds


def test_folds_whose_students_disagree_count_for_fewer_rows_by_hand() -> None:
    """A quarter of the pool is told apart, 6 of 10 gold rows are right: 1 + 0.75 · 0.25 / (7/12 · 5/12) = 1.771."""
    found, plain = Comparison("a"), Comparison("a")
    for seed, classes in enumerate(([0, 0, 1, 1], [0, 1, 1, 1])):
        right = Correct(np.arange(5) + 5 * seed, np.array([1, 1, 1, 0, 0], dtype=bool))
        found.add("a", seed, Outcome(0.6, judged=right, pool_classes=classes))
        plain.add("a", seed, Outcome(0.6, judged=right))
    assert found.fold_effect("a") == pytest.approx(1 + 0.75 * 0.25 * 144 / 35) and plain.fold_effect("a") == 1
    wider = found.accuracy("a").error / plain.accuracy("a").error
    assert wider == pytest.approx(found.fold_effect("a") ** 0.5)


def test_what_is_above_chance_by_luck_is_not_expected_there() -> None:
    """Four options that tell nothing, five folds of 12 rows: shrunk over those above chance alone it is 10 points."""
    rng, off = np.random.default_rng(0), []
    for _ in range(100):
        found = Comparison("a")
        truth = rng.integers(0, 2, 60)
        for seed, rows in enumerate(np.split(np.arange(60), 5)):
            always = truth[rows] == np.bincount(truth).argmax()
            found.majority[seed] = Outcome(float(always.mean()), judged=Correct(rows, always))
            for name in "abcd":
                right = rng.random(12) < 0.5
                found.add(name, seed, Outcome(float(right.mean()), judged=Correct(rows, right)))
        said = recommend(found)
        if said.student is not None:
            off.append(said.expected[said.student] - 0.5)
    assert len(off) >= 8 and np.mean(off) < 0.07
