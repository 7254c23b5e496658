"""Weighted Distillation: weigh each pool example so that its noisy loss is unbiased for the clean one.

Iliopoulos et al., "Weighted Distillation with Unlabeled Examples" (NeurIPS 2022), Algorithms 1 and 2. The weight is
``min(1, 1 / (1 + p (distortion − 1)))``; p and the distortion are means over the ⌈√|V| / 2⌉ gold rows nearest in the
plane of (teacher confidence, student confidence). Gold rows may be trained on as well (Remark 2.1). Decided here: the loss on
the true label is floored at 1e-3, ties with the last neighbour are all included, and the weights are computed once
before training unless ``refresh_every`` is set. Pretrain the student (``us.train(..., pretrain_epochs=…)``): the
weights read its confidence.

    us.train(student, gold, pool, us.weighted(refresh_every=5), epochs=30, pretrain_epochs=10)
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from understudy.errors import UnderstudyError
from understudy.maths.losses import cross_entropy
from understudy.maths.weights import CONFIDENCES, debias_in_plane, distortion_of
from understudy.types import Columns, Context, Loss, Objective, Step, TeacherTarget, Weight

__all__ = ["debias_weight", "weighted"]


@dataclass(frozen=True)
class DebiasWeight(Weight):
    confidence: str
    k: int | None
    hard: bool
    name: str

    def prepare(self, context: Context) -> Columns:
        gold, said = context.estimates
        measure = CONFIDENCES[self.confidence]
        labels = said.dense(torch.arange(len(said)), context.classes)
        if self.hard:
            labels = torch.zeros_like(labels).scatter_(1, labels.argmax(1, keepdim=True), 1.0)
        wrong, distortion = distortion_of(labels, gold.y, context.student_on_estimates)
        gold_plane = torch.stack([said.confidence(self.confidence), measure(context.student_on_estimates)], dim=1)
        pool_plane = torch.stack([context.teacher.confidence(self.confidence), measure(context.student_on_pool)], dim=1)
        weight = debias_in_plane(gold_plane, wrong, distortion, pool_plane, self.k)
        context.facts[f"{self.name}.mean_weight"] = float(weight.mean())
        return {"weight": weight.float()}

    def __call__(self, losses: Tensor, step: Step) -> Tensor:
        return step.columns[f"{self.name}.weight"]


def debias_weight(
    *, confidence: str = "entropy", k: int | None = None, hard: bool = False, name: str = "debias"
) -> Weight:
    """The debiasing weight as a slot, to combine with any method: ``us.vanilla(weight=us.debias_weight())``."""
    if confidence not in CONFIDENCES:
        raise UnderstudyError(f"confidence={confidence!r} is unknown; use one of {', '.join(CONFIDENCES)}")
    if k is not None and k < 1:
        raise UnderstudyError(f"k={k}: at least 1 neighbour is needed")
    return DebiasWeight(confidence, k, hard, name)


def weighted(
    *,
    confidence: str = "entropy",
    refresh_every: int | None = None,
    k: int | None = None,
    hard: bool = False,
    loss: Loss = cross_entropy,
    weight: Weight | None = None,
    temperature: float | tuple[float, float] = 1.0,
    temperature_scale: bool | None = None,
) -> Objective:
    debiasing = debias_weight(confidence=confidence, k=k, hard=hard)
    return Objective(
        name="weighted",
        target=TeacherTarget(hard=hard),
        loss=loss,
        weight=debiasing if weight is None else debiasing * weight,
        temperature=temperature,
        temperature_scale=temperature_scale,
        refresh_every=refresh_every,
        traits=frozenset({"noise_free_is_vanilla", "perfect_is_minimal"}),
    )
