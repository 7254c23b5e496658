"""Rows at random: in an order that does not depend on how they are split into parts, or with known probabilities.

Every row number has a random key, the i-th number of SplitMix64 (Steele, Lea and Flood 2014) after a state that is
drawn once: ties, and rows drawn uniformly, are ordered by keys.

    lowest([(slice(0, 100), margins)], 10, available=free, key=draw_key(torch.Generator().manual_seed(0)))

*Samples of a fixed size* whose rows are drawn with probabilities that differ and are known.

    probability = inclusion_probabilities(weights, 100)      # (N,): min(1, c · weight), which sum to 100
    systematic(probability, 100, start=0.3, key=7)           # 100 rows, each drawn with exactly that probability

A mean over the N rows is then estimated by one over the sample, weighted by 1 / probability.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[Any]
# As int64: 0x9E3779B97F4A7C15; and of each round the factor, 0xBF58476D1CE4E5B9 and 0x94D049BB133111EB, and the shift.
_STEP, _ROUNDS = -0x61C8864680B583EB, ((-0x40A7B892E31B1A47, 30), (-0x6B2FB644ECCEEE15, 27))


def draw_key(generator: torch.Generator) -> int:
    return int(torch.randint(2**63 - 1, (1,), generator=generator))


def random_keys(rows: Tensor, key: int) -> Tensor:
    """One number (int64) for each row number, all different; 64-bit integers wrap around."""
    state = (rows + 1) * _STEP + key
    for factor, by in _ROUNDS:
        state = (state ^ shifted(state, by)) * factor
    return state ^ shifted(state, 31)


def shifted(bits: Tensor, by: int) -> Tensor:
    """Logical right shift: int64's own would copy the sign into the upper bits."""
    return (bits >> by) & ((1 << (64 - by)) - 1)


def lowest(scores: Iterable[tuple[slice, Tensor]], n: int, *, available: Tensor, key: int) -> Tensor:
    """The n available rows of smallest score, given part by part; ties in the random order of ``key``."""
    score, rows = torch.zeros(0), torch.zeros(0, dtype=torch.long)
    for part, found in scores:
        free = available[part].nonzero().squeeze(1)
        score, rows = torch.cat([score, found[free]]), torch.cat([rows, free + part.start])
        order = torch.from_numpy(np.lexsort((random_keys(rows, key).numpy(), score.numpy()))[:n])
        score, rows = score[order], rows[order]
    return rows


def uniform(parts: Iterable[slice], n: int, *, available: Tensor, key: int) -> Tensor:
    """The first n available rows in the random order of ``key``."""
    return lowest(((part, torch.zeros(part.stop - part.start)) for part in parts), n, available=available, key=key)


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
