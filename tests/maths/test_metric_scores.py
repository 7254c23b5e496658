"""Values of rows whose mean is a metric: against scikit-learn, by hand, and their standard error by the jackknife."""

import math

import numpy as np
import pytest
import torch
from sklearn import metrics
from torch import Tensor

from understudy.maths.metric_scores import row_losses, row_scores, row_values
from understudy.maths.temperature import cross_tempered
from understudy.training.options import METRICS


def predictions(rows: int = 120, classes: int = 3, seed: int = 0) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(seed)
    y = torch.multinomial(torch.tensor([0.7, 0.2, 0.1][:classes]), rows, replacement=True, generator=draw)
    logits = torch.randn(rows, classes, generator=draw, dtype=torch.float64)
    logits += 1.5 * torch.nn.functional.one_hot(y, classes)
    return logits.softmax(1), y


@pytest.mark.parametrize("classes", [2, 3])
def test_the_mean_of_the_rows_is_the_metric(classes: int) -> None:
    probs, y = predictions(classes=classes)
    best = probs.argmax(1)
    found = {metric: float(row_values(metric, probs, y).mean()) for metric in METRICS}
    assert found["accuracy"] == pytest.approx(metrics.accuracy_score(y, best))
    assert found["balanced_accuracy"] == pytest.approx(metrics.balanced_accuracy_score(y, best))
    assert found["macro_f1"] == pytest.approx(metrics.f1_score(y, best, average="macro"))
    shown = probs[:, 1] if classes == 2 else probs
    assert found["auc"] == pytest.approx(metrics.roc_auc_score(y, shown, multi_class="ovr", average="macro"))
    assert found["log_loss"] == pytest.approx(-metrics.log_loss(y, cross_tempered(probs.log(), y)))


def test_by_hand() -> None:
    """Four rows, truth 0 0 0 1, predicted 0 0 1 1. Recalls 2/3 and 1; F1 2·2/(3 + 2) = 0.8 and 2·1/(1 + 2) = 2/3."""
    probs = torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.4, 0.6], [0.3, 0.7]])
    y = torch.tensor([0, 0, 0, 1])
    # Class 0: θ + 4 / (2 · 3) · (hit − 2/3) around 5/6; the one row of class 1 has no influence.
    values = row_values("balanced_accuracy", probs, y)
    assert values.tolist() == pytest.approx([5 / 6 + 2 / 9, 5 / 6 + 2 / 9, 5 / 6 - 4 / 9, 5 / 6])
    # The first row: mean F1 11/15, plus half of 4 · (2 − 0.8 · 2) / 5 of class 0, and nothing of class 1.
    assert float(row_values("macro_f1", probs, y)[0]) == pytest.approx(11 / 15 + 0.16)
    assert float(row_values("auc", probs, y).mean()) == 1
    # A class that no row has counts in no mean; AUC without a second class says nothing.
    assert float(row_values("balanced_accuracy", probs, torch.zeros(4, dtype=torch.long)).mean()) == 0.5
    assert row_values("auc", probs, torch.zeros(4, dtype=torch.long)).tolist() == [0.5] * 4


@pytest.mark.parametrize("metric", ["balanced_accuracy", "macro_f1", "auc"])
def test_the_spread_of_the_rows_is_the_standard_error(metric: str) -> None:
    """Of a difference of two predictions on the same rows, as the jackknife has it."""
    first, y = predictions(400)
    second = (first + predictions(400, seed=1)[0]) / 2
    gaps = row_values(metric, first, y) - row_values(metric, second, y)
    left = []
    for row in range(len(y)):
        kept = torch.arange(len(y)) != row
        values = [float(row_values(metric, probs[kept], y[kept]).mean()) for probs in (first, second)]
        left.append(values[0] - values[1])
    jackknife = math.sqrt((len(y) - 1) * np.var(left))
    assert float(gaps.std()) / math.sqrt(len(y)) == pytest.approx(jackknife, rel=0.05)


def test_scores_follow_the_metric_and_hold_no_prediction_that_is_missing() -> None:
    probs, y = predictions()
    worse = torch.cat([probs[60:], probs[:60]])
    for metric in METRICS:
        assert float(row_scores(metric, probs, y).mean()) > float(row_scores(metric, worse, y).mean())
    holes = probs.clone()
    holes[10:] = math.nan
    assert row_scores("macro_f1", holes, y)[10:].isnan().all()
    torch.testing.assert_close(row_scores("macro_f1", holes, y)[:10], row_scores("macro_f1", probs[:10], y[:10]))
    # Whatever the temperature, a score by accuracy has a quarter of whether the class is right.
    sharp = (probs.log() * 3).softmax(1)
    torch.testing.assert_close(row_scores("accuracy", sharp, y), row_scores("accuracy", probs, y), atol=1e-4, rtol=0)
    # Among fitted forms, accuracy is chosen by the log-loss.
    torch.testing.assert_close(row_losses("accuracy", probs.log(), y), row_losses("log_loss", probs.log(), y))
    assert float(row_losses("macro_f1", probs.log(), y).mean()) == pytest.approx(
        1 - float(row_scores("macro_f1", probs, y).mean())
    )


def test_a_rare_class_counts_by_macro_f1_and_not_by_accuracy() -> None:
    """Always the first class, or a few of the second found at the price of as many errors."""
    y = torch.tensor([0] * 18 + [1] * 2)
    never = torch.tensor([[0.9, 0.1]]).expand(20, 2)
    finds = never.clone()
    finds[15:20] = torch.tensor([0.4, 0.6])
    better = {metric: float((row_values(metric, finds, y) - row_values(metric, never, y)).mean()) for metric in METRICS}
    assert better["accuracy"] < 0 < better["macro_f1"] and better["balanced_accuracy"] > 0
