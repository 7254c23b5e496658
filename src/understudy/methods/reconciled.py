"""Reconciled labels: train on labels combined from several label sources, weighted on gold (our own).

The label sources are the teacher, students trained on gold only and by robust methods, and the nearest neighbours; gold
rows that none of them was trained on decide the weight of each (``reconciling/``). Before the student's training
begins, base models are trained on ``folds`` parts of gold and of ``rows`` pool rows; their predictions and the
teacher's labels become one soft label per pool row, and the student trains on these as vanilla would. A row without a
teacher's label gets one too. It costs about ``folds`` × 4 trainings on 1 − 1/``folds`` of the rows.

    run = us.train(student, us.Gold(x_gold, y, teacher=labels), us.Pool(x, pool_labels), us.reconciled(), epochs=30)
    pool = us.reconcile(student, gold, pool, epochs=30)          # the labels alone, with every source's own
"""

from typing import Unpack

from understudy.errors import UnderstudyError
from understudy.method_options import Slots, method
from understudy.objective import Objective, TeacherTarget
from understudy.reconciling.relabel import Reconcile

__all__ = ["reconciled"]


@method
def reconciled(*, folds: int = 4, rows: int | None = 20_000, hard: bool = False, **slots: Unpack[Slots]) -> Objective:
    if folds < 2:
        raise UnderstudyError(f"reconciled(folds={folds}): at least 2 parts of gold are needed")
    if rows is not None and rows < 1:
        raise UnderstudyError(f"reconciled(rows={rows}) must be at least 1, or None for all rows of the pool")
    return Objective(name="reconciled", target=TeacherTarget(hard=hard), relabel=Reconcile(folds, rows), **slots)
