"""Random weights: the control for reweighting, with mean 1 in each batch (a baseline of Ren et al., ICML 2018).

Ren et al. (ICML 2018), Equation 16: ``wᵢ = n · max(zᵢ, 0) / Σⱼ max(zⱼ, 0)`` with zᵢ standard normal. What a learned
weighting gains over this is not owed to the mere randomness of its weights. A weight depends on the seed, the row and
the epoch alone, so a training repeats bit by bit and the order within a batch does not matter.

    us.train(student, None, us.Pool(x, labels), us.random_weights(), epochs=30)
"""

from dataclasses import dataclass, field
from typing import Unpack

import torch
from torch import Tensor

from understudy.maths.random_order import random_keys, shifted
from understudy.maths.weights import normalise
from understudy.method_options import Slots, method
from understudy.methods.vanilla import reweighted
from understudy.objective import Columns, Context, Objective, Step, Weight

__all__ = ["random_weight", "random_weights"]


def gaussian(key: Tensor, epoch: int) -> Tensor:
    """A standard normal number for each key (int64) and epoch, float64."""
    # The upper 52 bits as a number strictly between 0 and 1.
    z: Tensor = torch.special.ndtri((shifted(random_keys(key, epoch), 12).double() + 0.5) / (1 << 52))
    return z


@dataclass(frozen=True)
class RandomWeight(Weight):
    """The weight as a slot."""

    name: str = field(default="random", kw_only=True)
    can_vanish = True
    whole_batch = True

    def prepare(self, context: Context) -> Columns:
        draw = torch.Generator().manual_seed(context.seed)
        return {"key": torch.randint(1 << 62, (len(context.pool),), generator=draw)}

    def __call__(self, losses: Tensor, step: Step) -> Tensor:
        return normalise(gaussian(step.columns[f"{self.name}.key"], step.epoch).to(losses.dtype))


random_weight = RandomWeight


@method
def random_weights(**slots: Unpack[Slots]) -> Objective:
    return reweighted("random_weights", random_weight(), slots)
