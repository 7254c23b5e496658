"""``run.evaluation``: on the test set, cross-validated on gold, or of a pilot; stored with the run."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import understudy as us
from understudy.maths.proportions import UNKNOWN, Share, cross_validated, exact
from understudy.maths.temperature import PRIOR, cross_tempered, gap_of
from understudy.objective import Objective
from understudy.report.run_page import compared_accuracies
from understudy.training.evaluation import (
    HELD_OUT,
    Evaluation,
    StudentCalibration,
    by_confidence,
    cross_validate,
    evaluate_training,
    measure_classes,
)
from understudy.training.options import TrainingOptions
from understudy.training.prepare import FitPart
from understudy.training.train import fit_resolved

from ..three_blobs import FAST, student, world


class Always(nn.Module):
    """Predicts one class, whatever the rows, with these log-odds."""

    def __init__(self, label: int, odds: float = 1.0) -> None:
        super().__init__()
        self.label, self.odds = label, odds

    def forward(self, x: Tensor) -> Tensor:
        return self.odds * nn.functional.one_hot(torch.full((len(x),), self.label), 2).float()


def rows(count: int, teacher: int | None = None) -> us.Gold:
    """Three quarters are of class 1; the teacher has the first ``teacher`` rows right."""
    y = torch.arange(count).remainder(4).clamp(max=1)
    labels = None if teacher is None else torch.where(torch.arange(count) < teacher, y, 1 - y)
    return us.Gold(torch.zeros(count, 1), y, teacher=labels)


def evaluated(
    test: us.Gold | None, gold: us.Gold, *, predicts: int = 1, gold_only: int = 0, odds: float = 1.0, **more: Any
) -> Any:
    """Of a student that always predicts a class, beside one of gold alone that always predicts another."""
    pool = us.Pool(torch.zeros(60, 1), torch.arange(60) % 2)

    def fit(parts: Sequence[FitPart], objective: Objective) -> list[nn.Module]:
        return [Always(gold_only if part.pool is None else predicts, odds) for part in parts]

    options, student = TrainingOptions(epochs=1), Always(predicts, odds)
    return evaluate_training(student, gold, pool, test, us.vanilla(), options, fit, weight_decay=0.0, **more)


def test_on_a_test_set() -> None:
    found = evaluated(rows(200, 150), rows(20))
    assert found.rows == "test" and found.accuracy == exact(150, 200) and found.gold_only == exact(50, 200)
    assert (found.majority_class, found.majority, found.discordant) == (1, 0.75, (150, 50))
    assert found.teacher == exact(150, 200) and found.teacher_rows == "test" and not found.beats_majority


def test_the_teacher_is_measured_on_gold_where_the_test_set_has_no_labels_of_it() -> None:
    found = evaluated(rows(200), rows(40, 30))
    assert found.teacher == exact(30, 40) and found.teacher_rows == "gold"


def test_cross_validated_without_a_test_set() -> None:
    found = evaluated(None, rows(40))
    assert found.rows == "gold" and found.accuracy == exact(30, 40) and found.gold_only == exact(10, 40)
    assert found.discordant == (30, 10) and found.teacher is None
    assert evaluated(None, rows(19)) is None, "too few gold rows"


def test_the_majority_is_that_of_the_rows_that_measure() -> None:
    gold = rows(40) + us.Gold(torch.zeros(60, 1), torch.zeros(60, dtype=torch.long), chosen=True)
    found = evaluated(None, gold)
    assert (found.majority_class, found.majority, found.accuracy.estimate) == (1, 0.75, 0.75)


def test_a_pilot_has_cross_validated_already() -> None:
    candidates = [
        {"method": "slam", "rows": 40, "accuracy": 0.85}, {"method": "gold only", "rows": 40, "accuracy": 0.9}
    ]  # fmt: skip
    pilot: dict[str, Any] = {"choice": "slam", "accuracy": {"correct": 33, "rows": 40}, "candidates": candidates}
    pilot["disagreement"] = {"slam": 0.1, "gold only": 0.0}
    found = evaluated(None, rows(40), pilot=pilot)
    assert (
        found.accuracy == cross_validated(33, 40, 0.1) and found.gold_only == exact(36, 40) and found.discordant is None
    )
    candidates[1]["rows"] = 10
    assert evaluated(None, rows(40), pilot=pilot).gold_only is None, "it left the race"
    assert found.calibration is None
    fitted = StudentCalibration.fit(3 * torch.eye(2)[rows(40).y], rows(40).y)
    assert evaluated(None, rows(40), pilot={**pilot, "calibration": asdict(fitted)}).calibration == fitted


def test_student_and_teacher_together_are_cross_validated_too() -> None:
    """With the interval of rows whose students share rows; shown whether they are used or not."""
    gold, apart = rows(40, 30), {"slam": 0.1}
    pilot: dict[str, Any] = {"choice": "slam", "accuracy": {"correct": 33, "rows": 40}, "candidates": []}
    logits = torch.randn(40, 2, generator=torch.Generator().manual_seed(0))
    pilot |= {"disagreement": apart, HELD_OUT: {"logits": logits, "rows": torch.arange(40), "pool": None}}
    found = evaluated(None, gold, pilot=pilot)
    assert found.combined is not None and found.held_out is not None and found.held_out.combined is not None
    correct = int((found.held_out.combined.argmax(1) == gold.y).sum())
    combinations = found.held_out.disagreement
    assert combinations > 0 and found.combined == cross_validated(correct, 40, 0.1 + combinations) != exact(correct, 40)
    assert "student and teacher" in compared_accuracies(replace(found, held_out=None))


def test_the_gap_is_that_of_the_temperature_itself() -> None:
    """At temperatures fitted to other rows it is further off, by 7.1 for 6.5 points with 50 rows."""
    y = torch.arange(40) % 2
    logits = torch.stack([torch.zeros(40), (y * 2.0 - 1) * torch.linspace(-0.5, 2, 40)], dim=1)
    found = StudentCalibration.fit(logits, y)
    assert found.after == gap_of((logits / found.temperature).softmax(1), y) and found.before == gap_of(
        logits.softmax(1), y
    )
    assert found.after != gap_of(cross_tempered(logits, y), y)


def test_metrics_and_confusions_are_those_of_the_rows_that_measure() -> None:
    """Always class 1, which 150 of 200 test rows and 30 of 40 gold rows are: recalls 0 and 1, F1 0 and 6/7."""
    found = evaluated(rows(200, 150), rows(20))
    assert found.confusion == [[0, 50], [0, 150]] and "accuracy" not in found.metrics
    assert found.metrics["balanced_accuracy"].estimate == 0.5
    assert found.metrics["macro_f1"].estimate == pytest.approx(3 / 7)
    assert evaluated(None, rows(40)).confusion == [[0, 10], [0, 30]]
    stored = {"metrics": {"auc": asdict(exact(9, 10))}, "confusion": [[1, 2], [3, 4]]}
    pilot: dict[str, Any] = {"choice": "slam", "accuracy": {"correct": 33, "rows": 40}, "candidates": [], **stored}
    found = evaluated(None, rows(40), pilot={**pilot, "disagreement": {"slam": 0.1}})
    assert found.metrics == {"auc": exact(9, 10)} and found.confusion == [[1, 2], [3, 4]]


def test_intervals_of_cross_validated_metrics_count_that_students_share_rows() -> None:
    """Half of 40 rows right and a disagreement of 0.2: 1 + 0.75 · 0.2 / 0.25 = 1.6 times the variance."""
    y = torch.arange(40) % 2
    probs = torch.full((40, 2), 0.4).double()
    probs[torch.arange(40), torch.arange(40) // 20] = 0.6
    plain, folds = (measure_classes(probs, y, disagreement) for disagreement in (0.0, 0.2))
    assert plain["effect"] == 1 and folds["effect"] == pytest.approx(1.6)
    for name, share in plain["metrics"].items():
        wider = folds["metrics"][name]
        assert wider["estimate"] == share["estimate"]
        assert wider["high"] - wider["estimate"] == pytest.approx(1.6**0.5 * (share["high"] - share["estimate"])), name


def temperature_by_hand(odds: float, rows: int) -> float:
    """Of log-odds that are right on three quarters of the rows: a grid over log T."""
    u = np.linspace(-3, 3, 600_001)
    scaled = odds * np.exp(-u)
    loss = rows * (np.log1p(np.exp(-scaled)) + 0.25 * scaled) + np.log(1 + (u / PRIOR) ** 2)
    return float(np.exp(u[loss.argmin()]))


def test_confidence_is_calibrated_on_rows_that_did_not_train() -> None:
    """Log-odds of 5 are a confidence of 0.993, and three quarters are right: 24.3 points too much."""
    sure = torch.tensor(5.0).sigmoid().item()
    found = evaluated(None, rows(200), odds=5.0).calibration
    assert found.temperature == pytest.approx(temperature_by_hand(5.0, 200), rel=1e-4) and found.temperature > 3
    assert found.before.estimate == pytest.approx(sure - 0.75) and found.before.rows == 200
    assert abs(found.after.estimate) < 0.05 < found.before.low
    tested = evaluated(rows(40), rows(200), odds=5.0).calibration
    calibrated = torch.tensor(5.0 / found.temperature).sigmoid().item()
    assert tested.temperature == found.temperature and tested.before.rows == 40
    assert tested.after.estimate == pytest.approx(calibrated - 0.75, abs=1e-6)
    chosen = evaluated(rows(40), rows(200), odds=5.0, select=rows(24)).calibration
    assert chosen.temperature == pytest.approx(temperature_by_hand(5.0, 24), rel=1e-4), "the validation set"
    assert evaluated(rows(40), rows(19), odds=5.0).calibration is None, "too few gold rows"


def test_a_cross_validated_gap_is_widened_and_may_be_below_zero() -> None:
    found = StudentCalibration(1.0, Share(-0.02, -0.1, 0.04, 50), UNKNOWN).widened(2.25)
    assert (found.before.low, found.before.high) == pytest.approx((-0.14, 0.07)) and not found.after.known


def test_a_run_predicts_at_its_temperature(tmp_path: Path) -> None:
    gold, pool, _ = world("soft")
    plain = us.train(student, gold, pool, us.gce(), **FAST)
    x = gold.rows.take(torch.arange(len(gold)))
    logits = plain.student(x)
    torch.testing.assert_close(plain.predict(x), logits.softmax(1), rtol=0, atol=0)
    run = us.train(student, gold, pool, us.gce(), out=tmp_path / "run", evaluate=True, **FAST)
    assert run.temperature != 1 and run.facts["temperature"] == run.temperature
    torch.testing.assert_close(run.predict(x), (logits / run.temperature).softmax(1))
    loaded = us.Run.load(tmp_path / "run")
    torch.testing.assert_close(loaded.predict(x), run.predict(x), rtol=0, atol=0)


def test_rows_are_predicted_by_students_trained_without_them() -> None:
    """A student that memorises its rows knows nothing of those left out: the label of each row is drawn."""
    y = torch.randint(2, (40,), generator=torch.Generator().manual_seed(0))
    gold, options = us.Gold(torch.eye(40), y), TrainingOptions(epochs=60, lr=0.1)
    fit = partial(fit_resolved, lambda: us.models.linear(40, 2))
    assert us.evaluate(fit([FitPart(gold, None, options)], us.vanilla())[0], gold)["accuracy"] == 1.0
    found = cross_validate(fit, gold, None, us.vanilla(), options)
    correct = None if found is None else found.correct
    assert correct is not None and len(correct) == 40 and float(correct.double().mean()) < 0.8


def test_a_student_of_fewer_rows_takes_as_many_steps() -> None:
    """Of 40 rows in batches of 32 an epoch has two steps; of the 30 that a fold leaves, two batches of 15."""
    sizes, gold = [], us.Gold(torch.zeros(40, 1), torch.arange(40) % 2)

    def fit(parts: Sequence[FitPart], objective: Objective) -> list[nn.Module]:
        sizes.extend((len(gold), options.batch_size) for gold, _, options in parts if gold is not None)
        return [Always(1) for _ in parts]

    cross_validate(fit, gold, None, us.vanilla(), TrainingOptions(epochs=1, batch_size=32))
    assert sizes == [(30, 15)] * 4


@pytest.mark.filterwarnings("ignore::understudy.errors.UnderstudyWarning")
def test_it_is_made_on_request_and_stored_with_the_run(tmp_path: Path) -> None:
    gold, pool, _ = world("soft")
    plain = us.train(student, gold, pool, us.slam(), **FAST)
    assert plain.evaluation is None
    run = us.train(student, gold, pool, us.slam(), out=tmp_path / "run", evaluate=True, **FAST)
    assert isinstance(run.evaluation, Evaluation) and run.evaluation.gold_only is not None
    assert us.Run.load(tmp_path / "run").evaluation == run.evaluation
    assert run.evaluation.confusion is not None and sum(map(sum, run.evaluation.confusion)) == len(gold)
    for name, value in run.student.state_dict().items():
        torch.testing.assert_close(value, plain.student.state_dict()[name], rtol=0, atol=0)


def test_rows_by_confidence_are_counted_by_hand() -> None:
    """Twenty rows at 0.6, of which 9 are correct, and twenty at 0.9, of which 18 are, in any order."""
    probs = torch.tensor([[0.6, 0.4], [0.1, 0.9]] * 20)
    y = torch.tensor([0, 1] * 20)
    y[torch.arange(0, 22, 2)] = 1  # 11 of the first kind are wrong
    y[torch.tensor([1, 3])] = 0  # 2 of the second
    (low, few, rows), (high, many, others) = by_confidence(probs, y)
    assert (low, high) == (pytest.approx(0.6), pytest.approx(0.9))
    assert (few, rows, many, others) == (9, 20, 18, 20)
    assert len(by_confidence(probs[:39], y[:39])) == 1 and len(by_confidence(probs.repeat(20, 1), y.repeat(20))) == 10
