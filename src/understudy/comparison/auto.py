"""``us.auto``: methods are cross-validated on gold in a pilot; the labels are reconciled, or one method is chosen.

    run = us.auto(gold=gold, pool=pool)
    run = us.auto(student, gold, pool, epochs=30)
    run.config["auto"]         # the candidates' scores, the choice, the weights of the label sources

The pilot trains every candidate on a part of the pool and three quarters of gold, and predicts the rest; after four
such folds every gold row has an out-of-fold prediction. The predictions of all of them, the nearest neighbours and the
teacher's labels are weighted on gold and give the pool's *reconciled* labels (``reconciling/``); a student trained on
these is one more candidate, cross-validated with labels fitted without the held-out rows. It is the default: another
candidate is chosen only where it is significantly better.
With a folder, finished parts are kept there, and a pilot that was stopped resumes.
"""

import shutil
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from understudy.comparison.candidate_scores import CAUTION, Candidate, choose, score_candidates
from understudy.comparison.candidates import FEWEST_ROWS, GOLD_ONLY, RECONCILED, VANILLA, candidates, named_methods
from understudy.comparison.cells import shared_settings, train_method
from understudy.comparison.comparison_options import AutoOptions, take_options
from understudy.data.examples import Gold, Pool, check_sets, drop_unlabelled, weighed
from understudy.errors import UnderstudyError, warn
from understudy.inference.combination import PoolCounts
from understudy.labels.forms import Soft
from understudy.maths.metric_scores import ACCURACY, as_logits, row_scores
from understudy.maths.temperature import cross_tempered
from understudy.methods import METHODS
from understudy.models.registry import Student, initial_student
from understudy.objective import Objective
from understudy.parallel.executors import Executor, executor_for
from understudy.reconciling.base_models import BaseModel, TrainedModel, vector_models
from understudy.reconciling.cross_fitting import CrossFit, OutOfFold
from understudy.reconciling.label_sources import ReconciledPool, cross_validate_student, labels_by_fold, reconciled_pool
from understudy.reconciling.relabel import Reconcile, View, joint_predictions, mark_views
from understudy.store.files import locked, read_json
from understudy.store.option_fields import checked_plainly, spell_out
from understudy.store.settings import check_same
from understudy.training.automatic_options import named_student, resolve_options
from understudy.training.callbacks import Callback
from understudy.training.distributed import is_first, joined, on_rank_zero, same_data
from understudy.training.evaluation import HELD_OUT, StudentCalibration, measure_classes
from understudy.training.held_out import reconciled_counts
from understudy.training.options import FINAL, SHARED, TrainingOptions, shows_options
from understudy.training.prepare import check_outputs
from understudy.training.run import Run, usable_folder

#: In the run's folder, until the run is finished.
FOLDER = "pilot"
#: As ``CAUTION``, ahead of reconciled labels.
RECONCILED_CAUTION = 2.0


@dataclass
class Pilot:
    """The candidates by one kind of features."""

    view: View
    objectives: dict[str, Objective]
    #: Of the candidates' training.
    recipe: TrainingOptions
    own: AutoOptions
    folder: Path | None = None
    #: Of each candidate's students of the folds (``maths.proportions.cross_validated``).
    disagreement: dict[str, float] = field(default_factory=dict)
    #: None without reconciled labels or without a teacher's.
    pool_counts: PoolCounts | None = None

    @property
    def gold(self) -> Gold:
        return self.view.gold

    def candidates(
        self, found: OutOfFold, sources: OutOfFold, labels: ReconciledPool | None, executor: Executor, *, progress: bool
    ) -> dict[str, Tensor]:
        """The predictions of gold by every candidate. ``sources``: what the ``labels`` are reconciled from."""
        predictions = {name: probs for name, probs in found.gold.items() if name in self.objectives}
        if labels is not None:
            by_fold = labels_by_fold(self.base_models, sources, labels.opinions)
            self.pool_counts = self._count(labels, by_fold)
            students = cross_validate_student(self.base_models, by_fold, executor, progress=progress)
            predictions[RECONCILED] = students.gold[RECONCILED]
            self.disagreement[RECONCILED] = students.disagreement(RECONCILED)
        self.disagreement |= {name: found.disagreement(name) for name in self.objectives if name in found.by_fold}
        return predictions

    def _count(self, reconciled: Pool, by_fold: Sequence[Tensor]) -> PoolCounts | None:
        teacher, fitted = self.view.pool.teacher, self.base_models
        if reconciled.teacher is None or teacher is None or teacher.needs_gold:
            return None
        labels = reconciled.teacher, *map(Soft, by_fold)
        every, *without = (reconciled_counts(each, teacher, fitted.classes) for each in labels)
        rows = fitted.evaluation_rows
        return PoolCounts(every, torch.stack(without), fitted.gold_fold[rows], self.gold.y[rows])

    @cached_property
    def base_models(self) -> CrossFit:
        """The candidates, and the other label sources beside them."""
        student, gold, pool = self.view.student, self.view.gold, self.view.pool
        classes = check_outputs(initial_student(student, 0), gold, drop_unlabelled(pool)[0])
        base_models: dict[str, BaseModel] = {
            name: TrainedModel(objective, gold_only=name == GOLD_ONLY) for name, objective in self.objectives.items()
        }
        if self.own.reconcile:
            base_models |= vector_models(gold, pool, classes, METHODS[VANILLA](), self.recipe)
        return CrossFit(
            student, gold, pool, base_models, self.recipe, classes, folds=self.own.folds, rows=self.own.pilot_rows,
            seed=self.recipe.seed, folder=self.folder,
        )  # fmt: skip

    def settings(self) -> dict[str, Any]:
        """What must be the same for a pilot to resume."""
        own = {"seed": self.recipe.seed, "folds": self.own.folds, "rows": self.own.pilot_rows}
        own["reconcile"] = int(self.own.reconcile)
        return shared_settings(self.view.student, self.recipe, gold=self.gold, pool=self.view.pool, **own)


def run_pilots(
    pilots: Mapping[str, Pilot], executor: Executor, *, progress: bool = False
) -> tuple[dict[str, dict[str, Tensor]], ReconciledPool | None]:
    """By the features that a student may take, every candidate's predictions of gold; and the reconciled labels.

    Nothing if gold is too small.
    """
    first = next(iter(pilots.values()))
    random, needed = int((~first.gold.chosen).sum()), max(FEWEST_ROWS, first.own.folds)
    if random < needed:
        warn(f"{random} gold rows are too few to choose a method on ({needed} or more are needed); vanilla is trained")
        return {}, None
    found = {name: pilot.base_models.run(executor, progress=progress) for name, pilot in pilots.items()}
    sources = joint_predictions(found)
    labels = reconciled_pool(first.base_models, sources) if first.own.reconcile else None
    eligible = {name: pilot for name, pilot in pilots.items() if not pilot.view.sources_only}
    return {
        name: pilot.candidates(found[name], sources, labels, executor, progress=progress)
        for name, pilot in eligible.items()
    }, labels


def best_features(predictions: Mapping[str, Mapping[str, Tensor]], y: Tensor, metric: str = ACCURACY) -> str:
    """The features whose reference student predicts gold best; the first of equals."""
    scores = {name: row_scores(metric, found[_reference(found)], y) for name, found in predictions.items()}
    return max(scores, key=lambda name: float(scores[name].nanmean()))


@shows_options([*SHARED, *FINAL])
@checked_plainly
@spell_out(AutoOptions, keep_others=True)
@joined()
def auto(
    student: Student | str | None = None, gold: Gold | None = None, pool: Pool | None = None, *,
    test: Gold | tuple[Any, Any] | None = None, select: Gold | tuple[Any, Any] | None = None,
    out: str | Path | None = None, resume: bool = False, notes: Mapping[str, Any] | None = None, evaluate: bool = False,
    executor: Executor | None = None, callbacks: Sequence[Callback] = (), progress: bool = True, features: str = "",
    others: Mapping[str, View] | None = None, on_features: Callable[[str], None] | None = None, **options: Any,
) -> Run:  # fmt: skip
    """Choose the method, or reconcile the labels, by a pilot on gold; then train as ``us.train`` would.

    ``us.auto(gold=gold, pool=pool)`` chooses the student too; ``student`` is else that of ``us.train``.
    ``methods``: the candidates, as for ``us.compare`` (None: a short list by the form of the labels). ``reconcile``:
    whether labels combined from all label sources are a candidate too. The pilot trains on ``pilot_rows`` rows of the
    pool, for ``pilot_epochs`` (None: as many as the training, at most 30), in ``folds`` parts of gold, over ``workers``
    processes or by an ``executor``. It does not use the test and select rows. With ``out``, pilot and training can both
    be stopped and resumed. ``evaluate`` as in ``us.train``. ``callbacks`` see the final training.

    ``others``: the same rows by other features (``us.reconcile`` has them too), by name; ``features``: that of these.
    Label sources are trained on all, and the student on those that are best on gold; ``on_features`` gets their name
    before it is trained.
    """
    check_sets(gold, pool, both_for="auto")
    assert gold is not None and pool is not None
    student = named_student(student, gold, pool)
    same_data(gold=gold, pool=pool, test=test, select=select)
    own, given = take_options(AutoOptions, options)
    executor = executor_for(own.workers, executor)
    folder = on_rank_zero(lambda: usable_folder(out, resume=resume))
    labelled, _ = drop_unlabelled(pool)
    assert labelled is not None
    known = weighed(labelled, gold)
    views = mark_views({features: View(student, gold, pool, given, test, select), **(others or {})})
    resolved = {name: _resolve(view) for name, view in views.items()}
    converges = all(recipe.is_full_batch for recipe, _ in resolved.values())
    if own.methods is None:
        objectives = candidates(gold, known, converges=converges, sources=own.reconcile)
    else:
        objectives, _ = named_methods(own.methods, known)
    pilots = {}
    for name, view in views.items():
        place = None if folder is None else folder / FOLDER / ("" if name == features else name)
        pilots[name] = Pilot(view, objectives, _pilot_recipe(resolved[name][0], own), own, place)
    relabel = Reconcile(own.folds, own.pilot_rows)
    decide = partial(_decided, pilots, relabel, executor, folder, progress=progress)
    decision = on_rank_zero(lambda: _earlier(folder, pilots) or decide())
    choice, view = decision["choice"], views[decision["features"]]
    recipe, chosen = resolved[decision["features"]]
    if choice not in objectives and choice != RECONCILED:
        raise UnderstudyError(f"the run in {folder} was made with {choice}, which is not among these methods")
    objective = objectives.get(choice) or METHODS[RECONCILED]()
    if choice == RECONCILED:
        objective = objective.replace(relabel=relabel)
    if on_features is not None and is_first():
        on_features(decision["features"])
    run = train_method(
        choice, view.student, view.gold, view.pool, objective, recipe, test=view.test, select=view.select, out=folder,
        resume=folder is not None, notes={**(notes or {}), **chosen, "auto": decision}, evaluate=evaluate,
        callbacks=callbacks, progress=progress,
    )  # fmt: skip
    if folder is not None and is_first():
        # The run's config has the decision; the pilot's parts are not needed again.
        shutil.rmtree(folder / FOLDER, ignore_errors=True)
    return run


def _resolve(view: View) -> tuple[TrainingOptions, dict[str, Any]]:
    """The options of the final training by these features, and what a config keeps of their choice."""
    final = {name: value for name, value in view.options.items() if name in FINAL}
    others = {name: value for name, value in view.options.items() if name not in FINAL}
    validation = view.select if isinstance(view.select, Gold) else None
    recipe, chosen = resolve_options(view.student, view.gold, view.pool, others, select=validation)
    return recipe.replace(**final), chosen


def _pilot_recipe(recipe: TrainingOptions, own: AutoOptions) -> TrainingOptions:
    return recipe.replace(
        epochs=min(recipe.epochs, 30) if own.pilot_epochs is None else own.pilot_epochs,
        patience=None, refine=False, finetune_epochs=0, ema=None, checkpoint_every=None,
    )  # fmt: skip


def _decided(
    pilots: Mapping[str, Pilot], relabel: Reconcile, executor: Executor, folder: Path | None, *, progress: bool
) -> dict[str, Any]:
    """The pilots' decision, for the run's config; ``relabel`` keeps the reconciled labels."""
    with nullcontext() if folder is None else locked(folder):
        by_features, relabel.labels = run_pilots(pilots, executor, progress=progress)
    first = next(iter(pilots))
    metric = pilots[first].recipe.metric
    features = best_features(by_features, pilots[first].gold.y, metric) if by_features else first
    pilot = pilots[features]
    predictions, gold = by_features.get(features, {}), weighed(pilot.gold, pilot.gold)
    scored = score_candidates(predictions, gold.y, _reference(predictions), metric=metric) if predictions else {}
    labelled = len(drop_unlabelled(pilot.view.pool)[0] or ())
    all_rows = pilot.own.pilot_rows >= labelled
    choice, ruled_out = _choice(scored, gold, all_rows=all_rows)
    measured: dict[str, Any] = {"accuracy": None}
    if by_features:
        fold = pilot.base_models.gold_fold
        nested, y = nested_predictions(by_features, gold, fold, all_rows=all_rows, metric=metric)
        measured["accuracy"] = {"correct": int((nested.argmax(1) == y).sum()), "rows": len(y)}
        measured |= measure_classes(cross_tempered(as_logits(nested), y), y, pilot.disagreement[choice])
        rows = (fold >= 0).nonzero().squeeze(1)
        measured[HELD_OUT] = {"logits": as_logits(nested), "rows": rows, "pool": pilot.pool_counts}
    calibration = None
    if choice in predictions:
        rows = (~predictions[choice].isnan().any(1)).nonzero().squeeze(1)
        fitted = StudentCalibration.fit(as_logits(predictions[choice][rows]), gold.y[rows])
        calibration = asdict(fitted.widened(measured.get("effect", 1.0)))
    penalties = pilot.base_models.chosen_penalties if by_features else None
    return {
        "choice": choice, "chosen_penalty": None if penalties is None else penalties[choice != GOLD_ONLY],
        "ruled_out": ruled_out, "folds": pilot.own.folds, "calibration": calibration,
        "pilot_rows": min(pilot.own.pilot_rows, labelled), "features": features,
        "by_features": {
            name: score_candidates(found, gold.y, _reference(found))[_reference(found)].accuracy
            for name, found in by_features.items()
        },
        **measured, "disagreement": pilot.disagreement, "candidates": _table(scored.values()),
        "sources": [] if relabel.labels is None else _table(relabel.labels.sources, "probs"),
        "settings": {} if folder is None else _settings(pilots),
    }  # fmt: skip


def nested_predictions(
    by_features: Mapping[str, Mapping[str, Tensor]], gold: Gold, fold: Tensor, *, all_rows: bool, metric: str = ACCURACY
) -> tuple[Tensor, Tensor]:
    """Predictions ``(n, C)`` by what is chosen without a row's fold, for every row that is in one, and their truth: the
    best of many looks too good on the rows it was chosen by. ``by_features``: of gold, NaN where there are none."""
    rows = fold >= 0
    whole = {
        name: {method: probs for method, probs in found.items() if not bool(probs[rows].isnan().any())}
        for name, found in by_features.items()
    }
    nested = torch.zeros_like(next(iter(next(iter(whole.values())).values())))
    for number in range(int(fold.max()) + 1):
        mine, others = fold == number, (rows & (fold != number)).nonzero().squeeze(1)
        part = gold.take(others)
        known = {name: {method: probs[others] for method, probs in found.items()} for name, found in whole.items()}
        features = best_features(known, part.y, metric)
        scored = score_candidates(known[features], part.y, _reference(known[features]), metric=metric)
        choice, _ = _choice(scored, part, all_rows=all_rows)
        nested[mine] = whole[features][choice][mine]
    return nested[rows], gold.y[rows]


def _reference(names: Container[str]) -> str:
    return RECONCILED if RECONCILED in names else VANILLA


def _settings(pilots: Mapping[str, Pilot]) -> dict[str, Any]:
    """What must be the same for all pilots to resume."""
    first, *others = pilots
    more = {f"{key} ({name})": value for name in others for key, value in pilots[name].settings().items()}
    return pilots[first].settings() | more


def _table(found: Iterable[Any], *without: str) -> list[dict[str, Any]]:
    """Dataclasses for JSON, without NaN."""
    kept = ({name: value for name, value in vars(one).items() if name not in without} for one in found)
    return [{name: value for name, value in one.items() if value == value} for one in kept]


def _earlier(folder: Path | None, pilots: Mapping[str, Pilot]) -> dict[str, Any] | None:
    """The decision of a finished run's pilot."""
    if folder is None or not (folder / "config.json").exists():
        return None
    decision = read_json(folder / "config.json").get("auto")
    if not isinstance(decision, dict):
        raise UnderstudyError(f"the run in {folder} was not made by auto; choose a new folder")
    check_same(decision.get("settings", {}), _settings(pilots), folder)
    return decision


def _choice(scored: dict[str, Candidate], gold: Gold, *, all_rows: bool) -> tuple[str, str | None]:
    """The method to train, and one that was ahead but ruled out. ``all_rows``: whether the pilot used the whole
    pool."""
    if not scored:
        return VANILLA, None
    reference = _reference(scored)
    caution = RECONCILED_CAUTION if reference == RECONCILED else CAUTION
    choice = choose(scored, reference, caution=caution)
    if choice == GOLD_ONLY and not all_rows:
        # With more pool rows the others approach the teacher, so gold only must be more accurate than it.
        rows, labels = gold.calibration()
        teacher = 1.0 if labels is None or not len(rows) else float((labels.top1() == gold.y[rows]).double().mean())
        if scored[GOLD_ONLY].accuracy <= teacher:
            others = {name: one for name, one in scored.items() if name != GOLD_ONLY}
            return choose(others, reference, caution=caution), GOLD_ONLY
    return choice, None
