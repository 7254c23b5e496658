"""Resample: draw class-balanced batches instead of weighing the loss (a baseline of Ren et al., ICML 2018).

A baseline of Ren et al. (ICML 2018), 4.1. Pool rows are drawn with replacement in proportion to the inverse frequency
of the teacher's best class, so that each class fills the same share of a batch on average (the paper's batches are
exactly balanced). An epoch still has as many draws as the pool has rows; rare rows come up many times in it.

    us.train(student, gold, us.Pool(x, labels), us.resample(), epochs=30)
"""

from dataclasses import dataclass, field
from typing import Unpack

import torch
from torch import Tensor

from understudy.method_options import Slots, method
from understudy.methods.proportion import inverse_frequency
from understudy.methods.vanilla import reweighted
from understudy.objective import Columns, Context, Objective, Step, Weight

__all__ = ["balanced_sampling", "resample"]


@dataclass(frozen=True)
class BalancedSampling(Weight):
    """Class-balanced drawing as a slot, to combine with any method. Weighs nothing: its column says how to draw."""

    name: str = field(default="resample", kw_only=True)

    def prepare(self, context: Context) -> Columns:
        return {"sampling": inverse_frequency(context.teacher.top1()).float()}

    def __call__(self, losses: Tensor, step: Step) -> Tensor:
        return torch.ones_like(losses)


balanced_sampling = BalancedSampling


@method
def resample(**slots: Unpack[Slots]) -> Objective:
    return reweighted("resample", balanced_sampling(), slots)
