"""Class probabilities in descending order, possibly only the first K of C, and what can be read off them for every k.

For the k-th column the covariate is ``topk_margin(p, k)`` or minus ``grouped_entropy(p, k)``; computing all of them
from one sort costs O(C) per row instead of O(C²).
"""

from typing import NamedTuple

import torch
from torch import Tensor


class Ranked(NamedTuple):
    """``probs (n, K)`` descending float64, ``order (n, K)`` their classes; each unlisted class holds ``rest (n,)``."""

    probs: Tensor
    order: Tensor
    rest: Tensor
    classes: int

    @property
    def depths(self) -> int:
        """How many k have a covariate: top-k for k = 1 … depths, k < classes."""
        return min(self.probs.shape[1], self.classes - 1)


def rank(probs: Tensor) -> Ranked:
    """Dense rows, fully sorted; ties keep class order."""
    ordered = probs.double().sort(dim=-1, descending=True, stable=True)
    return Ranked(ordered.values, ordered.indices, torch.zeros(len(probs), dtype=torch.float64), probs.shape[1])


def _next_best(ranked: Ranked) -> Tensor:
    return torch.cat([ranked.probs[:, 1:], ranked.rest.unsqueeze(1)], dim=1)[:, : ranked.depths]


def topk_margins(ranked: Ranked) -> Tensor:
    """``topk_margin(p, k)`` for every k = 1 … depths, ``(n, depths)``."""
    return ranked.probs.cumsum(1)[:, : ranked.depths] - _next_best(ranked)


def grouped_certainties(ranked: Ranked) -> Tensor:
    """``−grouped_entropy(p, k)`` for every k = 1 … depths, ``(n, depths)``: larger is surer, like a margin."""
    head = ranked.probs.cumsum(1)
    pieces = ranked.probs.xlogy(ranked.probs)
    unlisted = (ranked.classes - ranked.probs.shape[1]) * ranked.rest.xlogy(ranked.rest)
    after = pieces.sum(1, keepdim=True) - pieces.cumsum(1) + unlisted.unsqueeze(1)
    return (head.xlogy(head) + after)[:, : ranked.depths]


def hits(ranked: Ranked, labels: Tensor) -> Tensor:
    """Is the label among the top k, for every k = 1 … depths, ``(n, depths)`` bool."""
    return (ranked.order == labels.unsqueeze(1)).cummax(1).values[:, : ranked.depths]
