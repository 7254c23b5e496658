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

from understudy.method_options import Slots, method
from understudy.objective import Objective
from understudy.reconciling.relabel import Reconcile
from understudy.store.option_fields import check_interval

__all__ = ["reconciled"]


@method
def reconciled(*, folds: int = 4, rows: int | None = 20_000, **slots: Unpack[Slots]) -> Objective:
    check_interval("reconciled", "[2, inf)", folds=folds)
    check_interval("reconciled", "[1, inf)", rows=1 if rows is None else rows)
    return Objective(name="reconciled", relabel=Reconcile(folds, rows), **slots)
