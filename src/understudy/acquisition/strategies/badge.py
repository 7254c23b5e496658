"""BADGE (Ash et al. 2020): k-means++ on the last layer's gradient, with the prediction taken as the label.

g = (f − onehot(argmax f)) ⊗ h, with f the class probabilities and h the penultimate features. Large where the
model is unsure, different where features or the confused classes differ. The first pick has the largest norm.
g itself, N × C·d numbers, is never built: `maths/spread.py` works on the two factors.
"""

import torch
from torch import Tensor

from understudy.acquisition.strategy import Arrays, Spread
from understudy.maths.spread import Factored, factored


class Badge(Spread):
    needs = ("probs", "hidden")
    vector = "gradient"

    def vectors(self, arrays: Arrays) -> Factored:
        return factored(arrays["hidden"], left=logit_gradient(arrays["probs"]).to(arrays["hidden"].dtype))


def logit_gradient(probs: Tensor) -> Tensor:
    """f − onehot(argmax f), (N, C): the gradient of −log f_ŷ with respect to the logits."""
    predicted = probs.argmax(1, keepdim=True)
    return probs.scatter_add(1, predicted, -torch.ones_like(probs[:, :1]).expand_as(predicted))


badge = Badge()
