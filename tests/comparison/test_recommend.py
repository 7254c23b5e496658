"""The rule that says which method to take: Holm by hand, its error rate where nothing differs, and every answer."""

import numpy as np
import pytest

from understudy.comparison.outcome import Comparison, Correct, Outcome, recommend
from understudy.maths.proportions import holm

METHODS = ("gold only", "vanilla", "confident", "slam", "weighted", "forward")


def comparison_of(**means: float) -> Comparison:
    """Five seeds around each mean, with a small spread of its own."""
    rng = np.random.default_rng(0)
    found = Comparison("vanilla")
    for name, mean in means.items():
        for seed in range(5):
            found.add(name.replace("_", " "), seed, Outcome(mean + 0.01 * seed + 0.002 * rng.normal()))
    return found


def test_holm_by_hand() -> None:
    # Sorted 0.01, 0.02, 0.04: × 3, × 2, × 1, never below the one before.
    assert holm([0.04, 0.01, 0.02]).tolist() == pytest.approx([0.04, 0.03, 0.04])
    assert holm([0.9, 0.8]).tolist() == [1.0, 1.0] and holm([]).tolist() == []


def test_where_nothing_differs_it_says_so_19_times_in_20() -> None:
    rng = np.random.default_rng(1)
    silent = 0
    for _ in range(1000):
        found = Comparison("vanilla")
        shared = rng.normal(0.8, 0.03, 5)
        for method in METHODS:
            for seed in range(5):
                found.add(method, seed, Outcome(shared[seed] + 0.01 * rng.normal()))
        silent += recommend(found).sentences[0].startswith("No method differs from vanilla")
    assert silent >= 950


def test_a_shared_test_set_is_a_sample_too() -> None:
    """Equal methods whose mistakes lie on different rows: 100 test rows favour one of them by chance, in all seeds."""
    rng = np.random.default_rng(2)
    silent = naive = 0
    for _ in range(200):
        found, bare = Comparison("vanilla"), Comparison("vanilla")
        for method in METHODS:
            knows = rng.random(100) < 0.8
            for seed in range(5):
                right = knows ^ (rng.random(100) < 0.02)
                found.add(method, seed, Outcome(right.mean(), judged=Correct(np.arange(100), right)))
                bare.add(method, seed, Outcome(right.mean()))
        silent += recommend(found).sentences[0].startswith("No method differs")
        naive += recommend(bare).sentences[0].startswith("No method differs")
    assert silent >= 188 and naive < 100


def test_a_better_method_is_taken() -> None:
    said = recommend(comparison_of(teacher=0.80, gold_only=0.70, vanilla=0.80, slam=0.83, weighted=0.81))
    assert said.choice == "slam" and said.sentences[0].startswith("Take slam. It is ahead of vanilla by 3.")
    assert "after correction for the 3 methods" in said.sentences[0]
    assert any("The pool pays: slam is ahead of training on gold alone" in text for text in said.sentences)
    assert any("beats its teacher (82.0%)" in text for text in said.sentences)


def test_gold_alone_is_an_answer() -> None:
    said = recommend(comparison_of(gold_only=0.9, vanilla=0.8, slam=0.85))
    assert said.choice == "gold only" and said.sentences[0].startswith("Train on gold alone")
    # Also where a method is a hair above it: the simpler of two that cannot be told apart.
    said = recommend(comparison_of(gold_only=0.9, vanilla=0.8, slam=0.9005))
    assert said.choice == "gold only" and any("cannot be told apart from slam" in text for text in said.sentences)


def test_nothing_better_and_some_worse() -> None:
    said = recommend(comparison_of(teacher=0.95, gold_only=0.6, vanilla=0.8, slam=0.8))
    assert said.choice == "vanilla"
    assert said.sentences[0] == "No method is better than vanilla, and gold only is worse: take vanilla."
    assert any("stays behind its teacher" in text for text in said.sentences)


def test_a_pool_that_is_not_shown_to_help() -> None:
    said = recommend(comparison_of(gold_only=0.8, vanilla=0.8))
    assert said.choice == "vanilla" and any("not shown to help" in text for text in said.sentences)


def test_one_seed_says_nothing() -> None:
    found = Comparison("vanilla")
    found.add("vanilla", 0, Outcome(0.5))
    found.add("slam", 0, Outcome(0.9))
    said = recommend(found)
    assert said.choice == "vanilla" and "single seed" in said.sentences[0] and said.adjusted == {"slam": 1.0}
