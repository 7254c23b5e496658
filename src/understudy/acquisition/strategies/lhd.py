"""LHD, a later variant of S-Badge: k-means++ on the hidden-state difference, scaled by the loss difference.

v = |ℓ_ema − ℓ| · (h_ema − h), both losses being cross-entropies on the moving average's pseudo-label ŷ =
argmax f_ema: ℓ = −log f_ŷ, ℓ_ema = −log f_ema,ŷ. Probabilities of 0 count as the smallest normal number of
their type (a loss of 87 in float32): an infinite loss would leave nothing to compare.
"""

import torch
from torch import Tensor

from understudy.acquisition.strategy import Arrays, Spread
from understudy.maths.spread import Factored, factored


class Lhd(Spread):
    needs = ("probs", "probs_ema", "hidden", "hidden_ema")
    vector = "scaled difference"

    def vectors(self, arrays: Arrays) -> Factored:
        hidden = arrays["hidden"]
        scale = loss_difference(arrays["probs"], arrays["probs_ema"]).to(hidden.dtype)
        return factored((arrays["hidden_ema"] - hidden).to(hidden.dtype), left=scale[:, None])

    def notes(self, arrays: Arrays) -> list[str]:
        scale = loss_difference(arrays["probs"], arrays["probs_ema"])
        return [f"loss {number:.2g} off its average, " for number in scale.tolist()]


def loss_difference(probs: Tensor, probs_ema: Tensor) -> Tensor:
    """|ℓ_ema − ℓ| on the moving average's pseudo-labels, (N,)."""
    pseudo_label = probs_ema.argmax(1, keepdim=True)
    return (_loss(probs_ema, pseudo_label) - _loss(probs, pseudo_label)).abs()


def _loss(probs: Tensor, label: Tensor) -> Tensor:
    return -probs.gather(1, label).squeeze(1).clamp_min(torch.finfo(probs.dtype).tiny).log()


lhd = Lhd()
