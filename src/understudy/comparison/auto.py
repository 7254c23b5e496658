"""``us.auto``: a cheap pilot on a slice of the pool decides the method, then the student is trained in full.

    run = us.auto(student, gold, pool, epochs=30)
    run.config["auto"]         # what the pilot saw, and what it chose

The pilot trains every candidate on a slice of the pool and three quarters of gold, and asks it about
the last quarter; after four such folds every gold row has been predicted by students that never saw it.
Candidates that are clearly behind leave after each fold. With a folder, finished parts are kept there: a pilot that was
stopped goes on where it was. ``judge.py`` has the rule by which the predictions decide; vanilla has the benefit of the
doubt.
"""

import math
import shutil
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import torch
from torch import Tensor

from understudy.comparison.cells import (
    FEWEST_ROWS,
    Methods,
    Student,
    candidates,
    named_methods,
    shared_settings,
    train_method,
)
from understudy.comparison.compare import CompareFolder
from understudy.comparison.executors import Executor, executor_for
from understudy.comparison.interval import signed
from understudy.comparison.judge import Candidate, choose, judge, still_racing
from understudy.comparison.outcome import GOLD_ONLY, VANILLA
from understudy.data.examples import Gold, Pool, drop_unlabelled
from understudy.data.splits import fold_rows, random_rows
from understudy.data.weighing import weighed
from understudy.errors import UnderstudyError, UnderstudyWarning, warn
from understudy.objective import Objective
from understudy.store.files import locked, read_json, write_bytes
from understudy.store.progress import ProgressBar
from understudy.store.settings import check_same
from understudy.training.callbacks import Callback
from understudy.training.ema import EMA
from understudy.training.recipe import Recipe, SharedOptions, plain, takes
from understudy.training.run import Run, usable_folder

FOLDER = "pilot"
"""In the run's folder, until the run is finished."""
Part = tuple[str, int]
"""(candidate, fold)."""


@dataclass
class Pilot:
    student: Student
    gold: Gold
    pool: Pool
    """The slice that the pilot sees."""
    objectives: dict[str, Objective]
    folds: int
    recipe: Recipe
    seed: int
    out: Path | None = None
    """The run's folder."""

    def run(self, executor: Executor, *, progress: bool = False) -> dict[str, Candidate]:
        """Every candidate beside vanilla; nobody where gold is too small to tell."""
        # Rows chosen by active learning are no sample of anything: they train, and judge nobody.
        random = (~self.gold.chosen).nonzero().squeeze(1)
        needed = max(FEWEST_ROWS, self.folds)
        if len(random) < needed:
            warn(
                f"{len(random)} gold rows are too few to choose a method by ({needed} or more are needed); "
                "vanilla is trained"
            )
            return {}
        self.parts = self._parts(random)
        with tempfile.TemporaryDirectory() as scratch, locked(self.out or Path(scratch)):
            folder = CompareFolder((self.out or Path(scratch)) / FOLDER)
            with folder.begun(self.settings(), self.objectives):
                return self._race(folder, executor, progress)

    def _race(self, folder: CompareFolder, executor: Executor, progress: bool) -> dict[str, Candidate]:
        predictions: dict[str, Tensor] = {}
        racing = list(self.objectives)
        with ProgressBar("pilot", len(racing) * self.folds, shown=progress) as bar:
            for fold in range(self.folds):
                files = {(name, fold): folder.cells.file((name, fold), ".npy") for name in racing}
                left = [part for part, file in files.items() if not file.exists()]
                bar.skip(len(files) - len(left))
                with closing(executor.map(self.predict, left)) as results:
                    for number, probs in results:
                        content = BytesIO()
                        np.save(content, probs, allow_pickle=False)
                        write_bytes(files[left[number]], content.getvalue())
                        bar.advance(f"{left[number][0]}, fold {fold + 1}")
                for (name, _), file in files.items():
                    probs = _read(file, len(self.parts[fold][1]))
                    every = predictions.setdefault(name, torch.full((len(self.gold), probs.shape[1]), math.nan))
                    every[self.parts[fold][1]] = torch.from_numpy(probs)
                racing = still_racing({name: predictions[name] for name in racing}, self.gold.y)
                bar.total = bar.done + len(racing) * (self.folds - fold - 1)
        return judge(predictions, self.gold.y)

    def predict(self, part: Part) -> Any:
        """What a candidate, trained without a fold of gold, says of its rows."""
        name, fold = part
        train_rows, held_out = self.parts[fold]
        gold = self.gold.take(train_rows)
        recipe = replace(self.recipe, seed=self.seed + fold, refine=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnderstudyWarning)  # the training in full says it again
            try:
                run = train_method(name, self.student, gold, self.pool, self.objectives[name], recipe, progress=False)
            except UnderstudyError as error:
                raise UnderstudyError(f"pilot, {name}: {error}") from error
        return run.predict(self.gold.take(held_out).rows).numpy()

    def _parts(self, random: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Per fold the gold rows that train, and those that are asked about."""
        chosen = self.gold.chosen.nonzero().squeeze(1)
        return [
            (torch.cat([random[rest], chosen]), random[held_out])
            for rest, held_out in fold_rows(self.gold.y[random], self.folds, self.seed)
        ]

    def settings(self) -> dict[str, Any]:
        """What must be the same for a pilot to go on."""
        return shared_settings(
            self.student, self.recipe, gold=self.gold, pool=self.pool, seed=self.seed, folds=self.folds
        )


def _read(file: Path, rows: int) -> Any:
    try:
        probs = np.load(file, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise UnderstudyError(f"{file} cannot be read ({error}); remove it to run that part again") from error
    if probs.ndim != 2 or len(probs) != rows:
        raise UnderstudyError(f"{file} has shape {probs.shape} for {rows} rows; remove it to run that part again")
    return probs


@takes(SharedOptions)
def auto(
    student: Student,
    gold: Gold,
    pool: Pool,
    *,
    methods: Methods | None = None,
    pilot_rows: int = 5000,
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
    """Choose the method by a pilot on gold, then train with it as ``us.train`` would.

    ``methods``: what to choose from, as for ``us.compare`` (None: a short list that suits the labels). The pilot sees
    ``pilot_rows`` rows of the pool, for ``pilot_epochs`` (None: as many as the training, at most 30), in ``folds``
    parts of gold, over ``workers`` processes or by an ``executor``. The test and select rows are not looked at by the
    pilot. With ``out``, pilot and training can both be stopped and resumed. ``callbacks`` see the training in full.
    """
    recipe = Recipe.shared(options, "auto")
    if not isinstance(gold, Gold) or not isinstance(pool, Pool):
        raise UnderstudyError("auto needs gold and a pool to choose a method by; pass us.Gold(x, y, …), us.Pool(x, …)")
    folds, pilot_rows, pilot_epochs = map(plain, (folds, pilot_rows, pilot_epochs))
    executor = executor_for(workers, executor)
    folder = usable_folder(out, resume=resume)
    labelled, _ = drop_unlabelled(pool)
    assert labelled is not None
    known = weighed(labelled, gold)
    objectives = candidates(gold, known) if methods is None else named_methods(methods, known)[0]
    if pilot_rows < 1:
        raise UnderstudyError(f"pilot_rows={pilot_rows} must be at least 1")
    slice_ = labelled.take(random_rows(len(labelled), pilot_rows, seed).sort().values)
    short = min(recipe.epochs, 30) if pilot_epochs is None else pilot_epochs
    pilot_recipe = replace(recipe, epochs=short, patience=None)
    pilot = Pilot(student, gold, slice_, objectives, folds, pilot_recipe, seed, folder)
    decision = None if folder is None else _earlier(folder, pilot)
    if decision is None:
        judged = pilot.run(executor, progress=progress)
        choice, ruled_out = _choice(judged, weighed(gold, gold), sees_all=len(slice_) == len(labelled))
        table = [{name: value for name, value in asdict(one).items() if value == value} for one in judged.values()]
        decision = {
            "choice": choice, "ruled_out": ruled_out, "pilot_rows": len(slice_), "folds": folds, "candidates": table,
            "settings": {} if folder is None else pilot.settings(),
        }  # fmt: skip
    choice = decision["choice"]
    if choice not in objectives:
        raise UnderstudyError(f"the run in {folder} was made with {choice}, which is not among these methods")
    recipe = replace(recipe, seed=seed, ema=ema, checkpoint_every=checkpoint_every)
    run = train_method(
        choice, student, gold, pool, objectives[choice], recipe, test=test, select=select, out=folder,
        resume=folder is not None, notes={**(notes or {}), "auto": decision}, callbacks=callbacks, progress=progress,
    )  # fmt: skip
    if folder is not None:
        # The run's config has what the pilot found; its parts are not needed again.
        shutil.rmtree(folder / FOLDER, ignore_errors=True)
    return run


def why_chosen(run: Run) -> str | None:
    """What the pilot chose and on what grounds, in words; None for a run that had no pilot."""
    decision = run.config.get("auto")
    if decision is None:
        return None
    choice, by_name = decision["choice"], {one["method"]: one for one in decision["candidates"]}
    if not by_name:
        return f"{choice}, because gold is too small to choose by"
    chosen, rival = by_name[choice], decision.get("ruled_out")
    where = f"on {chosen['rows']:,} gold rows in a pilot on {decision['pilot_rows']:,} pool rows"
    if choice == VANILLA:
        reason = f"{choice}: no other method is surely ahead {where}"
    else:
        score = f"{signed(chosen['gain'])} ± {100 * chosen['error']:.1f} points"
        reason = f"{choice}: score {score} over {VANILLA} (accuracy {signed(chosen['accuracy_gain'])}) {where}"
    if rival is not None:
        closer = "whom the whole pool brings the others closer to"
        reason += f"; {rival} was ahead, but no better than the teacher, {closer}"
    return reason


def _earlier(folder: Path, pilot: Pilot) -> dict[str, Any] | None:
    """What the pilot of a finished run had decided."""
    if not (folder / "config.json").exists():
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
    choice = choose(judged)
    if choice == GOLD_ONLY and not sees_all:
        # More pool rows would bring the others closer to the teacher, so gold alone must be ahead of that too.
        rows, labels = gold.estimates()
        teacher = 1.0
        if labels is not None and len(rows):
            teacher = float((labels.top1() == gold.y[rows]).double().mean())
        if judged[GOLD_ONLY].accuracy <= teacher:
            return choose({name: one for name, one in judged.items() if name != GOLD_ONLY}), GOLD_ONLY
    return choice, None
