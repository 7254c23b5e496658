"""LHD, a later variant of S-Badge: k-means++ on the hidden-state difference, scaled by the loss difference.

v = |ℓ_ema − ℓ| · (h_ema − h), both losses being cross-entropies on the moving average's pseudo-label ŷ =
argmax f_ema: ℓ = −log f_ŷ, ℓ_ema = −log f_ema,ŷ. Probabilities of 0 count as the smallest normal number of
their type (a loss of 87 in float32): an infinite loss would leave nothing to compare.
"""

import torch
from torch import Tensor

from understudy.maths.spread.spread import factored, kmeans_plus_plus


def lhd(
    n: int,
    *,
    probs: Tensor,
    probs_ema: Tensor,
    hidden: Tensor,
    hidden_ema: Tensor,
    available: Tensor,
    generator: torch.Generator,
) -> Tensor:
    scale = loss_difference(probs, probs_ema).to(hidden.dtype)
    difference = (hidden_ema - hidden).to(hidden.dtype)
    rows = factored(difference, left=scale[:, None])
    return kmeans_plus_plus(rows, n, available=available, generator=generator)


def loss_difference(probs: Tensor, probs_ema: Tensor) -> Tensor:
    """|ℓ_ema − ℓ| on the moving average's pseudo-labels, (N,)."""
    pseudo_label = probs_ema.argmax(1, keepdim=True)
    return (_loss(probs_ema, pseudo_label) - _loss(probs, pseudo_label)).abs()


def _loss(probs: Tensor, label: Tensor) -> Tensor:
    return -probs.gather(1, label).squeeze(1).clamp_min(torch.finfo(probs.dtype).tiny).log()
