"""``us.auto``: methods are cross-validated on gold in a pilot; the labels are reconciled, or one method is chosen.

    run = us.auto(student, gold, pool, epochs=30)
    run.config["auto"]         # the candidates' scores, the choice, the weights of the label sources

The pilot trains every candidate on a part of the pool and three quarters of gold, and predicts the rest; after four
such folds every gold row has an out-of-fold prediction. Candidates that are clearly behind are dropped after each fold.
The predictions of all of them, the nearest neighbours and the teacher's labels are weighted on gold and give the pool's
*reconciled* labels (``reconciling/``); a student trained on these is one more candidate, cross-validated with labels
fitted without the held-out rows. It is the default: another candidate is chosen only where it is significantly better.
With a folder, finished parts are kept there, and a pilot that was stopped resumes.

On 200 rows a 2-point difference in accuracy is invisible: its standard error is as large. Candidates are therefore
compared by the *probability of the true class*, calibrated by one temperature per candidate, fitted on the same rows.
It moves with the accuracy, and every row contributes, not only those whose class changes. A row's score is three parts
of that and one part whether it was classified correctly, because a method may rank well and still be underconfident.
Candidates are compared with a reference row by row; the one with the highest

    gain − caution · standard error

is chosen where that is above 0, else the reference: the student on reconciled labels, or vanilla. A candidate whose
gain is small or uncertain is not chosen, so the worst that chance can do is small. Against reconciled labels the
caution is larger: in the pilot they come from base models that were trained on most of the rows, and are slightly worse
than the final ones.
"""

import math
import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from scipy.optimize import minimize_scalar
from torch import Tensor

from understudy.comparison.candidates import FEWEST_ROWS, GOLD_ONLY, RECONCILED, VANILLA, candidates, named_methods
from understudy.comparison.cells import shared_settings, train_method
from understudy.comparison.comparison_options import AutoOptions, take_options
from understudy.data.examples import Gold, Pool, check_sets, drop_unlabelled, weighed
from understudy.errors import UnderstudyError, warn
from understudy.methods import METHODS
from understudy.models.registry import Student, initial_student
from understudy.objective import Objective
from understudy.parallel.executors import Executor, executor_for
from understudy.reconciling.base_models import BaseModel, TrainedModel, vector_models
from understudy.reconciling.cross_fitting import CrossFit
from understudy.reconciling.label_sources import ReconciledPool, cross_validate_student, reconciled_pool
from understudy.reconciling.relabel import Reconcile
from understudy.store.files import locked, read_json
from understudy.store.option_fields import checked_plainly, spell_out
from understudy.store.settings import check_same
from understudy.training.automatic_options import resolve_options
from understudy.training.callbacks import Callback
from understudy.training.distributed import is_first, joined, on_rank_zero, same_data
from understudy.training.options import SHARED, TrainingOptions, shows_options
from understudy.training.prepare import check_outputs
from understudy.training.run import Run, usable_folder

#: Options of the final training.
FINAL = ("seed", "ema", "checkpoint_every")
#: In the run's folder, until the run is finished.
FOLDER = "pilot"
SOURCES = (GOLD_ONLY, VANILLA, "gce", "forward", "self_distillation")
#: How many standard errors a candidate must be ahead of vanilla, and of reconciled labels.
CAUTION, RECONCILED_CAUTION = 1.0, 2.0
#: The share of the true class's probability in a row's score; the rest is accuracy.
SOFT = 0.75
#: A candidate is dropped this many standard errors behind the best.
BEHIND = 1.5


@dataclass(frozen=True)
class Candidate:
    """A candidate compared with the reference, on the gold rows both have predicted."""

    method: str
    rows: int
    accuracy: float
    accuracy_gain: float
    #: Mean difference of the rows' scores to the reference.
    gain: float
    #: Its standard error.
    error: float

    def lower_bound(self, caution: float = CAUTION) -> float:
        return self.gain - caution * self.error


def score_candidates(predictions: Mapping[str, Tensor], y: Tensor, reference: str = "vanilla") -> dict[str, Candidate]:
    """``predictions``: ``(n, C)`` each, NaN on rows without a prediction."""
    base = row_scores(predictions[reference], y)
    base_right = _right(predictions[reference], y)
    scored = {}
    for name, probs in predictions.items():
        gains = row_scores(probs, y) - base
        both = ~gains.isnan()
        right = _right(probs, y)[both]
        gain, error = mean_and_error(gains[both])
        scored[name] = Candidate(
            method=name, rows=int(both.sum()), accuracy=float(right.mean()),
            accuracy_gain=float((right - base_right[both]).mean()), gain=gain, error=error,
        )  # fmt: skip
    return scored


def choose(scored: Mapping[str, Candidate], reference: str = "vanilla", *, caution: float = CAUTION) -> str:
    """The candidate with the highest lower bound above 0, of those that were not dropped; else the reference."""
    finished = {name: one for name, one in scored.items() if one.rows == scored[reference].rows}
    best = max(finished, key=lambda name: finished[name].lower_bound(caution))
    return best if finished[best].lower_bound(caution) > 0 else reference


def still_competitive(predictions: Mapping[str, Tensor], y: Tensor, reference: str = "vanilla") -> list[str]:
    """The candidates that are not clearly behind the best, on the rows predicted so far; the reference always stays."""
    scores = {name: row_scores(probs, y) for name, probs in predictions.items()}
    leader = max(scores, key=lambda name: float(scores[name].nanmean()))
    competitive = []
    for name, mine in scores.items():
        behind = (scores[leader] - mine)[~(scores[leader] - mine).isnan()]
        gap, error = mean_and_error(behind)
        if name in (reference, leader) or gap <= BEHIND * error:
            competitive.append(name)
    return competitive


def row_scores(probs: Tensor, y: Tensor) -> Tensor:
    """How well each row was predicted, ``(n,)``; NaN without a prediction."""
    return SOFT * truth_probability(probs, y) + (1 - SOFT) * _right(probs, y)


def truth_probability(probs: Tensor, y: Tensor) -> Tensor:
    """The probability of the true class ``(n,)`` at the best temperature for these rows; NaN without a prediction."""
    predicted = ~probs.isnan().any(1)
    truth = torch.full((len(y),), math.nan, dtype=torch.float64)
    if not bool(predicted.any()):
        return truth
    logits = probs[predicted].double().clamp(min=torch.finfo(torch.float32).tiny).log()
    labels = y[predicted]

    def loss(log_temperature: float) -> float:
        return float(torch.nn.functional.cross_entropy(logits / math.exp(log_temperature), labels))

    best = minimize_scalar(loss, bounds=(-3.0, 3.0), method="bounded").x
    truth[predicted] = (logits / math.exp(best)).softmax(1).gather(1, labels.unsqueeze(1)).squeeze(1)
    return truth


def mean_and_error(values: Tensor) -> tuple[float, float]:
    """Mean and standard error; the latter infinite below two values."""
    if len(values) < 2:
        return (float(values.mean()) if len(values) else 0.0), math.inf
    return float(values.mean()), float(values.std() / len(values) ** 0.5)


def _right(probs: Tensor, y: Tensor) -> Tensor:
    return (probs.argmax(1) == y).double()


@dataclass
class Pilot:
    student: Student
    gold: Gold
    pool: Pool
    objectives: dict[str, Objective]
    recipe: TrainingOptions
    folds: int
    #: How many pool rows train the candidates.
    rows: int
    reconcile: bool = True
    #: The run's folder.
    out: Path | None = None

    def run(self, executor: Executor, *, progress: bool = False) -> tuple[dict[str, Candidate], ReconciledPool | None]:
        """Every candidate compared with the reference, and the reconciled labels; no candidate if gold is too small."""
        random, needed = int((~self.gold.chosen).sum()), max(FEWEST_ROWS, self.folds)
        if random < needed:
            warn(
                f"{random} gold rows are too few to choose a method on ({needed} or more are needed); "
                "vanilla is trained"
            )
            return {}, None
        with nullcontext() if self.out is None else locked(self.out):
            fitted, labels = self.base_models, None
            out_of_fold = fitted.run(executor, eliminate=self._eliminate, progress=progress)
            predictions = {name: probs for name, probs in out_of_fold.gold.items() if name in self.objectives}
            if self.reconcile:
                labels = reconciled_pool(fitted, out_of_fold)
                predictions[RECONCILED] = cross_validate_student(fitted, out_of_fold, executor, progress=progress)
        return score_candidates(predictions, self.gold.y, RECONCILED if self.reconcile else VANILLA), labels

    @cached_property
    def base_models(self) -> CrossFit:
        """The candidates, and the other label sources beside them."""
        classes = check_outputs(initial_student(self.student, 0), self.gold, drop_unlabelled(self.pool)[0])
        base_models: dict[str, BaseModel] = {
            name: TrainedModel(objective, gold_only=name == GOLD_ONLY) for name, objective in self.objectives.items()
        }
        if self.reconcile:
            base_models |= vector_models(self.gold, self.pool, classes, METHODS[VANILLA](), self.recipe)
        return CrossFit(
            self.student, self.gold, self.pool, base_models, self.recipe, classes, folds=self.folds, rows=self.rows,
            seed=self.recipe.seed, folder=None if self.out is None else self.out / FOLDER,
        )  # fmt: skip

    def _eliminate(self, predictions: dict[str, Tensor]) -> list[str]:
        """Without the candidates that are clearly behind; those that serve as label sources stay, for diversity."""
        scored = {name: probs for name, probs in predictions.items() if name in self.objectives}
        going_on = still_competitive(scored, self.gold.y)
        return [
            name
            for name in predictions
            if name in going_on or name not in self.objectives or (self.reconcile and name in SOURCES)
        ]

    def settings(self) -> dict[str, Any]:
        """What must be the same for a pilot to resume."""
        own = {"seed": self.recipe.seed, "folds": self.folds, "rows": self.rows, "reconcile": int(self.reconcile)}
        return shared_settings(self.student, self.recipe, gold=self.gold, pool=self.pool, **own)


@shows_options([*SHARED, *FINAL])
@checked_plainly
@spell_out(AutoOptions, keep_others=True)
@joined()
def auto(
    student: Student,
    gold: Gold,
    pool: Pool,
    *,
    test: Gold | tuple[Any, Any] | None = None,
    select: Gold | tuple[Any, Any] | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    notes: Mapping[str, Any] | None = None,
    evaluate: bool = False,
    executor: Executor | None = None,
    callbacks: Sequence[Callback] = (),
    progress: bool = True,
    **options: Any,
) -> Run:
    """Choose the method, or reconcile the labels, by a pilot on gold; then train as ``us.train`` would.

    ``methods``: the candidates, as for ``us.compare`` (None: a short list by the form of the labels). ``reconcile``:
    whether labels combined from all label sources are a candidate too. The pilot trains on ``pilot_rows`` rows of the
    pool, for ``pilot_epochs`` (None: as many as the training, at most 30), in ``folds`` parts of gold, over ``workers``
    processes or by an ``executor``. It does not use the test and select rows. With ``out``, pilot and training can both
    be stopped and resumed. ``evaluate`` as in ``us.train``. ``callbacks`` see the final training.
    """
    check_sets(gold, pool, both_for="auto")
    same_data(gold=gold, pool=pool, test=test, select=select)
    own, others = take_options(AutoOptions, options)
    validation = select if isinstance(select, Gold) else None
    final = {name: others.pop(name) for name in FINAL if name in others}
    recipe, chosen = resolve_options(student, gold, pool, others, select=validation)
    recipe = recipe.replace(**final)
    executor = executor_for(own.workers, executor)
    folder = on_rank_zero(lambda: usable_folder(out, resume=resume))
    labelled, _ = drop_unlabelled(pool)
    assert labelled is not None
    known = weighed(labelled, gold)
    objectives = candidates(gold, known) if own.methods is None else named_methods(own.methods, known)[0]
    short = recipe.replace(
        epochs=min(recipe.epochs, 30) if own.pilot_epochs is None else own.pilot_epochs,
        patience=None, refine=False, finetune_epochs=0, ema=None, checkpoint_every=None,
    )  # fmt: skip
    pilot = Pilot(student, gold, pool, objectives, short, own.folds, own.pilot_rows, own.reconcile, folder)
    relabel = Reconcile(own.folds, own.pilot_rows)
    decision = on_rank_zero(lambda: _earlier(folder, pilot) or _decided(pilot, relabel, executor, progress=progress))
    choice = decision["choice"]
    if choice not in objectives and choice != RECONCILED:
        raise UnderstudyError(f"the run in {folder} was made with {choice}, which is not among these methods")
    objective = objectives.get(choice) or METHODS[RECONCILED]()
    if choice == RECONCILED:
        objective = objective.replace(relabel=relabel)
    run = train_method(
        choice, student, gold, pool, objective, recipe, test=test, select=select, out=folder,
        resume=folder is not None, notes={**(notes or {}), **chosen, "auto": decision}, evaluate=evaluate,
        callbacks=callbacks, progress=progress,
    )  # fmt: skip
    if folder is not None and is_first():
        # The run's config has the decision; the pilot's parts are not needed again.
        shutil.rmtree(folder / FOLDER, ignore_errors=True)
    return run


def _decided(pilot: Pilot, relabel: Reconcile, executor: Executor, *, progress: bool) -> dict[str, Any]:
    """The pilot's decision, for the run's config; ``relabel`` keeps the reconciled labels."""
    scored, relabel.labels = pilot.run(executor, progress=progress)
    labelled = len(drop_unlabelled(pilot.pool)[0] or ())
    choice, ruled_out = _choice(scored, weighed(pilot.gold, pilot.gold), all_rows=pilot.rows >= labelled)
    return {
        "choice": choice, "ruled_out": ruled_out, "folds": pilot.folds, "pilot_rows": min(pilot.rows, labelled),
        "candidates": _table(scored.values()),
        "sources": [] if relabel.labels is None else _table(relabel.labels.sources, "probs"),
        "settings": {} if pilot.out is None else pilot.settings(),
    }  # fmt: skip


def _table(found: Iterable[Any], *without: str) -> list[dict[str, Any]]:
    """Dataclasses for JSON, without NaN."""
    return [
        {
            each.name: value
            for each in fields(one)
            if each.name not in without and (value := getattr(one, each.name)) == value
        }
        for one in found
    ]


def _earlier(folder: Path | None, pilot: Pilot) -> dict[str, Any] | None:
    """The decision of a finished run's pilot."""
    if folder is None or not (folder / "config.json").exists():
        return None
    decision = read_json(folder / "config.json").get("auto")
    if not isinstance(decision, dict):
        raise UnderstudyError(f"the run in {folder} was not made by auto; choose a new folder")
    check_same(decision.get("settings", {}), pilot.settings(), folder)
    return decision


def _choice(scored: dict[str, Candidate], gold: Gold, *, all_rows: bool) -> tuple[str, str | None]:
    """The method to train, and one that was ahead but ruled out. ``all_rows``: whether the pilot used the whole
    pool."""
    if not scored:
        return VANILLA, None
    reference = RECONCILED if RECONCILED in scored else VANILLA
    caution = RECONCILED_CAUTION if reference == RECONCILED else CAUTION
    choice = choose(scored, reference, caution=caution)
    if choice == GOLD_ONLY and not all_rows:
        # With more pool rows the others approach the teacher, so gold only must be more accurate than it.
        rows, labels = gold.calibration()
        teacher = 1.0
        if labels is not None and len(rows):
            teacher = float((labels.top1() == gold.y[rows]).double().mean())
        if scored[GOLD_ONLY].accuracy <= teacher:
            others = {name: one for name, one in scored.items() if name != GOLD_ONLY}
            return choose(others, reference, caution=caution), GOLD_ONLY
    return choice, None
