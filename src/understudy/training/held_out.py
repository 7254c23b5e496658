"""The rows that a run is measured on: what its students say of rows that they were not trained on, the truth, and the
teacher's labels. Student and teacher are combined on these, and ``us.defer`` chooses its threshold by them.

    counts = PoolCounts(reconciled_counts(reconciled.teacher, pool.teacher, classes))
    rows = HeldOutRows.of(logits, gold, temperature, pool=counts)
    rows.combination, rows.combined                  # None where gold does not say that it helps; q (n, C)
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from understudy.data.checks import CHUNK
from understudy.data.examples import Gold
from understudy.inference.cascade import Combination
from understudy.inference.combination import PoolCounts, fit_combination
from understudy.labels.base import Labels
from understudy.maths.proportions import Share, cross_validated

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
    #: ``(n,)`` bool: whether q, not the teacher's label alone, would answer a deferred row, chosen without it.
    helps: Tensor | None = None
    #: None where it does not help.
    combination: Combination | None = None
    #: How often two folds' combinations say different classes.
    disagreement: float = 0.0

    @classmethod
    def of(cls, logits: Tensor, gold: Gold, temperature: float, *, pool: PoolCounts | None = None) -> "HeldOutRows":
        """``logits``: of the rows of ``gold``."""
        probs = (logits.double() / temperature).softmax(1)
        rows, labels = gold.calibration()
        if labels is None or len(rows) < LEAST_ROWS or labels.answers().shape[1] > 1 or labels.needs_gold:
            return cls(probs.float(), gold.y)
        known = teacher_tensor(labels, probs.shape[1])
        teacher = known.new_full((len(probs), *known.shape[1:]), -1 if known.dim() == 1 else torch.nan)
        teacher[rows], combined, helps = known, probs.clone(), torch.zeros(len(probs), dtype=torch.bool)
        counts = None if pool is None else pool.of(gold.y, rows)
        found = fit_combination(logits[rows], known, gold.y[rows], temperature=temperature, pool=counts)
        combined[rows], helps[rows] = found.unseen, found.helps
        combination = found.combination if found.better else None
        return cls(probs.float(), gold.y, teacher, combined.float(), helps, combination, found.disagreement)

    @property
    def with_teacher(self) -> Tensor:
        """Numbers of the rows that have a teacher's label."""
        if self.teacher is None:
            return torch.empty(0, dtype=torch.long)
        return teacher_classes(self.teacher).ge(0).nonzero().squeeze(1)

    def combined_accuracy(self, disagreement: float) -> Share | None:
        """Of student and teacher together, on these rows; the ``disagreement`` of their students and that of the
        combinations widen it."""
        if self.combined is None:
            return None
        rows = self.with_teacher
        correct = int((self.combined[rows].argmax(1) == self.y[rows]).sum())
        return cross_validated(correct, len(rows), disagreement + self.disagreement)

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
