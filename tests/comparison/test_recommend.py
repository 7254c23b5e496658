"""The decision which option to take: its claims hold as often as they say, and every answer it can give."""

import numpy as np
import pytest

from understudy.comparison.outcome import Comparison, Correct, Outcome, Recommendation
from understudy.comparison.recommendation import adjusted_p
from understudy.comparison.recommendation import recommend as recommended
from understudy.maths.proportions import holm
from understudy.report.recommendation_text import training_problem

METHODS = ("gold only", "vanilla", "confident", "slam", "weighted", "forward")


def comparison_of(**means: float) -> Comparison:
    """Five seeds around each mean, with a small spread of its own."""
    rng = np.random.default_rng(0)
    found = Comparison("vanilla")
    for name, mean in means.items():
        for seed in range(5):
            found.add(name.replace("_", " "), seed, Outcome(mean + 0.01 * seed + 0.002 * rng.normal()))
    return found


def recommend(found: Comparison) -> Recommendation:
    found.recommendation = recommended(found)
    return found.recommendation


def sentences(found: Comparison) -> list[str]:
    recommend(found)
    return found.sentences


def test_holm_by_hand() -> None:
    # Sorted 0.01, 0.02, 0.04: × 3, × 2, × 1, never below the one before.
    assert holm([0.04, 0.01, 0.02]).tolist() == pytest.approx([0.04, 0.03, 0.04])
    assert holm([0.9, 0.8]).tolist() == [1.0, 1.0] and holm([]).tolist() == []


def claims(found: Comparison) -> bool:
    return any(p < 0.05 for p in adjusted_p(found).values())


def test_where_nothing_differs_it_claims_nothing_19_times_in_20() -> None:
    rng = np.random.default_rng(1)
    silent = 0
    for _ in range(1000):
        found = Comparison("vanilla")
        shared = rng.normal(0.8, 0.03, 5)
        for method in METHODS:
            for seed in range(5):
                found.add(method, seed, Outcome(shared[seed] + 0.01 * rng.normal()))
        silent += not claims(found)
    assert silent >= 950


def judged(right: np.ndarray) -> Outcome:
    return Outcome(float(right.mean()), judged=Correct(np.arange(len(right)), right))


def test_a_shared_test_set_is_a_sample_too() -> None:
    """Equal methods whose mistakes lie on different rows: 100 test rows favour one of them by chance, in all seeds."""
    rng = np.random.default_rng(2)
    silent = naive = 0
    for _ in range(100):
        found, bare = Comparison("vanilla"), Comparison("vanilla")
        for method in METHODS:
            knows = rng.random(100) < 0.8
            for seed in range(5):
                right = knows ^ (rng.random(100) < 0.02)
                found.add(method, seed, judged(right))
                bare.add(method, seed, Outcome(right.mean()))
        silent += not claims(found)
        naive += not claims(bare)
    assert silent >= 93 and naive < 50


def test_a_better_method_is_taken() -> None:
    found = comparison_of(teacher=0.80, gold_only=0.70, vanilla=0.80, slam=0.83, weighted=0.81)
    said = recommend(found)
    assert said.choice == said.student == "slam"
    assert found.sentences[0].startswith("Take slam: expected accuracy 85.0% (95% CI ")
    assert said.chances["slam"] > 0.95 and sum(said.chances.values()) == pytest.approx(1)
    better = [text for text in found.sentences if "slam is significantly better than vanilla, by " in text]
    assert "the 3 methods" in better[0]
    assert any("The pool helps: slam minus gold only is +" in text for text in found.sentences)
    assert any(
        "slam is better than its teacher, accuracy 85.0% against 82.0%, by 3.0 points" in text
        for text in found.sentences
    )


def test_gold_alone_is_an_answer() -> None:
    found = comparison_of(gold_only=0.9, vanilla=0.8, slam=0.85)
    said = recommend(found)
    assert said.choice == said.student == "gold only" and found.sentences[0].startswith("Train on gold only: ")


def test_the_teacher_s_own_labels_are_an_answer() -> None:
    found = comparison_of(teacher=0.95, gold_only=0.6, vanilla=0.8, slam=0.85)
    said = recommend(found)
    assert (said.choice, said.student) == ("teacher", "slam")
    assert found.sentences[0].startswith("Use the teacher's own labels, where it is available: ")
    assert found.sentences[1].startswith("For a student, take slam: ")
    assert any("slam is worse than its teacher" in text for text in found.sentences)


def test_a_pool_that_is_not_shown_to_help() -> None:
    found = comparison_of(gold_only=0.8, vanilla=0.8)
    recommend(found)
    assert any("does not help significantly" in text for text in found.sentences)
    assert any("either will do" in text for text in found.sentences)


def test_a_single_seed_decides_by_its_rows_and_says_what_it_assumes() -> None:
    found = Comparison("vanilla")
    right = np.arange(200) < 100
    found.add("vanilla", 0, judged(right))
    found.add("slam", 0, judged(np.arange(200) < 180))
    said = recommend(found)
    assert said.choice == "slam" and said.adjusted == {"slam": 1.0} and said.chances["slam"] > 0.99
    assert any("With a single seed the variation" in text for text in found.sentences)


def coin(rng: np.random.Generator, share: float, rows: int = 60, falls: bool = True) -> Outcome:
    losses = (0.69, 0.68, 0.6) if falls else (0.693, 0.693, 0.6929)
    right = np.zeros(rows, dtype=bool)
    right[: round(share * rows)] = True
    rng.shuffle(right)
    history = [{"loss": loss} for loss in losses]
    return Outcome(float(right.mean()), history=history, judged=Correct(np.arange(rows), right))


def test_a_student_at_chance_level_is_never_chosen_and_the_cause_is_named() -> None:
    """Two classes: vanilla at 50.0, SLaM at 68.3, gold only at 61.7, the teacher at 66.7."""
    rng = np.random.default_rng(0)
    found = Comparison("vanilla")
    majority = np.arange(60) < 30
    for seed in range(5):
        found.majority[seed] = judged(majority)
        found.add("vanilla", seed, coin(rng, 0.5))
        found.add("slam", seed, coin(rng, 0.683))
        found.add("gold only", seed, coin(rng, 0.617))
        found.add("teacher", seed, coin(np.random.default_rng(7), 0.667))
    said = recommend(found)
    assert said.at_chance == ["vanilla"] and "vanilla" not in said.chances
    assert said.choice in ("slam", "teacher") and said.student == "slam"
    assert any(
        text.startswith("At chance level: vanilla (its loss still falls after 3 epochs: too few")
        for text in found.sentences
    )
    # No option is above it: nothing is recommended.
    poor = Comparison("vanilla", {"vanilla": found.outcomes["vanilla"]}, majority=found.majority)
    said = recommend(poor)
    assert (said.choice, said.student) == ("nothing", None)
    assert "no option is better than the majority-class baseline (50.0%)" in poor.sentences[0]


@pytest.mark.parametrize(
    ("losses", "cause"),
    [
        ((0.7, 0.9, 2.0), "rises"),
        ((0.7, float("nan")), "rises"),
        ((0.7,), "one epoch"),
        ((0.7, 0.6, 0.5), "still falls"),
        ((0.693, 0.692, 0.6919), "hardly moves"),
        ((0.7, 0.3, 0.2, 0.199), "does not generalise"),
        ((), "not recorded"),
    ],
)
def test_training_problem(losses: tuple[float, ...], cause: str) -> None:
    assert cause in training_problem([Outcome(0.5, history=[{"loss": loss} for loss in losses])] * 2)


def test_what_was_run_under_few_seeds_is_not_considered() -> None:
    found = comparison_of(vanilla=0.8, slam=0.82, forward=0.9)
    found.outcomes["forward"] = {0: found.outcomes["forward"][0]}
    found.failed["forward"] = dict.fromkeys(range(1, 5), "no")
    said = recommend(found)
    assert said.choice == "slam" and any("too few seeds" in text and "forward" in text for text in found.sentences)


def test_what_more_seeds_or_rows_would_settle() -> None:
    """1 point apart, the seeds' differences with a standard deviation of 2: (2 · 2 / 1)² = 16 seeds."""
    found = Comparison("vanilla")
    for seed, gap in enumerate((-0.01, 0.01, 0.03, -0.01, 0.03)):
        found.add("vanilla", seed, Outcome(0.8))
        found.add("slam", seed, Outcome(0.8 + gap))
    assert any("About 16 seeds would decide between slam and vanilla." in text for text in sentences(found))
    # Always right on the same rows: seeds tell nothing, 5 of 100 rows against 2 do. Variance (7 − 0.09) / 99 / 100, and
    # of two more rows each (0.98² + 0.02² + 0.95² + 0.05²) / 102²; over (0.03 / 2)².
    for seed in range(5):
        found.add("vanilla", seed, judged(np.arange(100) < 95))
        found.add("slam", seed, judged(np.arange(100) >= 2))
    said = sentences(found)
    assert any("About 390 test rows (100 now) would decide between slam and vanilla." in text for text in said), said


def test_options_that_no_seed_has_in_common_are_not_all_considered() -> None:
    """Each failed under another seed: no two of the three can be left out, nor all three be held against each other."""
    found = Comparison("vanilla")
    for name, seeds in {"gold only": (0, 2), "vanilla": (0, 1), "slam": (1, 2)}.items():
        for seed in seeds:
            found.add(name, seed, judged(np.arange(100) % 10 > seed))
    said = recommend(found)
    assert list(said.expected) == ["gold only", "vanilla"]
    assert "Not considered, because too few seeds could be run: slam." in found.sentences


def test_a_student_without_a_seed_in_common_with_gold_alone_is_not_held_against_it() -> None:
    found = comparison_of(vanilla=0.8, slam=0.9)
    found.add("gold only", 7, Outcome(0.7))
    found.add("teacher", 7, Outcome(0.7))
    said = recommend(found)
    assert said.choice == "slam" and not any("alone" in text or "teacher (" in text for text in found.sentences)
