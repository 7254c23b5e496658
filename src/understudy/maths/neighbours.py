"""Nearest-neighbour means that do not depend on the order of the rows.

Plain k-nearest-neighbour code picks whichever of several equally distant rows comes first. Confidences tie often (an
LLM gives few distinct ones), so here every row tied with the k-th nearest is averaged in.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from torch import Tensor

Array = NDArray[np.float64]

# Distances this close (relatively) are one distance: 0.3 − 0.1 and 0.4 − 0.2 differ in the last bit.
_TIE = 1e-12
# Queries looked at together, and neighbours of theirs: 8 MB for each temporary.
_QUERIES = 1 << 18
_CHUNK = 1 << 20


@dataclass(frozen=True)
class NeighbourCurve:
    """Mean response of the nearest gold rows; offered beside isotonic regression for the paper's Figure 1."""

    points: Array
    responses: Array
    lower: float

    def __call__(self, covariate: Tensor) -> Tensor:
        k = neighbour_count(len(self.points))
        points, responses = self.points[:, None], self.responses[:, None]
        means = neighbour_means(covariate.double().unsqueeze(1).numpy(), points, responses, k)
        return torch.from_numpy(means[:, 0]).clamp(self.lower, 1.0)


def neighbour_count(gold_rows: int) -> int:
    """k = ⌈√|V| / 2⌉, as in Weighted Distillation's paper."""
    return math.ceil(math.sqrt(gold_rows) / 2)


def neighbour_means(queries: Array, points: Array, responses: Array, k: int) -> Array:
    """Mean response ``(Q, R)`` over the k points nearest to each query, ties with the k-th included.

    ``queries (Q, D)`` and ``points (P, D)`` are covariates, ``responses (P, R)`` one row per point.
    """
    k = min(k, len(points))
    # Equal points act as one point with a count, equal queries have one answer: tied data becomes small data.
    distinct, group, counts = np.unique(points, axis=0, return_inverse=True, return_counts=True)
    sums = np.zeros((len(distinct), responses.shape[1]))
    np.add.at(sums, group.reshape(-1), responses)
    tree = cKDTree(distinct)
    means = np.empty((len(queries), responses.shape[1]))
    for start in range(0, len(queries), _QUERIES):
        asked, back = np.unique(queries[start : start + _QUERIES], axis=0, return_inverse=True)
        answers = _answers(asked, tree, counts, sums, k, min(len(distinct), k + 1))
        means[start : start + _QUERIES] = answers[back.reshape(-1)]
    return means


def _answers(queries: Array, tree: cKDTree, counts: NDArray[np.int64], sums: Array, k: int, width: int) -> Array:
    """``width`` neighbours of each query are looked at; where they may not be all within the k-th's distance, more."""
    means, open_ = np.empty((len(queries), sums.shape[1])), np.zeros(len(queries), dtype=bool)
    step = max(1, _CHUNK // width)
    for start in range(0, len(queries), step):
        part = slice(start, start + step)
        means[part], open_[part] = _means_of_chunk(queries[part], tree, counts, sums, k, width)
    if width < len(counts) and open_.any():
        wider = min(len(counts), 4 * width)
        means[open_] = _answers(queries[open_], tree, counts, sums, k, wider)
    return means


def _means_of_chunk(
    queries: Array, tree: cKDTree, counts: NDArray[np.int64], sums: Array, k: int, width: int
) -> tuple[Array, NDArray[np.bool_]]:
    distance, index = map(np.asarray, tree.query(queries, k=np.arange(1, width + 1)))
    near = counts[index]
    kth = np.argmax(np.cumsum(near, axis=1) >= k, axis=1)
    radius = np.take_along_axis(distance, kth[:, None], axis=1) * (1 + _TIE)
    inside = distance <= radius
    means = np.einsum("qk,qkr->qr", inside, sums[index]) / (near * inside).sum(1, keepdims=True)
    # The farthest one looked at still ties with the k-th: there may be more.
    return means, inside[:, -1]
