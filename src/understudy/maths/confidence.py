"""How sure a distribution is: margins and entropies, in float64, and whether stated confidence is calibrated.

Estimators sort and compare these numbers, and LLM confidences lie close together, so everything is computed in
double precision (in float32, values closer than about 1e-6 would merge). Labels are never tempered here.
"""

from collections.abc import Callable

import torch
from torch import Tensor

BINS = 15


def margin(probs: Tensor) -> Tensor:
    """Largest minus second largest entry, ``(N, C) -> (N,)``."""
    return topk_margin(probs, 1)


def topk_margin(probs: Tensor, k: int) -> Tensor:
    """Sum of the k largest entries minus the (k+1)-th; the entry missing at k >= C counts as 0."""
    largest = probs.double().topk(min(k + 1, probs.shape[-1]), dim=-1).values
    next_best = largest[..., k] if largest.shape[-1] > k else 0.0
    return largest[..., :k].sum(-1) - next_best


def entropy(probs: Tensor) -> Tensor:
    """−Σ p log p in nats, with 0·log 0 = 0."""
    probs = probs.double()
    return -(probs.xlogy(probs)).sum(-1)


def grouped_entropy(probs: Tensor, k: int) -> Tensor:
    """Entropy after merging the k largest entries into one class."""
    ranked = probs.double().sort(dim=-1, descending=True).values
    head = ranked[..., :k].sum(-1)
    tail = ranked[..., k:]
    return -(head.xlogy(head) + tail.xlogy(tail).sum(-1))


def calibration_error(confidence: Tensor, right: Tensor, bins: int = BINS) -> float:
    """Expected calibration error: the mean gap between confidence and accuracy over equal bins, of ``(n,)`` each."""
    bin_of = (confidence * bins).long().clamp(max=bins - 1)
    gaps = torch.zeros(bins, dtype=torch.float64).index_add_(0, bin_of, right.double() - confidence)
    return float(gaps.abs().sum() / len(right))


#: How confidence can be measured, by name.
MEASURES: dict[str, Callable[[Tensor], Tensor]] = {"margin": margin, "entropy": entropy}
