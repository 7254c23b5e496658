"""Learning to reweight: each example counts as far as its gradient agrees with gold's (Ren et al., ICML 2018).

Ren et al., "Learning to Reweight Examples for Robust Deep Learning" (ICML 2018), Algorithm 1. In every step, with n
pool rows in the batch and some gold rows drawn,

    uᵢ = ⟨∇ gold loss, ∇ ℓᵢ⟩,        wᵢ = n · max(uᵢ, 0) / Σⱼ max(uⱼ, 0)

which is the paper's meta-gradient at ε = 0 up to a positive factor, taken here as one forward-mode derivative in the
pass that computes the losses anyway (``us.alignment``); any optimizer may follow. A batch whose weights are all zero
makes no step.

Gold rows steer, augmented as the pool is, and do not train: so does the code that the authors released. Their §3.1 has
them in the training set as well: ``gold_in_pool=True`` puts them among the rows of the batches, weighed together with
the pool's (n counts both). Lemma 1 and Theorem 2 need that (``tests/experiments/theory/test_reweighting.py``).
``train_on_gold=True`` lets them train at full weight instead.

    us.train(student, us.Gold(x_few, y_few), us.Pool(x, noisy_labels), us.l2rw(), epochs=30)
    us.slam(weight=us.l2rw_weight())                                      # the same weight in another method
"""

from dataclasses import dataclass
from typing import Unpack

import torch
from torch import Tensor

from understudy.errors import UnderstudyError
from understudy.maths.weights import normalise
from understudy.method_options import Slots, method
from understudy.methods.vanilla import reweighted
from understudy.objective import Objective, Step, Weight
from understudy.store.option_fields import check_interval

__all__ = ["l2rw", "l2rw_weight"]


@dataclass(frozen=True, kw_only=True)
class AlignmentWeight(Weight):
    """The weight as a slot; ``gold_rows`` are drawn for each step (all of them where there are fewer)."""

    gold_rows: int = 128
    gold_in_pool: bool = False
    name: str = "l2rw"
    can_vanish = True
    whole_batch = True

    def __post_init__(self) -> None:
        check_interval("l2rw", "[1, inf)", gold_rows=self.gold_rows)

    @property
    def alignment_rows(self) -> int:  # type: ignore[override]
        return self.gold_rows

    @property
    def weighs_gold(self) -> bool:  # type: ignore[override]
        return self.gold_in_pool

    def __call__(self, losses: Tensor, step: Step) -> Tensor:
        gold = step.gold_alignment if self.gold_in_pool else losses[:0]
        if step.alignment is None or gold is None:
            raise UnderstudyError(f"{self.name} needs step.alignment; score the batch with us.Session")
        return normalise(torch.cat([gold, step.alignment]))[len(gold) :]

    def gold_weights(self, gold_alignment: Tensor, alignment: Tensor) -> Tensor:
        return normalise(torch.cat([gold_alignment, alignment]))[: len(gold_alignment)]


l2rw_weight = AlignmentWeight


@method
def l2rw(
    *, gold_rows: int = 128, train_on_gold: bool = False, gold_in_pool: bool = False, **slots: Unpack[Slots]
) -> Objective:
    if train_on_gold and gold_in_pool:
        raise UnderstudyError("l2rw: gold rows train fully (train_on_gold) or weighed (gold_in_pool); pass one")
    weight = l2rw_weight(gold_rows=gold_rows, gold_in_pool=gold_in_pool)
    return reweighted("l2rw", weight, slots).replace(gold_trains=train_on_gold or gold_in_pool)
