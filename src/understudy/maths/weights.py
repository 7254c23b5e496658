"""Example weights: debiasing (Weighted Distillation), fidelity, and how weights are scaled.

Weighted Distillation (Iliopoulos et al., NeurIPS 2022, Equation 4) weighs a pool example by

    w(x) = min(1, 1 / (1 + p(x) (distortion(x) − 1)))

where p(x) is the chance that the teacher is wrong and distortion(x) the ratio of the loss on the teacher's label to
the loss on the true one: the loss the student is trained by, at its temperature. Both are means over the nearest gold
rows in the plane of (teacher, student) confidence.
Here the weights are clipped and never differentiated; the paper's Appendix E, which differentiates through smooth
weights, is in ``experiments.theory``.

*Nearest-neighbour means that do not depend on the order of the rows.* Plain k-nearest-neighbour code picks whichever of
several equally distant rows comes first. Confidences tie often (an LLM gives few distinct ones), so here every row tied
with the k-th nearest is averaged in.
"""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from understudy.errors import UnderstudyError
from understudy.maths.losses import cross_entropy

if TYPE_CHECKING:
    from scipy.spatial import cKDTree

Array = NDArray[np.float64]
Loss = Callable[[Tensor, Tensor], Tensor]

# Distances this close (relatively) are one distance: 0.3 − 0.1 and 0.4 − 0.2 differ in the last bit.
_TIE = 1e-12
# Queries looked at together, and neighbours of theirs: 8 MB for each temporary.
_QUERIES = 1 << 18
_CHUNK = 1 << 20
# A student that has fitted the gold rows would make the distortion infinite.
LOSS_FLOOR = 1e-3


def debias(wrong: Tensor, distortion: Tensor) -> Tensor:
    """min(1, 1 / (1 + p (d − 1))); 1 where the denominator vanishes (p = 1 and d = 0)."""
    denominator = 1 + wrong * (distortion - 1)
    inverse = 1 / denominator.clamp(min=torch.finfo(denominator.dtype).tiny)
    return torch.where(denominator > 0, inverse, 1.0).clamp(max=1.0)


def distortion_of(
    teacher: Tensor, labels: Tensor, student: Tensor, *, loss: Loss = cross_entropy, temperature: float = 1.0
) -> tuple[Tensor, Tensor]:
    """Per gold row: is the teacher wrong (0/1), and the loss ratio ℓ(teacher, f) / ℓ(y, f), 1 where it is right.

    ℓ is what the student is trained by: ``loss``, of the student's and the teacher's distribution at ``temperature``.
    """
    log_f, target = student.double().clamp(min=torch.finfo(torch.float32).tiny).log(), teacher.double()
    if temperature != 1.0:
        log_f, target = (log_f / temperature).log_softmax(-1), (target.log() / temperature).softmax(-1)
    on_teacher = loss(log_f, target)
    on_truth = loss(log_f, torch.nn.functional.one_hot(labels, student.shape[-1]).double())
    wrong = teacher.argmax(-1) != labels
    ratio = on_teacher / on_truth.clamp(min=LOSS_FLOOR)
    return wrong.double(), torch.where(wrong, ratio, 1.0)


def debias_in_plane(
    gold_plane: Tensor, wrong: Tensor, distortion: Tensor, pool_plane: Tensor, k: int | None = None
) -> Tensor:
    """Debiasing weights ``(N,)`` from (teacher, student) confidences ``(n, 2)`` and ``(N, 2)``."""
    k = neighbour_count(len(gold_plane)) if k is None else k
    if k < 1:
        raise UnderstudyError(f"debiasing averages over k = {k} neighbours; k must be at least 1")
    tables = (pool_plane, gold_plane, torch.stack([wrong, distortion], dim=-1))
    queries, points, responses = (table.double().cpu().numpy() for table in tables)
    return debias(*torch.from_numpy(neighbour_means(queries, points, responses, k)).unbind(-1))


def fidelity(uncertainty: Tensor, beta: float = 1.0) -> Tensor:
    """exp(−β u / mean u): certain labels count more. All-zero uncertainty (hard labels) gives weight 1.

    The mean, not the total, keeps β free of the pool's size.
    """
    mean = uncertainty.double().mean()
    return torch.exp(-beta * uncertainty / mean) if mean > 0 else torch.ones_like(uncertainty)


def normalise(weights: Tensor) -> Tensor:
    """Rectify and scale to mean 1, n · max(w, 0) / Σ; all zero stays all zero (Ren et al., 2018, Algorithm 1)."""
    positive = weights.clamp(min=0)
    total = positive.sum()
    # No branch on the value: it would make an accelerator wait.
    return positive * (len(positive) / torch.where(total > 0, total, 1.0))


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
    from scipy.spatial import cKDTree

    tree = cKDTree(distinct)
    means = np.empty((len(queries), responses.shape[1]))
    for start in range(0, len(queries), _QUERIES):
        distinct_queries, back = np.unique(queries[start : start + _QUERIES], axis=0, return_inverse=True)
        answers = _answers(distinct_queries, tree, counts, sums, k, min(len(distinct), k + 1))
        means[start : start + _QUERIES] = answers[back.reshape(-1)]
    return means


def _answers(queries: Array, tree: "cKDTree", counts: NDArray[np.int64], sums: Array, k: int, width: int) -> Array:
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
    queries: Array, tree: "cKDTree", counts: NDArray[np.int64], sums: Array, k: int, width: int
) -> tuple[Array, NDArray[np.bool_]]:
    distance, index = map(np.asarray, tree.query(queries, k=np.arange(1, width + 1)))
    near = counts[index]
    kth = np.argmax(np.cumsum(near, axis=1) >= k, axis=1)
    radius = np.take_along_axis(distance, kth[:, None], axis=1) * (1 + _TIE)
    inside = distance <= radius
    means = np.einsum("qk,qkr->qr", inside, sums[index]) / (near * inside).sum(1, keepdims=True)
    # The farthest one looked at still ties with the k-th: there may be more.
    return means, inside[:, -1]
