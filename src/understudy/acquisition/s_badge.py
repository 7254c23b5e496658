"""S-Badge: BADGE with each gradient scaled by how far the model still is from its own moving average.

g = mean_j |h_ema,j − h_j| · (f − onehot(argmax f)) ⊗ h. Where labels are pure noise the features soon stop
moving, the two models agree, and the row is hardly ever picked; on a row that can still be learnt they
differ. h_ema are the features of the parameters' moving average (`understudy.training.ema.EMA`), for the same rows.
"""

import torch
from torch import Tensor

from understudy.acquisition.badge import logit_gradient
from understudy.maths.spread.spread import factored, kmeans_plus_plus


def s_badge(
    n: int,
    *,
    probs: Tensor,
    hidden: Tensor,
    hidden_ema: Tensor,
    available: Tensor,
    generator: torch.Generator,
) -> Tensor:
    scale = mean_absolute_difference(hidden_ema, hidden)
    left = logit_gradient(probs).to(hidden.dtype).mul_(scale[:, None])
    return kmeans_plus_plus(factored(hidden, left=left), n, available=available, generator=generator)


def mean_absolute_difference(x: Tensor, y: Tensor) -> Tensor:
    """mean_j |x_j − y_j|, (N,), 4,096 rows at a time: a whole difference would be another (N, d)."""
    parts = [(a - b).abs_().mean(1) for a, b in zip(torch.split(x, 4096), torch.split(y, 4096), strict=True)]
    return torch.cat(parts).to(y.dtype)
