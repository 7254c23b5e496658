"""The rows that a run is measured on: what its students say of rows that they were not trained on, the truth, and the
teacher's labels. Student and teacher are combined on these, and ``us.defer`` chooses its threshold by them.

    rows = HeldOutRows.of(logits, gold, temperature, pool=reconciled_counts(reconciled.teacher, pool.teacher, classes))
    rows.combination, rows.combined                  # None where gold does not say that it helps; q (n, C)
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import nll_loss

from understudy.data.checks import CHUNK
from understudy.data.examples import Gold
from understudy.inference.cascade import Combination
from understudy.inference.combination import fit_combination
from understudy.labels.base import Labels
from understudy.maths.proportions import Share, exact
from understudy.maths.temperature import cross_tempered

# Of rows with a teacher's label, to fit two weights, biases and confusions on.
LEAST_ROWS = 20


@dataclass(frozen=True, eq=False)
class HeldOutRows:
    #: The student's probabilities ``(n, C)``, at the run's temperature.
    probs: Tensor
    y: Tensor
    #: Labels ``(n,)``, −1: none; or probabilities ``(n, C)``, NaN; None without a teacher, or with several annotators.
    teacher: Tensor | None = None
    #: q ``(n, C)``, each row by a combination fitted without it; the student's where there is no teacher's label.
    combined: Tensor | None = None
    #: Where its log-loss on these rows, cross-fitted, is below the student's, and its accuracy is not.
    combination: Combination | None = None

    @classmethod
    def of(cls, logits: Tensor, gold: Gold, temperature: float, *, pool: Tensor | None = None) -> "HeldOutRows":
        """``logits``: of the rows of ``gold``; ``pool``: rows by reconciled class and teacher's label, ``(C, C)``."""
        probs = (logits.double() / temperature).softmax(1)
        rows, labels = gold.calibration()
        teacher = None
        if labels is not None and len(rows) >= LEAST_ROWS and labels.answers().shape[1] == 1 and not labels.needs_gold:
            known = teacher_tensor(labels, probs.shape[1])
            teacher = known.new_full((len(probs), *known.shape[1:]), -1 if known.dim() == 1 else torch.nan)
            teacher[rows] = known
        if teacher is None:
            return cls(probs.float(), gold.y)
        truth, combined = gold.y[rows], probs.clone()
        combination, combined[rows] = fit_combination(probs[rows], teacher[rows], truth, pool=pool)
        both = (combined[rows], cross_tempered(logits[rows], truth))
        correct = [int((each.argmax(1) == truth).sum()) for each in both]
        losses = [float(nll_loss(each.clamp(min=1e-12).log(), truth)) for each in both]
        helps = losses[0] < losses[1] and correct[0] >= correct[1]
        return cls(probs.float(), gold.y, teacher, combined.float(), combination if helps else None)

    @property
    def with_teacher(self) -> Tensor:
        """Numbers of the rows that have a teacher's label."""
        if self.teacher is None:
            return torch.empty(0, dtype=torch.long)
        return teacher_classes(self.teacher).ge(0).nonzero().squeeze(1)

    @property
    def combined_accuracy(self) -> Share | None:
        """Of student and teacher together, on these rows."""
        if self.combined is None:
            return None
        rows = self.with_teacher
        return exact(float((self.combined[rows].argmax(1) == self.y[rows]).sum()), len(rows))

    def state_dict(self) -> dict[str, Tensor]:
        return {name: value for name, value in vars(self).items() if isinstance(value, Tensor)}


def teacher_tensor(labels: Labels, classes: int) -> Tensor:
    """Labels ``(n,)``, −1 without one; or probabilities ``(n, C)``, NaN without."""
    if not labels.simplest().ranks:
        return labels.top1().long()
    known = labels.labelled()
    probs = torch.full((len(labels), classes), torch.nan, dtype=torch.float64)
    probs[known] = labels.dense(known.nonzero().squeeze(1), classes).double()
    return probs


def teacher_classes(teacher: Tensor) -> Tensor:
    """The teacher's class of each row, −1: none."""
    return teacher if teacher.dim() == 1 else teacher.argmax(1).where(~teacher.isnan().any(1), -1)


def reconciled_counts(reconciled: Labels, teacher: Labels, classes: int) -> Tensor:
    """Rows of a pool by reconciled class and teacher's label, ``(C, C)`` float64."""
    counts, labels = torch.zeros(classes, classes, dtype=torch.float64), teacher.top1()
    for rows in (labels >= 0).nonzero().squeeze(1).split(CHUNK):
        counts.index_add_(0, labels[rows].long(), reconciled.dense(rows, classes).double())
    return counts.T.contiguous()
