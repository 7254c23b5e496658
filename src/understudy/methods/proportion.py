"""Proportion: weigh each example by the inverse frequency of its class (a baseline of Ren et al., ICML 2018).

The plainest answer to imbalance, a baseline of Ren et al. (ICML 2018), 4.1: ``w = N / (classes that occur · rows of the
class)``, mean 1 over the pool, so that every class has the same total weight. Frequencies are those of the
teacher's best classes on the pool.

    us.train(student, gold, us.Pool(x, labels), us.proportion(), epochs=30)
"""

from dataclasses import dataclass, field
from typing import Unpack

import torch
from torch import Tensor

from understudy.method_options import Slots, method
from understudy.methods.vanilla import reweighted
from understudy.objective import Columns, Context, Objective, Weight

__all__ = ["proportion", "proportion_weight"]


def inverse_frequency(labels: Tensor) -> Tensor:
    """One weight per row, mean 1: the classes that occur share the total equally."""
    counts = torch.bincount(labels).double()
    present = int((counts > 0).sum())
    return len(labels) / (present * counts[labels])


@dataclass(frozen=True)
class ProportionWeight(Weight):
    """The weight as a slot."""

    name: str = field(default="proportion", kw_only=True)

    def prepare(self, context: Context) -> Columns:
        weight = inverse_frequency(context.teacher.top1())
        context.facts[f"{self.name}.largest_weight"] = float(weight.max())
        return {"weight": weight.float()}


proportion_weight = ProportionWeight


@method
def proportion(**slots: Unpack[Slots]) -> Objective:
    return reweighted("proportion", proportion_weight(), slots)
