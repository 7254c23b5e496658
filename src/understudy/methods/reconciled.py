"""Reconciled labels: train on labels made of everybody's word, weighed on gold (our own).

What the teacher said, what students trained on gold alone and robustly would say, and what similar rows are labelled
are witnesses of one truth; gold rows that none of them saw tell how far to believe each (``reconciling/``). Before the
student's training begins, members are trained on ``folds`` parts of gold and of ``rows`` pool rows; their word and the
teacher's become one soft label per pool row, and the student trains on these as vanilla would. A row without a
teacher's label gets one too. It costs about ``folds`` × 4 trainings on 1 − 1/``folds`` of the rows.

    run = us.train(student, us.Gold(x_gold, y, teacher=words), us.Pool(x, words_pool), us.reconciled(), epochs=30)
    pool = us.reconcile(student, gold, pool, epochs=30)          # the labels alone, with every witness's word
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Unpack

import torch

from understudy.data.examples import Gold, Pool
from understudy.errors import UnderstudyError
from understudy.method_options import Slots, method
from understudy.methods.forward import forward
from understudy.methods.gce import gce
from understudy.methods.self_distillation import self_distillation
from understudy.methods.vanilla import vanilla
from understudy.objective import Objective, Relabelled, TeacherTarget
from understudy.reconciling.crossfit import CrossFit
from understudy.reconciling.members import Member, Trained, flat_members
from understudy.reconciling.reconcile import ReconciledPool, reconciled_pool, suitable_c
from understudy.training.options import TrainingOptions

__all__ = ["reconciled"]

FEWEST_ROWS = 20
"""Fewer gold rows than these weigh nobody."""
GOLD_ONLY = "gold only"


@dataclass
class Reconcile:
    """Makes the pool's labels before a training."""

    folds: int = 4
    rows: int | None = 20_000
    made: ReconciledPool | None = None
    """What somebody has made already."""
    derived: ClassVar[tuple[str, ...]] = ("made",)

    def __call__(
        self, student: Any, gold: Gold | None, pool: Pool, recipe: TrainingOptions, *, classes: int,
        folder: Path | None, progress: bool,
    ) -> Relabelled:  # fmt: skip
        made = self.made
        if made is None:
            if gold is None:
                raise UnderstudyError("reconciled weighs witnesses on gold, but gold=None; pass gold")
            members = default_members(gold, pool, classes, recipe)
            fitted = cross_fit(
                student, gold, pool, members, recipe, classes=classes, folds=self.folds, rows=self.rows, folder=folder
            )
            made = reconciled_pool(fitted, fitted.run(_Here(), progress=progress))
        return Relabelled(made, made.columns(), made.facts(), suitable_c(pool))


class _Here:
    """Runs one part after the other in this process."""

    def map(self, function: Any, parts: Any) -> Any:
        yield from ((number, function(part)) for number, part in enumerate(parts))


def cross_fit(
    student: Any, gold: Gold, pool: Pool, members: dict[str, Member], recipe: TrainingOptions, *, classes: int,
    folds: int, rows: int | None, folder: Path | None,
) -> CrossFit:  # fmt: skip
    """The members' trainings: as long as the student's, without what only its own has."""
    usable = int((~gold.chosen).sum())
    if usable < max(FEWEST_ROWS, folds):
        raise UnderstudyError(
            f"{usable} gold rows are too few to weigh witnesses by; give at least {max(FEWEST_ROWS, folds)} that were "
            "not chosen by active learning, or use another method"
        )
    short = replace(recipe, patience=None, refine=False, ema=None, checkpoint_every=None, finetune_epochs=0)
    return CrossFit(
        student, gold, pool, members, short, classes, folds=folds, rows=rows, seed=recipe.seed, folder=folder
    )


def default_members(gold: Gold, pool: Pool, classes: int, recipe: TrainingOptions) -> dict[str, Member]:
    """Gold alone, the labels as they are, ways to bear wrong ones, the noise undone; and what needs no net."""
    plain = vanilla()
    # Where every gold row estimates only, nothing can be trained on gold.
    members: dict[str, Member] = {GOLD_ONLY: Trained(plain, alone=True)} if len(gold.training_rows()) else {}
    members |= {"vanilla": Trained(plain), "gce": Trained(gce())}
    # A minimum has no early predictions to learn from.
    if not recipe.is_full_batch:
        members["self_distillation"] = Trained(self_distillation())
    if speaks_of_every_class(gold, classes):
        members["forward"] = Trained(forward())
    return members | flat_members(gold, pool, classes, plain, recipe)


def speaks_of_every_class(gold: Gold, classes: int) -> bool:
    """Whether every fold will hold, of every class, a gold row that the teacher spoke of."""
    rows = gold.calibration_rows()
    return len(rows) >= FEWEST_ROWS and bool((torch.bincount(gold.y[rows], minlength=classes) > 1).all())


@method
def reconciled(*, folds: int = 4, rows: int | None = 20_000, hard: bool = False, **slots: Unpack[Slots]) -> Objective:
    if folds < 2:
        raise UnderstudyError(f"reconciled(folds={folds}): at least 2 parts of gold are needed")
    if rows is not None and rows < 1:
        raise UnderstudyError(f"reconciled(rows={rows}) must be at least 1, or None for all rows of the pool")
    return Objective(name="reconciled", target=TeacherTarget(hard=hard), relabel=Reconcile(folds, rows), **slots)
