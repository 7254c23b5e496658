"""Do the teacher's probabilities mean what they say, and does its confidence tell right from wrong at all?

The calibration error (ECE, equal bins) is never 0 on few rows, however calibrated the teacher. So the audit also draws
what a calibrated teacher would show on these very rows: each is right with exactly the probability given.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from understudy.auditing.record import Record
from understudy.comparison.interval import Interval
from understudy.maths.calibration import calibration_error

SURE = 0.05
DRAWS = 1000


@dataclass(frozen=True)
class Calibration:
    error: float
    """Expected calibration error."""
    expected: float
    """What a calibrated teacher would show on as many rows: the median of the draws."""
    p_value: float
    """The share of calibrated teachers that would show as much."""
    gap: float
    low: float
    high: float
    """Mean probability minus accuracy, with its 95% interval: above 0 the teacher is too sure of itself."""

    @property
    def off(self) -> bool:
        return self.p_value < SURE


def calibration_of(record: Record, *, seed: int = 0) -> Calibration | None:
    """None where the labels come without probabilities."""
    sure = _probabilities(record)
    if sure is None or len(sure) < 2:
        return None
    right = torch.from_numpy(~record.wrong).double()
    error = calibration_error(sure, right)
    rng = np.random.default_rng(seed)
    draws = np.array([calibration_error(sure, torch.from_numpy(rng.random(len(sure))) < sure) for _ in range(DRAWS)])
    gap = Interval.of((sure - right).tolist())
    return Calibration(
        error=error,
        expected=float(np.median(draws)),
        p_value=float((1 + (draws >= error).sum()) / (1 + DRAWS)),
        gap=gap.mean,
        low=gap.low,
        high=gap.high,
    )


def _probabilities(record: Record) -> Tensor | None:
    """The chance the teacher gave its own answer, where it is one."""
    labels = record.gold.labels
    if labels.ranks:
        return labels.ranking().leading(0, len(labels), 1).probs[:, 0]
    given = labels.confidence("margin")
    return given if labels.has_confidence and float(given.min()) >= 0 and float(given.max()) <= 1 else None
