"""Generalised cross-entropy: more robust to label noise than cross-entropy (Zhang & Sabuncu, NeurIPS 2018).

Zhang & Sabuncu, "Generalized Cross Entropy Loss for Training Deep Neural Networks with Noisy Labels" (NeurIPS 2018),
``(1 − f_y^g) / g``: cross-entropy as g → 0, mean absolute error at g = 1. ``truncated=True`` is their second form,
where a row with f_y ≤ threshold has a constant loss and so no gradient. Taken literally from the first step it would
never start (with ten classes every f_y is near 0.1), hence the paper trains without it for a third of the epochs; so
does ``warmup``. Written as a weight, 0 or 1 by the student's f_y: the gradient is the same, and gold rows are never
truncated.

    us.train(student, None, us.Pool(x, noisy_labels), us.gce(g=0.7, truncated=True), epochs=30)
    us.slam(loss=us.gce_loss(0.7))
"""

from dataclasses import dataclass
from functools import partial
from typing import Unpack

from torch import Tensor

from understudy.maths import losses
from understudy.method_options import TemperedSlots, method, with_weight
from understudy.objective import Loss, Objective, Step, Weight
from understudy.store.option_fields import check_interval

__all__ = ["gce", "gce_loss", "truncation_weight"]


@dataclass(frozen=True, kw_only=True)
class TruncationWeight(Weight):
    """0 where the student gives the label at most ``threshold``, from ``warmup`` (a share of training) on; else 1."""

    threshold: float = 0.5
    warmup: float = 1 / 3
    name: str = "truncation"
    can_vanish = True

    def __post_init__(self) -> None:
        check_interval("gce", "[0, 1)", threshold=self.threshold)
        check_interval("gce", "[0, 1]", warmup=self.warmup)

    @property
    def wants_progress(self) -> bool:
        return self.warmup > 0

    def __call__(self, losses: Tensor, step: Step) -> Tensor:
        f = (step.outputs.logits.detach() / step.temperature).softmax(-1)
        on_label = f.gather(-1, step.teacher.argmax(-1, keepdim=True)).squeeze(-1)
        return ((on_label > self.threshold) | (step.progress < self.warmup)).to(losses.dtype)


def gce_loss(g: float = 0.7) -> Loss:
    """The loss as a slot."""
    check_interval("gce", "(0, 1]", g=g)
    return partial(losses.gce, g=g)


truncation_weight = TruncationWeight


@method
def gce(
    g: float = 0.7,
    truncated: bool = False,
    threshold: float = 0.5,
    *,
    warmup: float = 1 / 3,
    **slots: Unpack[TemperedSlots],
) -> Objective:
    if truncated:
        slots = with_weight(slots, truncation_weight(threshold=threshold, warmup=warmup))
    return Objective(name="gce", loss=gce_loss(g), **slots)
