"""The coverage suite, reduced: what the commands print of small simulated sets holds the truth as often as it says.

Bounds are some two standard errors below 95%, for seeds that are fixed: an interval of ± 1.5 instead of ± 1.96 standard
errors holds the truth in 87%. The page docs/results/coverage.md has every interval, measured on whole trainings.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from experiments.coverage import Cell
from experiments.coverage_data import world_of
from experiments.coverage_parts import Found, Intervals, of, teacher_truth
from torch import nn

import understudy as us
from experiments import coverage, coverage_data, coverage_parts
from understudy.auditing import measures
from understudy.comparison.outcome import Comparison, Correct, Outcome
from understudy.maths.proportions import area
from understudy.objective import Objective
from understudy.training import evaluation
from understudy.training.evaluation import evaluate_training
from understudy.training.options import TrainingOptions
from understudy.training.prepare import FitPart

CELLS = list(product(coverage_data.SIGNALS, (24, 100)))


@pytest.fixture(scope="module", autouse=True)
def small_population() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, rows in (("POPULATION_ROWS", 40_000), ("FRESH_ROWS", 4_000)):
            patch.setattr(coverage_data, name, rows)
        patch.setattr(measures, "DRAWS", 1)
        # Student and teacher combined is most of the time of an evaluation, and no interval of its accuracy.
        patch.setattr("understudy.training.held_out.LEAST_ROWS", 1_000_000)
        teacher_truth.cache_clear()
        world_of.cache_clear()
        yield
        teacher_truth.cache_clear()
        world_of.cache_clear()


def simulated(measure: Callable[[str, int, int], Intervals], sets: int) -> dict[str, Cell]:
    found: dict[str, list[list[Found]]] = defaultdict(list)
    for (signal, rows), seed in product(CELLS, range(sets)):
        for name, intervals in measure(signal, rows, seed).items():
            if intervals:
                found[name].append(intervals)
    return {name: cell(each) for name, each in found.items()}


def cell(sets: list[list[Found]]) -> Cell:
    return Cell.of(reduce(coverage.add, sets, [0.0] * 5))


def check(found: dict[str, Cell], **lowest: float) -> None:
    """``lowest``: other bounds, where several intervals of a set count."""
    for name, one in found.items():
        least = lowest.get(name, 0.95 - 2.2 * one.coverage_error)
        assert least <= one.coverage <= 0.995, f"{name}: {one}"
        assert abs(one.bias) <= 3.5 * one.bias_error, f"{name}: {one}"


def test_the_audits_intervals() -> None:
    check(simulated(_audited, 25))


def _audited(signal: str, rows: int, seed: int) -> Intervals:
    data, truth = world_of(signal, 3).data(rows, seed), teacher_truth(signal)
    record = measures.audit_data(data.gold, data.pool, None)
    accuracy, calibration = measures.accuracy_of(record), measures.calibration_of(record)
    assert calibration is not None and record.gold.confidence is not None
    separates = area(-record.gold.confidence, record.wrong)
    recalls = zip(accuracy.per_class, truth["recall"], strict=True)
    return {
        "noise": [of(measures.pool_noise(record)[0].pool, 1 - data.on_pool.right.mean())],
        "accuracy": [of(accuracy.overall, truth["accuracy"])],
        "recall": [of(each.recall, true) for each, true in recalls if each.recall.known],
        "macro_recall": [of(accuracy.macro_recall, truth["recall"].mean())],
        "confidence": [Found(calibration.gap, calibration.low, calibration.high, truth["gap"])],
        "roc_auc": [of(separates, truth["auc"])] if separates.known else [],
    }


def _nearer_mean(gold: us.Gold, pool: us.Pool | None) -> nn.Linear:
    """A linear student without training: the nearer of two class means, by gold and by the teacher's labels."""
    x, y = gold.rows.take(torch.arange(len(gold))), gold.y
    if pool is not None and pool.teacher is not None:
        x, y = torch.cat([x, pool.rows.take(torch.arange(len(pool)))]), torch.cat([y, pool.teacher.top1()])
    means = torch.stack([x[y == label].mean(0) for label in (0, 1)])
    student = nn.utils.skip_init(nn.Linear, x.shape[1], 2)
    student.weight.data, student.bias.data = means, -means.square().sum(1) / 2
    return student


def _trained(signal: str, rows: int, seed: int) -> Intervals:
    world = world_of(signal, 2)
    data = world.data(rows, seed)
    student, options = _nearer_mean(data.gold, data.pool), TrainingOptions(epochs=1, seed=seed)

    def fit(parts: Sequence[FitPart], _: Objective) -> list[nn.Module]:
        return [_nearer_mean(part.gold, part.pool) for part in parts if part.gold is not None]

    found = evaluate_training(
        student, data.gold, data.pool, None, Objective(name="vanilla"), options, fit, weight_decay=0.0
    )
    assert found is not None and found.teacher is not None and found.gold_only is not None
    return {
        "student": [of(found.accuracy, world.accuracy(student))],
        "teacher": [of(found.teacher, world.population.right.mean())],
        "gold_only": [of(found.gold_only, world.accuracy(_nearer_mean(data.gold, None)))],
    }


def test_the_intervals_of_train(monkeypatch: pytest.MonkeyPatch) -> None:
    # Student and teacher combined take four fifths of the time.
    monkeypatch.setattr(evaluation, "_held_out", lambda *_: (None, None))
    check(simulated(_trained, 10))


def _compared(signal: str, rows: int, seed: int) -> Intervals:
    """Two students of every fold, the one with all features, the other without the first; five folds."""
    draw, fresh = world_of(signal, 2).data(rows, seed).on_gold, world_of(signal, 2).fresh
    compared, truth = Comparison("all"), np.zeros((5, 2))
    for number, fold in enumerate(np.array_split(np.arange(rows), 5)):
        rest = np.setdiff1d(np.arange(rows), fold)
        for at, (name, first) in enumerate({"all": 0, "less": 1}.items()):
            x, y = draw.x[:, first:], draw.y[rest]
            means = [x[rest][y == label].mean(0) for label in (0, 1)]
            slope, middle = means[1] - means[0], (means[0] + means[1]) / 2
            right, always = (((each.x[:, first:] - middle) @ slope > 0) == each.y for each in (draw, fresh))
            outcome = Outcome(float(right[fold].mean()), judged=Correct(fold, right[fold]))
            compared.add(name, number, outcome)
            truth[number, at] = always.mean()
    every, less = truth.mean(0)
    return {
        "method": [of(compared.accuracy("all"), every)],
        "difference": [of(compared.difference("less", "all"), less - every)],
    }


def test_the_intervals_of_compare() -> None:
    check(simulated(_compared, 30))


def _estimated(signal: str, rows: int, seed: int) -> Intervals:
    data = world_of(signal, 3).data(rows, seed)
    found = us.estimate(data.gold, data.pool, what=["share"])
    return {"share": [of(one.value, (data.on_pool.y == one.label).mean()) for one in found]}


def test_the_intervals_of_estimate() -> None:
    check(simulated(_estimated, 4), share=0.93)


def test_the_gains_of_sources() -> None:
    """Of votes at random: without the folds' differences 84% would hold the truth."""
    found = [coverage_parts.votes("noise", 200, seed)["source: gain"] for seed in range(25)]
    assert 0.92 <= cell(found).coverage <= 0.995


def test_a_run_goes_on_where_it_was_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two sets at once, and one before the other: the same sums."""
    monkeypatch.setattr(coverage, "GOLD_ROWS", (24,))
    monkeypatch.setattr(coverage, "SIGNALS", {"weak": coverage_data.SIGNALS["weak"]})
    whole, parts = tmp_path / "whole.json", tmp_path / "parts.json"
    coverage.run(whole, ["votes"], ["weak"], 2, 1, 1.0)
    coverage.run(parts, ["votes"], ["weak"], 1, 1, 1.0)
    assert coverage.read(parts)["votes"]["sets"] == {"weak": 1}
    coverage.run(parts, ["votes"], ["weak"], 2, 1, 1.0)
    assert parts.read_bytes() == whole.read_bytes()
    page = coverage.page(coverage.read(parts))
    assert "votes: 2 of 200 sets" in page.replace("*", "") and "| votes |" not in page, "too few to be shown"


def test_a_signal_alone_can_be_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coverage, "GOLD_ROWS", (24,))
    coverage.run(tmp_path / "kept.json", ["metrics"], ["noise"], 2, 1, 1.0)
    kept = coverage.read(tmp_path / "kept.json")["metrics"]
    assert kept["sets"] == {"noise": 2, "weak": 0, "strong": 0} and kept["cells"]["auc"].keys() == {"noise 24"}
    assert "2 / 0 / 0 of 200 sets" in coverage.page({"metrics": kept})


def test_the_page_says_how_far_auto_is_off() -> None:
    """Off by 0.03 and 0.01: 0.02, with a standard error of 0.01."""
    sums = {"accuracy, cross-validated": {"noise 24": [2, 2, 0.04, 0.001, 0.5]}}
    page = coverage.page({"auto": {"sets": {"noise": 2}, "commits": ["c"], "cells": sums}})
    assert "(gold rows): +2.0 ± 1.0 (24) points." in page


def test_a_cell_by_hand() -> None:
    """Of two sets, the first has two intervals of which one holds the truth: 50% and 100%."""
    one, other, third = Found(0.5, 0.4, 0.6, 0.45), Found(0.5, 0.4, 0.6, 0.7), Found(0.3, 0.2, 0.4, 0.25)
    found = cell([[one, other], [third]])
    assert (found.sets, found.coverage, found.width) == (2, 0.75, pytest.approx(0.2))
    # Off by 0.05 and −0.2, and by 0.05: −0.075 and 0.05, whose standard error is 0.0625.
    assert (found.bias, found.bias_error) == (pytest.approx(-0.0125), pytest.approx(0.0625))
    assert coverage_parts.roc_area(np.array([1.0, 2, 2, 3]), np.array([False, True, False, True])) == 0.875
