"""Calibration: does a stated confidence mean how often one is right?"""

import torch
from torch import Tensor

BINS = 15


def calibration_error(confidence: Tensor, right: Tensor, bins: int = BINS) -> float:
    """Expected calibration error: the mean gap between confidence and accuracy over equal bins, of ``(n,)`` each."""
    bin_of = (confidence * bins).long().clamp(max=bins - 1)
    gaps = torch.zeros(bins, dtype=torch.float64).index_add_(0, bin_of, right.double() - confidence)
    return float(gaps.abs().sum() / len(right))
