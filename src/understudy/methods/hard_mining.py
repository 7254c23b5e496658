"""Hard mining: of the frequent classes, train only on the hardest rows (a baseline of Ren et al., ICML 2018).

A baseline of Ren et al. (ICML 2018), 4.1: in each batch all m rows of the rare classes count, and of the others the m
with the highest loss; the rest has weight 0. The kept rows are scaled to mean 1 over the batch (their plain mean). The
paper has two classes; with more, a class is rare where it has fewer rows than the average class. A batch without rare
rows makes no step; where no class is rare there is nothing to mine and every row counts.

    us.train(student, gold, us.Pool(x, labels), us.hard_mining(), epochs=30)
"""

from dataclasses import dataclass, field
from typing import Unpack

import torch
from torch import Tensor

from understudy.maths.weights import normalise
from understudy.method_options import Slots, method, with_weight
from understudy.objective import Columns, Context, Objective, Step, Weight

__all__ = ["hard_mining", "hard_mining_weight"]


def mined(losses: Tensor, rare: Tensor) -> Tensor:
    """0/1: the rare rows, and as many of the others, those of the highest losses; ties: the earlier row."""
    ranked = losses.masked_fill(rare, -torch.inf).argsort(descending=True, stable=True)
    rank = torch.empty_like(ranked).scatter_(0, ranked, torch.arange(len(ranked), device=ranked.device))
    return (rare | (rank < rare.sum())).to(losses.dtype)


@dataclass(frozen=True)
class HardMiningWeight(Weight):
    """The weight as a slot."""

    name: str = field(default="hard_mining", kw_only=True)
    can_vanish = True
    whole_batch = True

    def prepare(self, context: Context) -> Columns:
        labels = context.teacher.top1()
        counts = torch.bincount(labels, minlength=context.classes)
        average = len(labels) / int((counts > 0).sum())
        rare = (counts < average)[labels]
        # Where all classes are as frequent, all rows count as rare: none is dropped.
        return {"rare": rare if bool(rare.any()) else torch.ones_like(rare)}

    def __call__(self, losses: Tensor, step: Step) -> Tensor:
        return normalise(mined(losses, step.columns[f"{self.name}.rare"]))


hard_mining_weight = HardMiningWeight


@method
def hard_mining(**slots: Unpack[Slots]) -> Objective:
    return Objective(name="hard_mining", **with_weight(slots, hard_mining_weight()))
