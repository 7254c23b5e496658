"""Nearest-neighbour means that do not depend on the order of the rows.

Plain k-nearest-neighbour code picks whichever of several equally distant rows comes first. Confidences tie often (an
LLM gives few distinct ones), so here every row tied with the k-th nearest is averaged in.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

Array = NDArray[np.float64]

# Distances this close (relatively) are one distance: 0.3 − 0.1 and 0.4 − 0.2 differ in the last bit.
_TIE = 1e-12
_CHUNK = 1 << 22


def neighbour_means(queries: Array, points: Array, responses: Array, k: int) -> Array:
    """Mean response ``(Q, R)`` over the k points nearest to each query, ties with the k-th included.

    ``queries (Q, D)`` and ``points (P, D)`` are covariates, ``responses (P, R)`` one row per point.
    """
    k = min(k, len(points))
    # Equal points act as one point with a count, equal queries have one answer: tied data becomes small data.
    places, group, counts = np.unique(points, axis=0, return_inverse=True, return_counts=True)
    sums = np.zeros((len(places), responses.shape[1]))
    np.add.at(sums, group.reshape(-1), responses)
    asked, back = np.unique(queries, axis=0, return_inverse=True)
    tree = cKDTree(places)
    width = min(len(places), 2 * k + 8)
    step = max(1, _CHUNK // width)
    means = np.concatenate(
        [_means_of_chunk(asked[i : i + step], tree, counts, sums, k, width) for i in range(0, len(asked), step)]
        or [np.zeros((0, responses.shape[1]))]
    )
    return means[back.reshape(-1)]


def _means_of_chunk(queries: Array, tree: cKDTree, counts: NDArray[np.int64], sums: Array, k: int, width: int) -> Array:
    found = tree.query(queries, k=np.arange(1, width + 1))
    distance, index = np.asarray(found[0]), np.asarray(found[1])
    kth = np.argmax(np.cumsum(counts[index], axis=1) >= k, axis=1)
    radius = np.take_along_axis(distance, kth[:, None], axis=1) * (1 + _TIE)
    inside = distance <= radius
    means = np.einsum("qk,qkr->qr", inside, sums[index]) / (counts[index] * inside).sum(1, keepdims=True)
    # More ties than the query was wide: ask again for everything within the radius.
    if width < len(counts):
        for row in np.flatnonzero(inside[:, -1]):
            near = np.sort(tree.query_ball_point(queries[row], radius[row, 0]))
            means[row] = sums[near].sum(0) / counts[near].sum()
    return np.asarray(means)
