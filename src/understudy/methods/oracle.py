"""Oracle: only the pool rows the teacher got right. It needs the truth, so it is a yardstick, not a method to use.

Figure 1 of Weighted Distillation (Iliopoulos et al., NeurIPS 2022) compares plain distillation with a student that saw
only correctly labelled examples: what a perfect filter would gain. Rows whose best class is not the truth get weight
0, the others share the batch's weight: ``n · right / Σ right``, mean 1 over the pool rows of a batch, so that filtering
does not shrink the steps.

    us.train(student, gold, pool, us.oracle(truth=y_pool), epochs=30)
"""

from dataclasses import dataclass, field
from typing import Any, Unpack

from torch import Tensor

from understudy.data.checks import check_labels
from understudy.errors import UnderstudyError
from understudy.maths.weights import normalise
from understudy.method_options import Slots, method
from understudy.methods.vanilla import reweighted
from understudy.objective import Columns, Context, Objective, Step, Weight

__all__ = ["oracle", "oracle_weight"]


@dataclass(frozen=True, eq=False)
class OracleWeight(Weight):
    """The filter as a slot: ``us.slam(weight=us.oracle_weight(y_pool))``."""

    truth: Any = field(default=None, repr=False)
    name: str = field(default="oracle", kw_only=True)

    can_vanish = True
    whole_batch = True

    def prepare(self, context: Context) -> Columns:
        if self.truth is None:
            raise UnderstudyError("oracle needs the pool's true labels: us.oracle(truth=…), one class per pool row")
        truth = context.per_row(check_labels(self.truth, "oracle(truth=…)"), "oracle(truth=…)")
        right = context.teacher.top1().cpu() == truth.cpu()
        context.facts[f"{self.name}.share_right"] = float(right.double().mean())
        return {"right": right.float()}

    def __call__(self, losses: Tensor, step: Step) -> Tensor:
        return normalise(step.columns[f"{self.name}.right"])


oracle_weight = OracleWeight


@method
def oracle(truth: Any = None, **slots: Unpack[Slots]) -> Objective:
    return reweighted("oracle", oracle_weight(truth), slots, noise_free=True)
