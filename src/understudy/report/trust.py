"""What gold says about the teacher, as numbers to draw: how often it was right, by how sure it was."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from understudy.data.examples import Gold, Pool
from understudy.labels.reliability import Reliability


@dataclass(frozen=True)
class Trust:
    """What was estimated, and the gold rows it comes from."""

    estimate: Reliability
    confidence: Tensor
    """Per gold row that measures the teacher: what alpha depends on, its margin, say, or the confidence it gave."""
    right: Tensor
    named: Tensor
    """The class it named."""
    pool_confidence: Tensor | None = None
    class_names: Sequence[str] | None = None

    @property
    def accuracy(self) -> float:
        return float(self.right.double().mean())


def measure_teacher(
    gold: Gold | None,
    pool: Pool | None = None,
    *,
    reliability: Reliability | None = None,
    lower_bound: float = 0.5,
    classes: int | None = None,
    class_names: Sequence[str] | None = None,
) -> Trust | None:
    """None where fewer than two gold rows carry the teacher's word.

    ``reliability``: the estimate a training used (``run.fits``); without one, it is fitted as ``us.slam()`` does.
    """
    rows, labels = (torch.empty(0), None) if gold is None else gold.estimates()
    if gold is None or labels is None or len(rows) < 2:
        return None
    y, named = gold.y[rows], labels.top1()
    trust = reliability or Reliability.fit(labels, y, lower_bound, classes=classes)
    on_pool, theirs = None, None if pool is None else pool.teacher
    if theirs is not None and theirs.form == labels.form and trust.alpha_steps is not None:
        on_pool = trust.covariate_of(theirs.take(theirs.labelled().nonzero().squeeze(1)))
    return Trust(trust, trust.covariate_of(labels), named == y, named, on_pool, class_names)
