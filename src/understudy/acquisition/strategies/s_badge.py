"""S-Badge: BADGE with each gradient scaled by how far the model still is from its own moving average.

g = mean_j |h_ema,j − h_j| · (f − onehot(argmax f)) ⊗ h. Where labels are pure noise the features soon stop
moving, the two models agree, and the row is hardly ever picked; on a row that can still be learnt they
differ. h_ema are the features of the parameters' moving average (`us.EMA`), for the same rows.
"""

import torch
from torch import Tensor

from understudy.acquisition.strategies.badge import logit_gradient
from understudy.acquisition.strategy import Arrays, Spread
from understudy.maths.spread import Factored, factored


class SBadge(Spread):
    needs = ("probs", "hidden", "hidden_ema")
    vector = "scaled gradient"

    def vectors(self, arrays: Arrays) -> Factored:
        scale = mean_absolute_difference(arrays["hidden_ema"], arrays["hidden"])
        left = logit_gradient(arrays["probs"]).to(scale.dtype).mul_(scale[:, None])
        return factored(arrays["hidden"], left=left)

    def notes(self, arrays: Arrays) -> list[str]:
        scale = mean_absolute_difference(arrays["hidden_ema"], arrays["hidden"])
        return [f"features {number:.2g} off their average, " for number in scale.tolist()]


def mean_absolute_difference(x: Tensor, y: Tensor) -> Tensor:
    """mean_j |x_j − y_j|, (N,), 4,096 rows at a time: a whole difference would be another (N, d)."""
    parts = [(a - b).abs_().mean(1) for a, b in zip(torch.split(x, 4096), torch.split(y, 4096), strict=True)]
    return torch.cat(parts).to(y.dtype)


s_badge = SBadge()
