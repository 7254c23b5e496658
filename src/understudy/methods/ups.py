"""UPS: learn the classes a teacher is sure of, and those it rules out (Rizve et al., ICLR 2021).

Rizve et al., "In Defense of Pseudo-Labeling" (ICLR 2021), as SLaM's paper uses it for a baseline. From m stochastic
teacher passes with mean p and standard deviation u per class, a class is *positive* where p >= τp and u <= κp, and
*negative* where p <= τn and u <= κn. With s selected classes of both kinds on a row, the loss is

    1/s [ Σ_positive −log f  +  Σ_negative −log(1 − f) ]

log(1 − f) not below −100. A row with nothing selected has weight 0 and does not count: the others' weights are
``n · keep / Σ keep``. The paper's net labels its own training rows, round after round; here a teacher does it, once.
``hard=True``: only the best class, where it is positive. One pass (``std=None``): u = 0, and the thresholds on p decide
alone. A temperature divides the student's logits; the selection always reads the labels as they are.

    passes = us.stochastic_passes(teacher, x_pool, passes=10)
    pool = us.Pool(x_pool, passes.mean)
    us.train(student, gold, pool, us.ups(std=passes.std), epochs=30)
"""

from dataclasses import dataclass, field
from typing import Any, Unpack

import torch
from torch import Tensor

from understudy.errors import UnderstudyError, warn
from understudy.maths import losses
from understudy.maths.weights import normalise
from understudy.method_options import TemperedSlots, method, with_weight
from understudy.objective import Columns, Context, Objective, Step, Target, Weight
from understudy.store.option_fields import check_interval

__all__ = ["ups"]

# float32 entries looked at at once while counting: 32 MB.
_BUDGET = 1 << 23


@dataclass(frozen=True, eq=False)
class UpsTarget(Target):
    """+1/s on positive classes, −1/s on negative ones, 0 on the rest."""

    positive_above: float
    negative_below: float
    positive_std: float
    negative_std: float
    hard: bool
    std: Any = field(repr=False)
    name: str = "ups"

    def prepare(self, context: Context) -> Columns:
        rows, classes = len(context.pool), context.classes
        std = None if self.std is None else context.numbers_per_row(self.std, "ups(std=…)", classes).float()
        selected = torch.zeros(rows, dtype=torch.long)
        for part in torch.arange(rows).split(max(1, _BUDGET // classes)):
            signs = self._signs(context.teacher.dense(part, classes).cpu(), None if std is None else std[part])
            selected[part] = signs.count_nonzero(-1)
        context.facts[f"{self.name}.share_selected"] = share = float((selected > 0).double().mean())
        if share == 0:
            warn(f"ups selects no class on any of the {rows} pool rows; lower positive_above or raise the other limits")
        return {"selected": selected} if std is None else {"selected": selected, "std": std}

    def _signs(self, mean: Tensor, std: Tensor | None) -> Tensor:
        """+1 positive, −1 negative, 0 not selected, ``(B, C)``."""
        std = torch.zeros_like(mean) if std is None else std
        positive = (mean >= self.positive_above) & (std <= self.positive_std)
        if self.hard:
            best = torch.zeros_like(positive).scatter_(-1, mean.argmax(-1, keepdim=True), True)
            return (positive & best).to(mean.dtype)
        negative = (mean <= self.negative_below) & (std <= self.negative_std)
        return positive.to(mean.dtype) - negative.to(mean.dtype)

    def __call__(self, step: Step) -> Tensor:
        signs = self._signs(step.teacher, step.columns.get(f"{self.name}.std"))
        return signs / signs.abs().sum(-1, keepdim=True).clamp(min=1)


@dataclass(frozen=True)
class KeepWeight(Weight):
    """0 for rows with nothing selected; the others share the batch's weight."""

    target: str
    name: str = "keep"

    can_vanish = True
    whole_batch = True

    def __call__(self, losses: Tensor, step: Step) -> Tensor:
        selected = (step.columns[f"{self.target}.selected"] > 0).to(losses.dtype)
        return normalise(selected)


@method
def ups(
    std: Any = None,
    *,
    positive_above: float = 0.7,
    negative_below: float = 0.05,
    positive_std: float = 0.05,
    negative_std: float = 0.005,
    **slots: Unpack[TemperedSlots],
) -> Objective:
    """``std``: (N, C), of the teacher's passes. In the paper's symbols, the four limits are τp, τn, κp and κn."""
    if not 0 <= negative_below < positive_above <= 1:
        raise UnderstudyError(f"ups({positive_above=}, {negative_below=}): use 0 <= negative < positive <= 1")
    check_interval("ups", "[0, inf)", positive_std=positive_std, negative_std=negative_std)
    target = UpsTarget(positive_above, negative_below, positive_std, negative_std, slots.get("hard", False), std)
    return Objective(name="ups", target=target, loss=losses.ups, **with_weight(slots, KeepWeight(target.name)))
