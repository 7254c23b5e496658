"""``us.auto``: a pilot asks several students about gold rows they have not seen; they are reconciled, or one is chosen.

    run = us.auto(student, gold, pool, epochs=30)
    run.config["auto"]         # what the pilot saw, what it chose, and whom it believed how far

The pilot trains every candidate on a part of the pool and three quarters of gold, and asks it about the rest; after
four such folds every gold row has been predicted by students that never saw it. Candidates that are clearly behind
leave after each fold. What all of them, the rows' neighbours and the teacher say is weighed on gold and becomes the
pool's *reconciled* labels (``reconciling/``); a student trained on these is one more candidate, judged on the same rows
by labels that were made without them. It has the benefit of the doubt: another candidate is taken only where it is
surely ahead (``judge.py``). With a folder, finished parts are kept there: a pilot that was stopped goes on.
"""

import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Unpack

from torch import Tensor

from understudy.arguments import checked_plainly
from understudy.comparison.cells import (
    FEWEST_ROWS,
    Methods,
    Student,
    candidates,
    initial_student,
    named_methods,
    shared_settings,
    train_method,
)
from understudy.comparison.interval import signed
from understudy.comparison.judge import CAUTION, SURE, Candidate, choose, judge, still_racing
from understudy.comparison.outcome import GOLD_ONLY, RECONCILED, VANILLA
from understudy.data.examples import Gold, Pool, drop_unlabelled
from understudy.data.weighing import weighed
from understudy.errors import UnderstudyError, warn
from understudy.methods import METHODS
from understudy.methods.reconciled import Reconcile
from understudy.objective import Objective
from understudy.parallel.executors import Executor, executor_for
from understudy.reconciling.crossfit import CrossFit
from understudy.reconciling.members import Member, Trained, flat_members
from understudy.reconciling.reconcile import judged_student, reconciled_pool
from understudy.store.files import locked, read_json
from understudy.store.option_fields import plain
from understudy.store.settings import check_same
from understudy.training.callbacks import Callback
from understudy.training.distributed import is_first, on_rank_zero, together
from understudy.training.ema import EMA
from understudy.training.keywords import takes
from understudy.training.learner import check_outputs
from understudy.training.options import SharedOptions, TrainingOptions
from understudy.training.run import Run, usable_folder
from understudy.training.train import settled

FOLDER = "pilot"
"""In the run's folder, until the run is finished."""
WITNESSES = (GOLD_ONLY, VANILLA, "gce", "forward", "self_distillation")


@dataclass
class Pilot:
    student: Student
    gold: Gold
    pool: Pool
    objectives: dict[str, Objective]
    recipe: TrainingOptions
    folds: int
    rows: int
    """How many pool rows train the candidates."""
    reconcile: bool = True
    out: Path | None = None
    """The run's folder."""

    def run(self, executor: Executor, *, progress: bool = False) -> tuple[dict[str, Candidate], Reconcile]:
        """Every candidate beside the one that has the benefit of the doubt, and the labels that were made; nobody where
        gold is too small to tell."""
        relabel = Reconcile(self.folds, self.rows)
        random, needed = int((~self.gold.chosen).sum()), max(FEWEST_ROWS, self.folds)
        if random < needed:
            warn(
                f"{random} gold rows are too few to choose a method by ({needed} or more are needed); "
                "vanilla is trained"
            )
            return {}, relabel
        with nullcontext() if self.out is None else locked(self.out):
            said = self.members.run(executor, race=self._race, progress=progress)
            predictions = {name: probs for name, probs in said.gold.items() if name in self.objectives}
            if self.reconcile:
                relabel.made = reconciled_pool(self.members, said)
                predictions[RECONCILED] = judged_student(self.members, said, executor, progress=progress)
        return judge(predictions, self.gold.y, RECONCILED if self.reconcile else VANILLA), relabel

    @cached_property
    def members(self) -> CrossFit:
        """The candidates, and whoever can testify beside them."""
        members: dict[str, Member] = {
            name: Trained(objective, alone=name == GOLD_ONLY) for name, objective in self.objectives.items()
        }
        if self.reconcile:
            members |= flat_members(self.gold, self.pool, self.classes, METHODS[VANILLA](), self.recipe)
        return self._crossfit(members, self._folder)

    def _crossfit(self, members: dict[str, Member], folder: Path | None) -> CrossFit:
        return CrossFit(
            self.student, self.gold, self.pool, members, self.recipe, self.classes, folds=self.folds, rows=self.rows,
            seed=self.recipe.seed, folder=folder,
        )  # fmt: skip

    @cached_property
    def classes(self) -> int:
        return check_outputs(initial_student(self.student, 0), self.gold, drop_unlabelled(self.pool)[0])

    @property
    def _folder(self) -> Path | None:
        return None if self.out is None else self.out / FOLDER

    @property
    def sees_all(self) -> bool:
        assert self.pool.teacher is not None
        return self.rows >= int(self.pool.teacher.labelled().sum())

    def _race(self, predictions: dict[str, Tensor]) -> list[str]:
        """Who is clearly behind leaves, but for those whose word is worth having because they err each in their way."""
        running = {name: probs for name, probs in predictions.items() if name in self.objectives}
        going_on = still_racing(running, self.gold.y)
        return [
            name
            for name in predictions
            if name in going_on or name not in self.objectives or (self.reconcile and name in WITNESSES)
        ]

    def settings(self) -> dict[str, Any]:
        """What must be the same for a pilot to go on."""
        told = {"seed": self.recipe.seed, "folds": self.folds, "rows": self.rows, "reconcile": int(self.reconcile)}
        return shared_settings(self.student, self.recipe, gold=self.gold, pool=self.pool, **told)


@takes(SharedOptions)
@checked_plainly
@together
def auto(
    student: Student,
    gold: Gold,
    pool: Pool,
    *,
    methods: Methods | None = None,
    reconcile: bool = True,
    pilot_rows: int = 20_000,
    pilot_epochs: int | None = None,
    folds: int = 4,
    seed: int = 0,
    test: Gold | tuple[Any, Any] | None = None,
    select: Gold | tuple[Any, Any] | None = None,
    out: str | Path | None = None,
    ema: EMA | None = None,
    checkpoint_every: int | None = None,
    resume: bool = False,
    notes: Mapping[str, Any] | None = None,
    workers: int | None = None,
    executor: Executor | None = None,
    callbacks: Sequence[Callback] = (),
    progress: bool = True,
    **options: Unpack[SharedOptions],
) -> Run:
    """Reconcile the labels, or choose the method, by a pilot on gold; then train as ``us.train`` would.

    ``methods``: what to choose from, as for ``us.compare`` (None: a short list that suits the labels). ``reconcile``:
    whether labels made of everybody's word are a candidate too. The pilot sees ``pilot_rows`` rows of the pool, for
    ``pilot_epochs`` (None: as many as the training, at most 30), in ``folds`` parts of gold, over ``workers`` processes
    or by an ``executor``. The test and select rows are not looked at by the pilot. With ``out``, pilot and training can
    both be stopped and resumed. ``callbacks`` see the training in full.
    """
    if not isinstance(gold, Gold) or not isinstance(pool, Pool):
        raise UnderstudyError("auto needs gold and a pool to choose a method by; pass us.Gold(x, y, …), us.Pool(x, …)")
    told, length = settled(student, gold, pool, options, select=select if isinstance(select, Gold) else None)
    recipe = replace(TrainingOptions.shared(told, "auto"), seed=seed)
    folds, pilot_rows, pilot_epochs = map(plain, (folds, pilot_rows, pilot_epochs))
    executor = executor_for(workers, executor)
    folder = on_rank_zero(lambda: usable_folder(out, resume=resume))
    labelled, _ = drop_unlabelled(pool)
    assert labelled is not None
    known = weighed(labelled, gold)
    objectives = candidates(gold, known) if methods is None else named_methods(methods, known)[0]
    if pilot_rows < 1:
        raise UnderstudyError(f"pilot_rows={pilot_rows} must be at least 1")
    short = min(recipe.epochs, 30) if pilot_epochs is None else pilot_epochs
    short_recipe = replace(recipe, epochs=short, patience=None, refine=False, finetune_epochs=0)
    pilot = Pilot(student, gold, pool, objectives, short_recipe, folds, pilot_rows, reconcile, folder)
    relabel = Reconcile(folds, pilot_rows)
    decision = on_rank_zero(lambda: _earlier(folder, pilot) or _decided(pilot, relabel, executor, progress=progress))
    choice = decision["choice"]
    if choice not in objectives and choice != RECONCILED:
        raise UnderstudyError(f"the run in {folder} was made with {choice}, which is not among these methods")
    objective = objectives.get(choice) or METHODS[RECONCILED]()
    if choice == RECONCILED:
        objective = objective.replace(relabel=relabel)
    run = train_method(
        choice, student, gold, pool, objective, replace(recipe, ema=ema, checkpoint_every=checkpoint_every), test=test,
        select=select, out=folder, resume=folder is not None, notes={**(notes or {}), **length, "auto": decision},
        callbacks=callbacks, progress=progress,
    )  # fmt: skip
    if folder is not None and is_first():
        # The run's config has what the pilot found; its parts are not needed again.
        shutil.rmtree(folder / FOLDER, ignore_errors=True)
    return run


def _decided(pilot: Pilot, relabel: Reconcile, executor: Executor, *, progress: bool) -> dict[str, Any]:
    """What the pilot says, for the run's config; ``relabel`` keeps the labels that it made."""
    judged, made = pilot.run(executor, progress=progress)
    relabel.made = made.made
    choice, ruled_out = _choice(judged, weighed(pilot.gold, pilot.gold), sees_all=pilot.sees_all)
    labelled, _ = drop_unlabelled(pilot.pool)
    assert labelled is not None
    return {
        "choice": choice, "ruled_out": ruled_out, "folds": pilot.folds,
        "pilot_rows": min(pilot.rows, len(labelled)), "candidates": _table(judged.values()),
        "witnesses": [] if made.made is None else _table(made.made.witnesses, "probs"),
        "settings": {} if pilot.out is None else pilot.settings(),
    }  # fmt: skip


def _table(found: Iterable[Any], *without: str) -> list[dict[str, Any]]:
    """Dataclasses as JSON can hold them: numbers that are none are left out."""
    return [
        {
            each.name: value
            for each in fields(one)
            if each.name not in without and (value := getattr(one, each.name)) == value
        }
        for one in found
    ]


def why_chosen(run: Run) -> str | None:
    """What the pilot chose and on what grounds, in words; None for a run that had no pilot."""
    decision = run.config.get("auto")
    if decision is None:
        return None
    choice, by_name = decision["choice"], {one["method"]: one for one in decision["candidates"]}
    if not by_name:
        return f"{choice}, because gold is too small to choose by"
    chosen, rival = by_name[choice], decision.get("ruled_out")
    reference = RECONCILED if RECONCILED in by_name else VANILLA
    where = f"on {chosen['rows']:,} gold rows in a pilot on {decision['pilot_rows']:,} pool rows"
    if choice == reference:
        reason = f"{choice}: no other method is surely ahead {where}"
    else:
        score = f"{signed(chosen['gain'])} ± {100 * chosen['error']:.1f} points"
        reason = f"{choice}: score {score} over {reference} (accuracy {signed(chosen['accuracy_gain'])}) {where}"
    if choice == RECONCILED:
        believed = [
            f"{one['name']} {one['weight']:.2f}" for one in decision.get("witnesses", []) if one["weight"] > 0.005
        ]
        reason += f"; believed: {', '.join(believed)}"
    if rival is not None:
        closer = "whom the whole pool brings the others closer to"
        reason += f"; {rival} was ahead, but no better than the teacher, {closer}"
    return reason


def _earlier(folder: Path | None, pilot: Pilot) -> dict[str, Any] | None:
    """What the pilot of a finished run had decided."""
    if folder is None or not (folder / "config.json").exists():
        return None
    decision = read_json(folder / "config.json").get("auto")
    if not isinstance(decision, dict):
        raise UnderstudyError(f"the run in {folder} was not made by auto; choose a new folder")
    check_same(decision.get("settings", {}), pilot.settings(), folder)
    return decision


def _choice(judged: dict[str, Candidate], gold: Gold, *, sees_all: bool) -> tuple[str, str | None]:
    """Whom to take, and who was ahead but ruled out."""
    if not judged:
        return VANILLA, None
    reference = RECONCILED if RECONCILED in judged else VANILLA
    caution = SURE if reference == RECONCILED else CAUTION
    choice = choose(judged, reference, caution=caution)
    if choice == GOLD_ONLY and not sees_all:
        # More pool rows would bring the others closer to the teacher, so gold alone must be ahead of that too.
        rows, labels = gold.calibration()
        teacher = 1.0
        if labels is not None and len(rows):
            teacher = float((labels.top1() == gold.y[rows]).double().mean())
        if judged[GOLD_ONLY].accuracy <= teacher:
            others = {name: one for name, one in judged.items() if name != GOLD_ONLY}
            return choose(others, reference, caution=caution), GOLD_ONLY
    return choice, None
