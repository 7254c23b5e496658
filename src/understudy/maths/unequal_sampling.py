"""Samples of a fixed size whose rows are drawn with probabilities that differ and are known.

    probability = inclusion_probabilities(weights, 100)      # (N,): min(1, c · weight), which sum to 100
    systematic(probability, 100, start=0.3, key=7)           # 100 rows, each drawn with exactly that probability

A mean over the N rows is then estimated by one over the sample, weighted by 1 / probability.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from understudy.maths.random_order import random_keys

Array = NDArray[Any]


def inclusion_probabilities(weights: Tensor, n: int) -> Tensor:
    """π_i = min(1, c · w_i) with Σ π = n, float64; weights (N,) are above 0, and n is at most N > 0."""
    weight = weights.double()
    largest = weight.sort(descending=True).values
    rest = largest.flip(0).cumsum(0).flip(0)  # Σ of this weight and all smaller ones
    # The k largest are certain; the others share n − k draws, and k is the least for which none of them exceeds 1.
    certain = int((((n - torch.arange(len(weight))) * largest) <= rest).nonzero()[0])
    probability = weight * ((n - certain) / rest[certain])
    return probability.masked_fill_(weight > largest[certain], 1.0).clamp_(max=1.0)  # rounding may exceed it


def systematic(probability: Tensor, n: int, *, start: float, key: int) -> Tensor:
    """n distinct rows (int64), each with its probability; these sum to n. ``start``: uniform in [0, 1).

    Rows stand in the random order of ``key``, each on a piece of a line as long as its probability, and n points at
    distance 1 pick the rows they meet (Madow, 1949). Without the random order, rows that lie close in a file would
    hardly ever be drawn together.
    """
    order = random_keys(torch.arange(len(probability)), key).argsort()
    ends = probability.double()[order].cumsum(0).numpy()
    if n == 0:
        return order[:0]
    step = np.arange(n)
    place = np.searchsorted(ends * (n / ends[-1]), start + step, side="right")
    # Rounding may let two points meet a row of probability 1, or the last one none.
    place = np.minimum(np.maximum.accumulate(place - step) + step, len(ends) - n + step)
    return order[torch.from_numpy(place)]


def draw_weights(probability: Array, batch: Array | None = None) -> Array:
    """What gold rows count, by the probabilities with which they were drawn, one ``batch`` after the other.

    Each batch estimates the total of all rows: by Σ y / probability that of the rows it was drawn from, and by their
    own labels that of the rows drawn before, which it could not hold. The batches' totals are averaged by their numbers
    of rows of equal precision (Kish), so that batches of any size and kind add up. Rows without a probability (NaN) are
    a random sample of their own, from before.
    """
    batch = np.zeros(len(probability), dtype=np.int64) if batch is None else batch
    weights, known, later = np.empty(len(probability)), ~np.isnan(probability), 0.0
    for number in np.unique(batch[known])[::-1]:
        mine = known & (batch == number)
        inverse = 1 / probability[mine]
        per_row = inverse.sum() / (inverse**2).sum()
        weights[mine] = inverse * per_row + later
        later += per_row
    weights[~known] = 1 + later
    return weights
