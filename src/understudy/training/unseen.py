"""What a student says of gold rows that it was not fitted to.

Weighted Distillation asks the student about gold: how much more does it pay for the teacher's wrong label than for the
true one? A student that was pretrained on these rows has learned their labels by heart, pays next to nothing for the
true one, and makes every mistake of the teacher look ruinous. So where it was, every row is asked of a copy that was
pretrained without it (cross-fitting); rows that estimate only are asked of the student itself.

    said = ask_unseen(student, gold, pretrained_on, seed=0)                       # (rows that estimate, C)
    looks_memorised(student_gold, y, teacher_gold, student_pool, teacher_pool)    # of a student that was not asked so
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from understudy.data.examples import Gold
from understudy.data.rows import SubsetRows
from understudy.data.splits import fold_rows
from understudy.errors import warn
from understudy.inference.passes import predict

FOLDS = 5
"""Copies that are pretrained, each on four fifths of the rows: four more pretrainings in all."""
MEMORISED = 0.95
"""Gold rows that the student is right on, at least, before anybody suspects that it knows them by heart."""


def copies_for(gold: Gold) -> int:
    """How many copies of a student pretrained on gold it takes to ask about its rows; 0 where all estimate only."""
    seen = int((~gold.estimate_only[gold.calibration_rows()]).sum())
    return min(FOLDS, seen) if seen > 1 else 0


def ask_unseen(
    student: nn.Module, gold: Gold, pretrained_on: Callable[[Gold], nn.Module], *, seed: int, batch_size: int = 1024
) -> Tensor:
    """Probabilities ``(n, C)`` on the rows that estimate, each from a student that was not fitted to it.

    ``student`` was pretrained on gold; ``pretrained_on(part)`` is a copy that was pretrained on that part alone.
    """
    rows, training = gold.calibration_rows(), gold.training_rows()
    said = predict(student, SubsetRows(gold.rows, rows), batch_size=batch_size)
    seen = (~gold.estimate_only[rows]).nonzero().squeeze(1)
    copies = copies_for(gold)
    for _, fold in fold_rows(gold.y[rows[seen]], copies, seed) if copies else ():
        held_out = rows[seen[fold]]
        copy = pretrained_on(gold.take(training[~torch.isin(training, held_out)]))
        said[seen[fold]] = predict(copy, SubsetRows(gold.rows, held_out), batch_size=batch_size)
    return said


def looks_memorised(
    student_gold: Tensor, y: Tensor, teacher_gold: Tensor, student_pool: Tensor, teacher_pool: Tensor
) -> bool:
    """Whether the student knows the gold rows by heart: nearly always right there, and not what it is on the pool.

    If it were right as often on the pool (a) as on gold, and the teacher too (t), they would agree there on a share of
    at least t + a − 1 of the rows; and its doubt, 1 − its largest probability, would have one mean on both. It is said
    to have memorised them where it agrees less often than that by two standard errors, or where its doubt on gold is
    less than half of that on the pool and less by three. ``student_*``: probabilities; ``teacher_*``: classes.
    """
    right = float((student_gold.argmax(1) == y).double().mean())
    if right < MEMORISED:
        return False
    trusted = float((teacher_gold == y).double().mean())
    agree = float((student_pool.argmax(1) == teacher_pool).double().mean())
    error = math.sqrt(trusted * (1 - trusted) / len(y) + agree * (1 - agree) / len(teacher_pool))
    on_gold, on_pool = (1 - probs.double().max(1).values for probs in (student_gold, student_pool))
    less = float(on_pool.mean() - on_gold.mean())
    surely = less > 3 * float(on_pool.std(correction=0)) / math.sqrt(len(y))
    return agree < trusted + right - 1 - 2 * error or (surely and less > float(on_pool.mean()) / 2)


def memorised_warning(right: float) -> None:
    warn(
        f"the student is right on {right:.0%} of the gold rows it is asked about, but not on the pool: it seems to "
        "know them by heart, and weights made of its losses there come out too small; mark gold rows "
        "estimate_only=True, or give us.train the untrained student and pretrain_epochs="
    )
