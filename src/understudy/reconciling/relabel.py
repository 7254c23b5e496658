"""``us.reconcile``: the pool with labels combined from several label sources; also as a step before a training.

    pool = us.reconcile(student, gold, pool, epochs=30)
    us.train(student, gold, pool, us.vanilla(), epochs=30)       # gold without teacher=: q is no teacher's label
    for source in pool.sources:
        print(source.name, source.weight, source.accuracy)
    pool.columns()                                               # every source's label and probability, in pool order

``label_sources.py`` has the formula; ``us.reconciled()`` does both steps in one training.
"""

from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch

from understudy import methods as registry
from understudy.arguments import checked_plainly
from understudy.comparison.candidates import FEWEST_ROWS, GOLD_ONLY, VANILLA, named_objectives
from understudy.comparison.comparison_options import ReconcileOptions, take_options
from understudy.data.examples import Gold, Pool, check_sets, drop_unlabelled
from understudy.errors import UnderstudyError
from understudy.models.registry import Student, initial_student
from understudy.objective import Relabelled
from understudy.parallel.executors import Executor, InProcess, executor_for
from understudy.reconciling.base_models import BaseModel, TrainedModel, vector_models
from understudy.reconciling.cross_fitting import CrossFit
from understudy.reconciling.label_sources import ReconciledPool, default_c, reconciled_pool
from understudy.store.files import locked, work_folder
from understudy.store.option_fields import spell_out
from understudy.training.automatic_options import resolve_options
from understudy.training.options import SHARED, TrainingOptions, shows_options
from understudy.training.prepare import check_outputs


@shows_options([*SHARED, "seed"])
@checked_plainly
@spell_out(ReconcileOptions, keep_others=True)
def reconcile(
    student: Student,
    gold: Gold,
    pool: Pool,
    *,
    out: str | Path | None = None,
    executor: Executor | None = None,
    progress: bool = True,
    **options: Any,
) -> ReconciledPool:
    """A pool of the same rows whose labels are combined from all label sources, with weights fitted on gold.

    ``methods``: those that base models are trained with, beside gold only (None: those of ``us.reconciled``), each on
    ``folds`` parts of gold and of ``rows`` labelled pool rows (None: all). Rows without a teacher's label get one too.
    With ``out``, finished trainings are kept in that folder, and the same call resumes.
    """
    check_sets(gold, pool, both_for="reconcile")
    own, others = take_options(ReconcileOptions, options)
    seed = others.pop("seed", 0)
    executor = executor_for(own.workers, executor)
    recipe, _ = resolve_options(student, gold, pool, others, names=SHARED, function="reconcile")
    recipe = recipe.replace(seed=seed)
    classes = check_outputs(initial_student(student, recipe.seed), gold, drop_unlabelled(pool)[0])
    base_models: dict[str, BaseModel]
    if own.methods is None:
        base_models = default_base_models(gold, pool, classes, recipe)
    else:
        base_models = gold_only_model(gold)
        base_models |= {name: TrainedModel(objective) for name, objective in named_objectives(own.methods).items()}
        base_models |= vector_models(gold, pool, classes, registry.METHODS[VANILLA](), recipe)
    folder = None if out is None else work_folder(out)
    fitted = fit_base_models(
        student, gold, pool, base_models, recipe, classes=classes, folds=own.folds, rows=own.rows, folder=folder
    )
    with nullcontext() if folder is None else locked(folder):
        return reconciled_pool(fitted, fitted.run(executor, progress=progress))


@dataclass
class Reconcile:
    """Replaces the pool's labels before a training."""

    folds: int = 4
    rows: int | None = 20_000
    #: Where they exist already.
    labels: ReconciledPool | None = None
    derived: ClassVar[tuple[str, ...]] = ("labels",)

    def __call__(
        self, student: Any, gold: Gold | None, pool: Pool, options: TrainingOptions, *, classes: int,
        folder: Path | None, progress: bool,
    ) -> Relabelled:  # fmt: skip
        labels = self.labels
        if labels is None:
            if gold is None:
                raise UnderstudyError("reconciled weights label sources on gold, but gold=None; pass gold")
            base_models = default_base_models(gold, pool, classes, options)
            fitted = fit_base_models(
                student, gold, pool, base_models, options, classes=classes, folds=self.folds, rows=self.rows,
                folder=folder,
            )  # fmt: skip
            labels = reconciled_pool(fitted, fitted.run(InProcess(threads=None), progress=progress))
        assert labels.teacher is not None
        return Relabelled(labels.teacher, labels.columns(), labels.facts(), default_c(pool))


def fit_base_models(
    student: Any, gold: Gold, pool: Pool, base_models: dict[str, BaseModel], recipe: TrainingOptions, *, classes: int,
    folds: int, rows: int | None, folder: Path | None,
) -> CrossFit:  # fmt: skip
    """Cross-fitting with the student's training options, but those that concern its own training only."""
    usable = int((~gold.chosen).sum())
    if usable < max(FEWEST_ROWS, folds):
        raise UnderstudyError(
            f"{usable} gold rows are too few to weight label sources on; give at least {max(FEWEST_ROWS, folds)} that "
            "were not chosen by active learning, or use another method"
        )
    short = recipe.replace(patience=None, refine=False, ema=None, checkpoint_every=None, finetune_epochs=0)
    return CrossFit(
        student, gold, pool, base_models, short, classes, folds=folds, rows=rows, seed=recipe.seed, folder=folder
    )


def gold_only_model(gold: Gold) -> dict[str, BaseModel]:
    """A student trained on gold only; none where every gold row serves estimates only."""
    return {GOLD_ONLY: TrainedModel(registry.METHODS[VANILLA](), gold_only=True)} if len(gold.training_rows()) else {}


def default_base_models(gold: Gold, pool: Pool, classes: int, recipe: TrainingOptions) -> dict[str, BaseModel]:
    """Gold only, vanilla, methods that are robust to label noise or correct it, and models without a net."""
    names = [VANILLA, "gce"]
    # Training to convergence has no early predictions to distil.
    if not recipe.is_full_batch:
        names.append("self_distillation")
    if has_every_class(gold, classes):
        names.append("forward")
    base_models = gold_only_model(gold) | {name: TrainedModel(registry.METHODS[name]()) for name in names}
    return base_models | vector_models(gold, pool, classes, registry.METHODS[VANILLA](), recipe)


def has_every_class(gold: Gold, classes: int) -> bool:
    """Whether every fold will hold, of every class, a gold row with a teacher's label."""
    rows = gold.calibration_rows()
    return len(rows) >= FEWEST_ROWS and bool((torch.bincount(gold.y[rows], minlength=classes) > 1).all())
