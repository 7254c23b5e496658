"""Learning to reweight: each example counts as far as its gradient agrees with gold's (Ren et al., ICML 2018).

Ren et al., "Learning to Reweight Examples for Robust Deep Learning" (ICML 2018), Algorithm 1. In every step, with n
pool rows in the batch and some gold rows drawn,

    uᵢ = ⟨∇ gold loss, ∇ ℓᵢ⟩,        wᵢ = n · max(uᵢ, 0) / Σⱼ max(uⱼ, 0)

which is the paper's meta-gradient at ε = 0 up to a positive factor, taken here as one forward-mode derivative in the
pass that computes the losses anyway (``us.alignment``); any optimizer may follow. A batch whose weights are all zero
makes no step. As in the paper, gold rows only steer; ``train_on_gold=True`` lets them train too.

    us.train(student, us.Gold(x_few, y_few), us.Pool(x, noisy_labels), us.l2rw(), epochs=30)
    us.slam(weight=us.l2rw_weight())                                      # the same weight in another method
"""

from dataclasses import dataclass
from typing import Unpack

from torch import Tensor

from understudy.errors import UnderstudyError
from understudy.maths.weights import normalise
from understudy.methods.vanilla import reweighted
from understudy.objective import Objective, Step, Weight
from understudy.options import Slots, method

__all__ = ["l2rw", "l2rw_weight"]


@dataclass(frozen=True)
class AlignmentWeight(Weight):
    name: str
    alignment_rows: int
    can_vanish = True

    def __call__(self, losses: Tensor, step: Step) -> Tensor:
        if step.alignment is None:
            raise UnderstudyError(f"{self.name} needs step.alignment; score the batch with us.Session")
        return step.own(normalise(step.gather(step.alignment)))


def l2rw_weight(*, gold_rows: int = 128, name: str = "l2rw") -> Weight:
    """The alignment weight as a slot; ``gold_rows`` are drawn for each step (all of them where there are fewer)."""
    if gold_rows < 1:
        raise UnderstudyError(f"l2rw(gold_rows={gold_rows}): at least 1 gold row must steer each step")
    return AlignmentWeight(name, gold_rows)


@method
def l2rw(*, gold_rows: int = 128, train_on_gold: bool = False, hard: bool = False, **slots: Unpack[Slots]) -> Objective:
    weight = l2rw_weight(gold_rows=gold_rows)
    return reweighted("l2rw", weight, slots, hard=hard).replace(gold_trains=train_on_gold)
