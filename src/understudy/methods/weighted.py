"""Weighted Distillation: weights that make the noisy loss unbiased for the clean one (Iliopoulos et al., NeurIPS 2022).

Iliopoulos et al., "Weighted Distillation with Unlabeled Examples" (NeurIPS 2022), Algorithms 1 and 2. The weight is
``min(1, 1 / (1 + p (distortion − 1)))``; p and the distortion are means over the ⌈√|V| / 2⌉ gold rows nearest in the
plane of (teacher confidence, student confidence). The distortion is of the loss that the student is trained by, at its
temperature; a link (SLaM's) is not part of it. Decided here: the loss on the true label is floored at 1e-3, ties with
the last neighbour are all included, and the weights are computed once before training unless ``refresh_every`` is set.

Pretrain the student (``us.train(..., pretrain_epochs=…)``): the weights read its confidence. Algorithm 1 pretrains it
on rows other than those that estimate: mark these (``us.Gold(..., estimate_only=True)``). Gold that trains as well
(Remark 2.1) is predicted by copies of the student pretrained without it (cross-fitting, four more pretrainings in all);
at a refresh, when all gold has been trained on for a while, the student itself predicts it.

    us.train(student, gold, pool, us.weighted(refresh_every=5), epochs=30, pretrain_epochs=10)
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Unpack

import torch
from torch import Tensor

from understudy.data.checks import CHUNK, check_labels, check_length, check_probabilities, to_tensor
from understudy.data.rows import SubsetRows
from understudy.errors import UnderstudyError
from understudy.maths.confidence import MEASURES
from understudy.maths.losses import cross_entropy
from understudy.maths.mixing import best_class
from understudy.maths.weights import debias_in_plane, distortion_of
from understudy.method_options import Slots, method
from understudy.methods.vanilla import reweighted
from understudy.objective import Columns, Context, Loss, Objective, Weight
from understudy.store.option_fields import check_interval

__all__ = ["debias_weight", "debias_weights", "given_weight", "weighted"]


@dataclass(frozen=True, kw_only=True)
class DebiasWeight(Weight):
    """The debiasing weight as a slot, to combine with any method: ``us.vanilla(weight=us.debias_weight())``."""

    confidence: str = "entropy"
    k: int | None = None
    hard: bool = False
    name: str = "debias"
    predicts_gold = True

    def __post_init__(self) -> None:
        _measure(self.confidence)
        check_interval("weighted", "[1, inf)", k=1 if self.k is None else self.k)

    def prepare(self, context: Context) -> Columns:
        gold, teacher = context.calibration
        measure = MEASURES[self.confidence]
        labels = teacher.dense(torch.arange(len(teacher)), context.classes)
        labels = best_class(labels) if self.hard else labels
        student = context.student_on_calibration
        wrong, distortion = distortion_of(labels, gold.y, student, loss=context.loss, temperature=context.temperature)
        gold_plane = torch.stack([teacher.confidence(self.confidence), measure(student)], dim=1)
        pool_plane = torch.stack([context.teacher.confidence(self.confidence), _on_pool(measure, context)], dim=1)
        weight = debias_in_plane(gold_plane, wrong, distortion, pool_plane, self.k)
        context.facts[f"{self.name}.mean_weight"] = float(weight.mean())
        return {"weight": weight.float()}


def _on_pool(measure: Callable[[Tensor], Tensor], context: Context) -> Tensor:
    """The student's confidence per pool row, ``(N,)``, without holding its predictions for all of them."""
    rows = context.pool.rows
    chunks = (torch.arange(start, min(start + CHUNK, len(rows))) for start in range(0, len(rows), CHUNK))
    return torch.cat([measure(context.predict(SubsetRows(rows, chunk))) for chunk in chunks])


debias_weight = DebiasWeight


@dataclass(frozen=True, eq=False)
class GivenWeight(Weight):
    """Weights that are known already, one per row of the pool as it was passed, for any method's ``weight=``.

    ``us.vanilla(weight=us.given_weight(w))``: what ``us.debias_weights`` returned, or a column of an earlier run. Rows
    without a teacher label are left out of training, and so is their weight (it may be NaN).
    """

    weights: Any = field(repr=False)
    name: str = field(default="given", kw_only=True)
    can_vanish = True

    def prepare(self, context: Context) -> Columns:
        weights = context.numbers_per_row(self.weights, "given_weight(…)")
        if not bool((weights > 0).any()):
            raise UnderstudyError("given_weight(…) is 0 on every row with a label, so the pool would teach nothing")
        return {"weight": weights.float()}


given_weight = GivenWeight


@method
def weighted(
    *, confidence: str = "entropy", refresh_every: int | None = None, k: int | None = None, **slots: Unpack[Slots]
) -> Objective:
    weight = debias_weight(confidence=confidence, k=k, hard=slots.get("hard", False))
    return reweighted("weighted", weight, slots, noise_free=True).replace(refresh_every=refresh_every)


def debias_weights(
    teacher_gold: Any, y_gold: Any, student_gold: Any, teacher_pool: Any, student_pool: Any,
    confidence: str = "entropy", k: int | None = None, *, loss: Loss = cross_entropy, temperature: float = 1.0,
) -> Tensor:  # fmt: skip
    """Weights ``(N,)`` for pool rows from class probabilities ``(n, C)`` of teacher and student on gold and pool.

    ``loss`` and ``temperature``: what the student will be trained by (``us.taylor_loss(2)``). Give the student's
    probabilities on gold rows that it was not fitted to.
    """
    measure = _measure(confidence)
    names = ("teacher_gold", "student_gold", "teacher_pool", "student_pool")
    given = (teacher_gold, student_gold, teacher_pool, student_pool)
    probs = {name: to_tensor(values, name) for name, values in zip(names, given, strict=True)}
    classes = len(probs["teacher_gold"].t())
    for name, table in probs.items():
        check_probabilities(table, name)
        check_length(table.shape[1], classes, f"{name} (classes)", "teacher_gold (classes)")
    y = check_labels(y_gold, "y_gold")
    check_length(len(y), len(probs["teacher_gold"]), "y_gold", "teacher_gold")
    check_length(len(probs["student_gold"]), len(y), "student_gold", "teacher_gold")
    check_length(len(probs["student_pool"]), len(probs["teacher_pool"]), "student_pool", "teacher_pool")
    if not len(y):
        raise UnderstudyError("y_gold is empty; at least one gold row is needed")
    if int(y.max()) >= classes:
        raise UnderstudyError(f"y_gold row {int(y.argmax())} is {int(y.max())}; classes run from 0 to {classes - 1}")
    check_interval("debias_weights", "(0, inf)", temperature=temperature)
    teacher, student = probs["teacher_gold"], probs["student_gold"]
    wrong, distortion = distortion_of(teacher, y, student, loss=loss, temperature=temperature)
    gold_plane = torch.stack([measure(teacher), measure(student)], dim=-1)
    pool_plane = torch.stack([measure(probs["teacher_pool"]), measure(probs["student_pool"])], dim=-1)
    return debias_in_plane(gold_plane, wrong, distortion, pool_plane, k)


def _measure(confidence: str) -> Callable[[Tensor], Tensor]:
    if confidence not in MEASURES:
        raise UnderstudyError(f"confidence={confidence!r} is unknown; use one of {', '.join(MEASURES)}")
    return MEASURES[confidence]
