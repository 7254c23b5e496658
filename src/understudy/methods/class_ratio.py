"""Class ratio: weigh each example by the share of clean labels in its class (a baseline of Ren et al., ICML 2018).

A baseline of Ren et al. (ICML 2018), 4.2, made for background flips, where one class holds most of the wrong labels:
``w ∝ P(truth = c | label = c)``, scaled to mean 1 over the pool. The paper gives the shares as an oracle
(``clean_share``, one number per class); without it they are estimated on gold, which then must hold rows that the
teacher labelled with each class.

    us.train(student, None, us.Pool(x, labels), us.class_ratio(clean_share=[0.2, 1, 1, 1]), epochs=30)
"""

from dataclasses import dataclass
from typing import Any, Unpack

import torch
from torch import Tensor

from understudy.data.checks import to_tensor
from understudy.errors import UnderstudyError
from understudy.method_options import Slots, method
from understudy.methods.vanilla import reweighted
from understudy.objective import Columns, Context, Objective, Weight

__all__ = ["class_ratio", "class_ratio_weight"]


@dataclass(frozen=True, eq=False, kw_only=True)
class ClassRatioWeight(Weight):
    """The weight as a slot."""

    clean_share: Any = None
    name: str = "class_ratio"
    can_vanish = True

    def prepare(self, context: Context) -> Columns:
        labels = context.teacher.top1()
        share = self._on_gold(context, labels) if self.clean_share is None else self._given(context.classes)
        weight = share[labels]
        if not float(weight.sum()) > 0:
            raise UnderstudyError("class_ratio: the clean share of every class in the pool is 0; nothing would count")
        return {"weight": (weight / weight.mean()).float()}

    def _given(self, classes: int) -> Tensor:
        share = to_tensor(self.clean_share, "class_ratio(clean_share=…)").double()
        if share.shape != (classes,) or bool(((share < 0) | (share > 1)).any()):
            wanted = f"must hold {classes} numbers in [0, 1], each class's share of right labels"
            raise UnderstudyError(f"class_ratio(clean_share=…) {wanted} (got shape {tuple(share.shape)})")
        return share

    def _on_gold(self, context: Context, labels: Tensor) -> Tensor:
        gold, teacher = context.calibration
        answers = teacher.top1()
        named = torch.bincount(answers, minlength=context.classes)
        used = torch.bincount(labels, minlength=context.classes) > 0
        missing = (used & (named == 0)).nonzero().squeeze(1).tolist()
        if missing:
            raise UnderstudyError(f"the teacher named no gold row class {missing[0]}; add gold, or pass clean_share=")
        right = torch.bincount(answers, weights=(answers == gold.y).double(), minlength=context.classes)
        return right / named.clamp(min=1)


class_ratio_weight = ClassRatioWeight


@method
def class_ratio(clean_share: Any = None, **slots: Unpack[Slots]) -> Objective:
    return reweighted("class_ratio", class_ratio_weight(clean_share=clean_share), slots, noise_free=True)
