"""Confident: keep only the labels the teacher is surest of. What people do today, and so a baseline for the rest.

Of N pool rows exactly ``round(share · N)`` (at least one) are kept, by the teacher's margin or entropy; ties go to the
earlier row, so the count is exact and the choice repeatable. The rest get weight 0, the kept ones share the batch's
weight: ``n · kept / Σ kept``, mean 1 over the pool rows of a batch.

Hard labels are ranked by the confidence that came with them. Without one (or where all confidences are the same) there
is nothing to rank by, which is an error.

    us.train(student, gold, pool, us.confident(share=0.5, measure="entropy"), epochs=30)
"""

from dataclasses import dataclass, field
from typing import Unpack

import torch
from torch import Tensor

from understudy.errors import UnderstudyError
from understudy.maths.confidence import MEASURES
from understudy.maths.weights import normalise
from understudy.method_options import Slots, method
from understudy.methods.vanilla import reweighted
from understudy.objective import Columns, Context, Objective, Step, Weight
from understudy.store.option_fields import check_interval

__all__ = ["confident", "confident_weight"]


@dataclass(frozen=True)
class ConfidentWeight(Weight):
    """The filter as a slot: ``us.slam(weight=us.confident_weight(0.8))``."""

    share: float = 0.5
    measure: str = "margin"
    name: str = field(default="confident", kw_only=True)

    can_vanish = True
    whole_batch = True

    def __post_init__(self) -> None:
        check_interval("confident", "(0, 1]", share=self.share)
        if self.measure not in MEASURES:
            raise UnderstudyError(f"confident(measure={self.measure!r}) is unknown; use one of {', '.join(MEASURES)}")

    def prepare(self, context: Context) -> Columns:
        confidence = context.teacher.confidence(self.measure)
        if self.measure == "entropy":
            confidence = -confidence
        count = max(1, round(self.share * len(confidence)))
        alike = count < len(confidence) and bool((confidence == confidence[0]).all())
        if alike or not context.teacher.simplest().has_confidence:
            raise UnderstudyError("confident: all pool labels are equally sure; pass us.Hard(labels, confidence)")
        order = confidence.argsort(descending=True, stable=True)
        kept = torch.zeros(len(confidence)).index_fill_(0, order[:count].cpu(), 1.0)
        context.facts[f"{self.name}.kept_rows"] = count
        return {"kept": kept}

    def __call__(self, losses: Tensor, step: Step) -> Tensor:
        return normalise(step.columns[f"{self.name}.kept"])


confident_weight = ConfidentWeight


@method
def confident(share: float = 0.5, measure: str = "margin", **slots: Unpack[Slots]) -> Objective:
    return reweighted("confident", confident_weight(share, measure), slots)
