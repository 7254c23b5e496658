"""The calibration error, by hand and against a loop."""

import pytest
import torch
from torch import Tensor

from understudy.maths.confidence import BINS, calibration_error

PROBS = torch.tensor([[0.81, 0.19], [0.62, 0.38], [0.27, 0.73], [0.45, 0.55]])
LABELS = torch.tensor([0, 1, 1, 1])


def _error(probs: Tensor, labels: Tensor, bins: int = BINS) -> float:
    confidence, best = probs.double().max(-1)
    return calibration_error(confidence, best == labels, bins)


def test_calibration_error_worked_by_hand() -> None:
    # 2 bins: [0.5, 1] holds all four rows, accuracy ¾ against mean confidence 0.6775.
    assert _error(PROBS, LABELS, bins=2) == pytest.approx(0.75 - 0.6775, abs=1e-7)
    # 10 bins, each row alone: |1 − 0.81|, |0 − 0.62|, |1 − 0.73|, |1 − 0.55|, averaged.
    assert _error(PROBS, LABELS, bins=10) == pytest.approx((0.19 + 0.62 + 0.27 + 0.45) / 4, abs=1e-7)
    sure = torch.tensor([[1.0, 0.0]])
    assert _error(sure, torch.tensor([0])) == 0
    assert _error(sure, torch.tensor([1])) == 1


def test_calibration_error_equals_a_loop(generator: torch.Generator) -> None:
    probs = torch.randn(500, 5, generator=generator).mul(2).softmax(-1).double()
    labels = torch.randint(5, (500,), generator=generator)
    total = 0.0
    for low in range(15):
        rows = [i for i in range(500) if low <= probs[i].max().item() * 15 < low + 1]
        if rows:
            accuracy = sum(int(probs[i].argmax() == labels[i]) for i in rows) / len(rows)
            total += len(rows) / 500 * abs(accuracy - sum(probs[i].max().item() for i in rows) / len(rows))
    assert _error(probs, labels) == pytest.approx(total, abs=1e-9)
