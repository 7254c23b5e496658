"""Intervals and paired differences, against numbers worked by hand and against scipy."""

import io
import math
import re

import numpy as np
import pytest
import torch
from rich.console import Console
from scipy import stats

from understudy.comparison.interval import Interval, signed, span
from understudy.comparison.outcome import Comparison, Outcome, run_cells
from understudy.errors import UnderstudyError
from understudy.training.run import Run


def comparison_of(**accuracies: list[float]) -> Comparison:
    found = Comparison("vanilla")
    for method, values in accuracies.items():
        for seed, value in enumerate(values):
            found.add(method, seed, Outcome(value))
    return found


def as_text(comparison: Comparison) -> str:
    file = io.StringIO()
    Console(width=80, file=file).print(comparison.table())
    return file.getvalue()


def test_interval_by_hand() -> None:
    # Mean 2, s = 1, t(0.975; 2) = 4.302653, half = 4.302653 / √3 = 2.484138.
    interval = Interval.of([1.0, 2.0, 3.0])
    assert interval.mean == 2 and interval.count == 3
    assert interval.low == pytest.approx(-0.484138, abs=1e-6)
    assert interval.high == pytest.approx(4.484138, abs=1e-6)
    assert not interval.excludes_zero


def test_interval_and_paired_difference_agree_with_scipy(rng: np.random.Generator) -> None:
    a, b = rng.normal(0.9, 0.02, 8), rng.normal(0.88, 0.02, 8)
    expected = stats.ttest_1samp(a, 0).confidence_interval(0.95)
    interval = Interval.of(a)
    assert (interval.low, interval.high) == pytest.approx((expected.low, expected.high), rel=1e-12)
    expected = stats.ttest_rel(a, b).confidence_interval(0.95)
    found = comparison_of(slam=a.tolist(), vanilla=b.tolist()).difference("slam", "vanilla")
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), rel=1e-12)


def test_a_single_value_has_no_interval() -> None:
    interval = Interval.of([0.9])
    assert (interval.low, interval.high) == (-math.inf, math.inf) and not interval.excludes_zero
    assert span(interval, signed) == "–"
    with pytest.raises(UnderstudyError, match="at least one seed"):
        Interval.of([])


def test_pairing_cancels_what_seeds_share() -> None:
    # Seeds differ by 20 points, the methods by exactly 1 within each.
    found = comparison_of(vanilla=[0.7, 0.8, 0.9], slam=[0.71, 0.81, 0.91]).difference("slam", "vanilla")
    assert found.mean == pytest.approx(0.01) and found.excludes_zero


def test_only_seeds_that_both_have_are_paired() -> None:
    found = comparison_of(vanilla=[0.5, 0.6], slam=[0.6, 0.8, 0.0]).difference("slam", "vanilla")
    assert found.count == 2 and found.mean == pytest.approx(0.15)


def test_lines_and_table() -> None:
    found = comparison_of(teacher=[0.90, 0.90], vanilla=[0.91, 0.92], slam=[0.92, 0.94])
    teacher, vanilla, slam = found.rows()
    assert vanilla.difference is None and vanilla.last.mean == pytest.approx(0.915)
    assert slam.difference is not None and slam.difference.mean == pytest.approx(0.015)
    assert teacher.difference is not None and teacher.difference.mean == pytest.approx(-0.015)
    text = as_text(found)
    assert re.search(r"teacher +90\.0 +90\.0 to 90\.0 +−1\.5", text)
    assert "+1.5" in text and "minus vanilla" in text and "chosen" not in text


def test_selected_epoch_stands_beside_the_last() -> None:
    history = [{"test_accuracy": 0.8}, {"test_accuracy": 0.9}, {"test_accuracy": 0.7}]
    run = Run(student=torch.nn.Identity(), history=history, columns={}, selected_epoch=1)
    outcome = Outcome.of(run)
    assert outcome.last == 0.7 and outcome.selected == 0.8
    found = run_cells(lambda seed: {"vanilla": lambda: run, "teacher": lambda: 0.5}, range(2), reference="vanilla")
    assert [line.selected.mean if line.selected else None for line in found.rows()] == [0.8, None]
    assert "chosen" in as_text(found) and "80.0" in as_text(found)


def test_cells_run_in_order_and_share_a_seeds_situation() -> None:
    asked: list[int] = []
    done: list[tuple[str, int, float]] = []

    def trainings(seed: int) -> dict[str, object]:
        asked.append(seed)
        return {"vanilla": lambda: 0.5 + seed / 10, "slam": lambda: 0.6 + seed / 10}

    found = run_cells(trainings, [3, 1], reference="vanilla", on_done=lambda m, s, o: done.append((m, s, o.last)))  # type: ignore[arg-type]
    assert asked == [3, 1] and found.seeds == [1, 3]
    assert [cell[:2] for cell in done] == [("vanilla", 3), ("slam", 3), ("vanilla", 1), ("slam", 1)]
    assert found.difference("slam", "vanilla").mean == pytest.approx(0.1)


def test_what_cannot_be_compared_is_an_error() -> None:
    run = Run(student=torch.nn.Identity(), history=[{"loss": 1.0}], columns={})
    with pytest.raises(UnderstudyError, match="without test rows"):
        Outcome.of(run)
    with pytest.raises(UnderstudyError, match="no results for 'slam'; there are vanilla"):
        comparison_of(vanilla=[0.5]).difference("slam", "vanilla")


@pytest.mark.parametrize(("value", "text"), [(0.0123, "+1.2"), (-0.0123, "−1.2"), (-0.0004, "0.0"), (0.0, "0.0")])
def test_signed(value: float, text: str) -> None:
    assert signed(value) == text
