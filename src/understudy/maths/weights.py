"""Example weights: debiasing (Weighted Distillation), fidelity, and how weights are scaled.

Weighted Distillation (Iliopoulos et al., NeurIPS 2022, Equation 4) weighs a pool example by

    w(x) = min(1, 1 / (1 + p(x) (distortion(x) − 1)))

where p(x) is the chance that the teacher is wrong and distortion(x) the ratio of the loss on the teacher's label to
the loss on the true one. Both are means over the nearest gold rows in the plane of (teacher, student) confidence.
Here the weights are clipped and never differentiated; the paper's Appendix E, which differentiates through smooth
weights, is in ``understudy.theory``.
"""

import torch
from torch import Tensor

from understudy.errors import UnderstudyError
from understudy.maths.losses import cross_entropy
from understudy.maths.neighbours import neighbour_count, neighbour_means

# A student that has fitted the gold rows would make the distortion infinite.
LOSS_FLOOR = 1e-3


def debias(wrong: Tensor, distortion: Tensor) -> Tensor:
    """min(1, 1 / (1 + p (d − 1))); 1 where the denominator vanishes (p = 1 and d = 0)."""
    denominator = 1 + wrong * (distortion - 1)
    return torch.where(denominator > 0, 1 / denominator.clamp(min=torch.finfo(denominator.dtype).tiny), 1.0).clamp(
        max=1.0
    )


def distortion_of(teacher: Tensor, labels: Tensor, student: Tensor) -> tuple[Tensor, Tensor]:
    """Per gold row: is the teacher wrong (0/1), and the loss ratio ℓ(teacher, f) / ℓ(y, f), 1 where it is right."""
    log_f = student.double().clamp(min=torch.finfo(torch.float32).tiny).log()
    on_teacher = cross_entropy(log_f, teacher.double())
    on_truth = -log_f.gather(-1, labels.unsqueeze(-1)).squeeze(-1)
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
