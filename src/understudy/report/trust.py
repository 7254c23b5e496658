"""What gold says about the teacher, as numbers to draw: how often it was right, by how sure it was."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from understudy.data.examples import Gold, Pool
from understudy.labels.forms import Ranking
from understudy.labels.reliability import HardReliability, RankedReliability, Reliability
from understudy.maths.isotonic import StepCurve


@dataclass(frozen=True)
class Trust:
    """``curve`` over ``confidence`` where the teacher gave scores; ``per_class`` where it only named a class."""

    confidence: Tensor
    """Per gold row that measures the teacher: its margin, or the confidence it gave."""
    right: Tensor
    named: Tensor
    """The class it named."""
    classes: int
    measure: str
    """"margin", "confidence" or "class"."""
    lower_bound: float
    curve: StepCurve | None = None
    per_class: Tensor | None = None
    pool_confidence: Tensor | None = None
    class_names: Sequence[str] | None = None

    @property
    def accuracy(self) -> float:
        return float(self.right.double().mean())


def measure_teacher(
    gold: Gold | None,
    pool: Pool | None = None,
    *,
    lower_bound: float = 0.5,
    classes: int | None = None,
    class_names: Sequence[str] | None = None,
) -> Trust | None:
    """None where fewer than two gold rows carry the teacher's word."""
    rows, said = (torch.empty(0), None) if gold is None else gold.estimates()
    if gold is None or said is None or len(rows) < 2:
        return None
    y = gold.y[rows]
    if pool is not None and pool.teacher is not None and not isinstance(pool.teacher.simplest(), Ranking):
        # One teacher: where its pool labels are all one-hot, its few on gold count as hard too.
        said = said.simplest()
    said = said if isinstance(said, Ranking) and isinstance(said.simplest(), Ranking) else said.simplest()
    reliability = Reliability.fit(said, y, lower_bound, classes=classes)
    named = said.top1()
    curve, per_class, measure = None, None, "margin"
    if isinstance(reliability, RankedReliability):
        curve = reliability.curves[0]
    elif isinstance(reliability, HardReliability):
        curve, per_class = reliability.curve, reliability.per_class
        measure = "class" if curve is None else "confidence"
    theirs = None
    if pool is not None and pool.teacher is not None and measure != "class":
        theirs = pool.teacher.take(pool.teacher.labelled().nonzero().squeeze(1)).confidence("margin")
    return Trust(
        confidence=said.confidence("margin"),
        right=named == y,
        named=named,
        classes=reliability.classes,
        measure=measure,
        lower_bound=lower_bound,
        curve=curve,
        per_class=per_class,
        pool_confidence=theirs,
        class_names=class_names,
    )
