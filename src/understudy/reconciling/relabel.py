"""``us.reconcile``: the pool with labels combined from several label sources; also as a step before a training.

    pool = us.reconcile(student, gold, pool, epochs=30)
    us.train(student, gold, pool, us.vanilla(), epochs=30)       # gold without teacher=: q is no teacher's label
    for source in pool.sources:
        print(source.name, source.weight, source.accuracy)
    pool.columns()                                               # every source's label and probability, in pool order

    write_table(out, with_reconciled_labels(read_table(file), gold, pool, class_names))      # the pool's file with them

``label_sources.py`` has the formula; ``us.reconciled()`` does both steps in one training.

*Views:* the same rows by several features: label sources see all of them, the student only its own.

    others = {"TF-IDF": View(build, gold, pool, {"optimizer": "lbfgs"})}
    us.auto(student, gold, pool, features="MiniLM", others=others)

A text as TF-IDF and as vectors of an encoder gives sources that make different errors. The labels reconciled from both
train a student on either: one on TF-IDF is small and needs the encoder no more.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from understudy import methods as registry
from understudy.comparison.candidates import FEWEST_ROWS, GOLD_ONLY, VANILLA, named_objectives
from understudy.comparison.comparison_options import Methods, ReconcileOptions, take_options
from understudy.data.examples import Gold, Pool, check_sets, drop_unlabelled
from understudy.data.fitted_rows import GOLD_KEYS, deal_keys, mark_fitted
from understudy.errors import UnderstudyError
from understudy.io.label_columns import SAW
from understudy.io.table import Stored, Table
from understudy.labels.forms import Soft, named_columns
from understudy.models.registry import Student, initial_student
from understudy.objective import Relabelled
from understudy.parallel.executors import Executor, InProcess, executor_for
from understudy.reconciling.base_models import BaseModel, TrainedModel, vector_models
from understudy.reconciling.cross_fitting import CrossFit, OutOfFold
from understudy.reconciling.label_sources import ReconciledPool, default_c, reconciled_pool
from understudy.store.arrow import Array
from understudy.store.files import locked, work_folder
from understudy.store.option_fields import checked_plainly, spell_out
from understudy.training.automatic_options import named_student, resolve_options
from understudy.training.options import SHARED, TrainingOptions, shows_options
from understudy.training.prepare import check_outputs


@dataclass(frozen=True, eq=False)
class View:
    """Gold and pool, in the same order as by the other features, a student for them, and its training options."""

    student: Student
    gold: Gold
    pool: Pool
    options: Mapping[str, Any]
    test: Any = None
    select: Any = None
    #: No student that is kept takes these features.
    sources_only: bool = False


def mark_views(views: Mapping[str, View]) -> Mapping[str, View]:
    """The views, the gold rows that the pool's labels were fitted to marked as chosen in each (``mark_fitted``)."""
    first = next(iter(views.values()))
    gold = mark_fitted(first.gold, first.pool)
    if gold is first.gold:
        return views
    return {name: replace(view, gold=view.gold.marked_chosen(gold.chosen)) for name, view in views.items()}


def joint_predictions(by_view: Mapping[str, OutOfFold]) -> OutOfFold:
    """The base models of all views as sources beside each other: ``gce``, and of the others ``gce (TF-IDF)``."""
    joint = OutOfFold()
    for number, (view, found) in enumerate(by_view.items()):
        for name in found.gold:
            shown = f"{name} ({view})" if number else name
            joint.gold[shown] = found.gold[name]
            if name in found.pool:
                joint.pool[shown], joint.by_fold[shown] = found.pool[name], found.by_fold[name]
    return joint


@shows_options([*SHARED, "seed"])
@checked_plainly
@spell_out(ReconcileOptions, keep_others=True)
def reconcile(
    student: Student | str | None, gold: Gold, pool: Pool, *, out: str | Path | None = None,
    executor: Executor | None = None, progress: bool = True, others: Mapping[str, View] | None = None, **options: Any,
) -> ReconciledPool:  # fmt: skip
    """A pool of the same rows whose labels are combined from all label sources, with weights fitted on gold.

    ``methods``: those that base models are trained with, beside gold only (None: those of ``us.reconciled``), each on
    ``folds`` parts of gold and of ``rows`` labelled pool rows (None: all). Rows without a teacher's label get one too.
    With ``out``, finished trainings are kept in that folder, and the same call resumes. ``others``: the same rows by
    other features, by name (``views.py``): they give label sources too.
    """
    check_sets(gold, pool, both_for="reconcile")
    student = named_student(student, gold, pool)
    own, given = take_options(ReconcileOptions, options)
    executor = executor_for(own.workers, executor)
    folder = None if out is None else work_folder(out)
    views = mark_views({"": View(student, gold, pool, given), **(others or {})})
    fitted = {name: _fit_view(view, own, None if folder is None else folder / name) for name, view in views.items()}
    with nullcontext() if folder is None else locked(folder):
        found = {name: each.run(executor, progress=progress) for name, each in fitted.items()}
        return reconciled_pool(fitted[""], joint_predictions(found))


def _fit_view(view: View, own: ReconcileOptions, folder: Path | None) -> CrossFit:
    """Base models by one kind of features."""
    student, gold, pool = view.student, view.gold, view.pool
    recipe, _ = resolve_options(student, gold, pool, {k: v for k, v in view.options.items() if k != "seed"})
    recipe = recipe.replace(seed=view.options.get("seed", 0))
    classes = check_outputs(initial_student(student, recipe.seed), gold, drop_unlabelled(pool)[0])
    base_models = default_base_models(gold, pool, classes, recipe, own.methods)
    return fit_base_models(student, gold, pool, base_models, recipe, own, classes=classes, folder=folder)


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
            fitted = fit_base_models(student, gold, pool, base_models, options, self, classes=classes, folder=folder)
            labels = reconciled_pool(fitted, fitted.run(InProcess(threads=None), progress=progress))
        assert labels.teacher is not None
        return Relabelled(labels.teacher, labels.columns(), labels.facts(), default_c(pool))


def fit_base_models(
    student: Any, gold: Gold, pool: Pool, base_models: dict[str, BaseModel], recipe: TrainingOptions,
    own: ReconcileOptions | Reconcile, *, classes: int, folder: Path | None,
) -> CrossFit:  # fmt: skip
    """Cross-fitting with the student's training options, but those that concern its own training only. ``own``: has
    the number of folds, and of the pool's rows that train."""
    usable, least = int((~gold.chosen).sum()), max(FEWEST_ROWS, own.folds)
    if usable < least:
        cure = f"give at least {least} that were not chosen by active learning, or use another method"
        raise UnderstudyError(f"{usable} gold rows are too few to weight label sources on; {cure}")
    short = recipe.replace(patience=None, refine=False, ema=None, checkpoint_every=None, finetune_epochs=0)
    return CrossFit(student, gold, pool, base_models, short, classes, own.folds, own.rows, recipe.seed, folder)


def default_base_models(
    gold: Gold, pool: Pool, classes: int, recipe: TrainingOptions, methods: Methods | None = None
) -> dict[str, BaseModel]:
    """Gold only, the user's ``methods``, and models without a net. None: vanilla, and methods that are robust to label
    noise or correct it."""
    names = [VANILLA, "gce"]
    # Training to convergence has no early predictions to distil.
    if not recipe.is_full_batch:
        names.append("self_distillation")
    if has_every_class(gold, classes):
        names.append("forward")
    vanilla, objectives = registry.METHODS[VANILLA](), named_objectives(names if methods is None else methods)
    # None on gold only where every row of it serves estimates only.
    alone = {GOLD_ONLY: TrainedModel(vanilla, gold_only=True)} if len(gold.training_rows()) else {}
    every = alone | {name: TrainedModel(objective) for name, objective in objectives.items()}
    return every | vector_models(gold, pool, classes, vanilla, recipe)


def has_every_class(gold: Gold, classes: int) -> bool:
    """Whether every fold will hold, of every class, a gold row with a teacher's label."""
    rows = gold.calibration_rows()
    return len(rows) >= FEWEST_ROWS and bool((torch.bincount(gold.y[rows], minlength=classes) > 1).all())


def with_reconciled_labels(
    table: Table, gold: Gold, pool: ReconciledPool, names: Sequence[str] | None
) -> dict[str, Stored]:
    """The pool file's own columns, and the reconciled labels of its rows."""
    pool_row, gold_row = _matched_rows(table, gold, pool)
    in_pool, in_gold = pool_row >= 0, gold_row >= 0
    rows, gold_rows, classes = pool_row[in_pool], gold_row[in_gold], pool.on_gold.shape[1]
    assert pool.teacher is not None
    probs = torch.empty(len(table), classes)
    probs[in_pool] = pool.teacher.dense(rows, classes)
    # Rows chosen by active learning have no out-of-fold prediction: they keep their own label.
    own = torch.nn.functional.one_hot(gold.y[gold_rows], classes).float()
    probs[in_gold] = torch.where(gold.chosen[gold_rows].unsqueeze(1), own, pool.on_gold[gold_rows])
    labels, best = Soft(probs, trusted=True), probs.argmax(1)
    columns = {name: table.stored(name) for name in table.names if name == SAW or not name.startswith("teacher_")}
    columns |= labels.to_columns() if names is None else named_columns(labels, names)
    columns[GOLD_KEYS] = deal_keys(pool.teacher.fitted_to, len(table))
    columns["reconciled_label"] = _class_names(best, names)
    columns["reconciled_probability"] = probs.amax(1).numpy()
    for source in pool.sources:
        # Empty on gold rows, which the sources predicted in folds.
        label, probability = torch.full((len(table),), -1), torch.zeros(len(table))
        label[in_pool] = source.probs.argmax(1)[rows]
        probability[in_pool] = source.probs[rows, best[in_pool]]
        name = "source_" + re.sub(r"\W+", "_", source.name)
        columns |= {f"{name}_label": _class_names(label, names), f"{name}_probability": probability.numpy()}
    return columns


def _class_names(labels: Tensor, names: Sequence[str] | None) -> Array:
    """By name where classes have names; −1 is an empty name."""
    return labels.numpy() if names is None else np.array([*names, ""], dtype=object)[labels.numpy()]


def _matched_rows(table: Table, gold: Gold, pool: ReconciledPool) -> tuple[Tensor, Tensor]:
    """For every row of the file, its number in the pool and in gold; −1: not there."""
    if table.ids is None:
        return torch.arange(len(table)), torch.full((len(table),), -1)
    # As text: 7 in one file is "7" in another.
    ids = list(map(str, table.ids.tolist()))

    def matched(names: Any) -> Tensor:
        row_of = {} if names is None else {str(name): row for row, name in enumerate(names.tolist())}
        return torch.tensor([row_of.get(name, -1) for name in ids])

    pool_row = matched(pool.ids)
    return pool_row, torch.where(pool_row >= 0, -1, matched(gold.ids))
