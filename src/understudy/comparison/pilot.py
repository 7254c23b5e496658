"""The pilot of ``us.auto``: every candidate, trained without a fold of gold, is asked about that fold.

After all folds every gold row has been predicted by students that never saw it. Candidates that are clearly behind
leave after each fold. With a folder, finished parts are kept there: a pilot that was stopped goes on where it was.
"""

import math
import shutil
import warnings
from contextlib import closing
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from understudy.comparison.candidates import FEWEST_ROWS
from understudy.comparison.cells import Student, alone, shared_settings
from understudy.comparison.executors import Executor
from understudy.comparison.folder import CompareFolder
from understudy.comparison.judge import Candidate, judge, still_racing
from understudy.comparison.outcome import GOLD_ONLY
from understudy.data.examples import Gold, Pool
from understudy.data.splits import fold_rows
from understudy.errors import UnderstudyError, UnderstudyWarning, warn
from understudy.objective import Objective
from understudy.store.files import locked, write_bytes
from understudy.store.progress import ProgressBar
from understudy.training.loop import train
from understudy.training.recipe import Recipe

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
        if self.out is None:
            return self._race(executor, progress)
        with locked(self.out), self._folder.begun(self.settings(), self.objectives):
            return self._race(executor, progress)

    def _race(self, executor: Executor, progress: bool) -> dict[str, Candidate]:
        predictions: dict[str, Tensor] = {}
        racing = list(self.objectives)
        with ProgressBar("pilot", len(racing) * self.folds, shown=progress) as bar:
            for fold in range(self.folds):
                left = []
                for name in racing:
                    if self.out is not None and self._file(name, fold).exists():
                        self._add(predictions, name, fold, self._read(name, fold))
                        bar.skip()
                    else:
                        left.append((name, fold))
                with closing(executor.map(self.predict, left)) as results:
                    for number, probs in results:
                        name = left[number][0]
                        self._add(predictions, name, fold, probs)
                        self._write(name, fold, probs)
                        bar.advance(f"{name}, fold {fold + 1}")
                racing = still_racing({name: predictions[name] for name in racing}, self.gold.y)
                bar.total = bar.done + len(racing) * (self.folds - fold - 1)
        return judge(predictions, self.gold.y)

    def predict(self, part: Part) -> Any:
        """What a candidate, trained without a fold of gold, says of its rows."""
        name, fold = part
        train_rows, held_out = self.parts[fold]
        gold = self.gold.take(train_rows)
        recipe = replace(self.recipe, seed=self.seed + fold, refine=False)
        pool: Pool | None = self.pool
        if name == GOLD_ONLY:
            recipe, pool = alone(recipe, gold, self.pool), None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnderstudyWarning)  # the training in full says it again
            try:
                run = train(self.student, gold, pool, self.objectives[name], progress=False, **recipe.arguments())
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

    def _add(self, predictions: dict[str, Tensor], name: str, fold: int, probs: Any) -> None:
        every = predictions.setdefault(name, torch.full((len(self.gold), probs.shape[1]), math.nan))
        every[self.parts[fold][1]] = torch.from_numpy(probs)

    def settings(self) -> dict[str, Any]:
        """What must be the same for a pilot to go on."""
        return shared_settings(
            self.student, self.recipe, gold=self.gold, pool=self.pool, seed=self.seed, folds=self.folds
        )

    @property
    def _folder(self) -> CompareFolder:
        assert self.out is not None
        return CompareFolder(self.out / FOLDER)

    def _file(self, name: str, fold: int) -> Path:
        return self._folder.cells.file((name, fold), ".npy")

    def _write(self, name: str, fold: int, probs: Any) -> None:
        if self.out is not None:
            content = BytesIO()
            np.save(content, probs, allow_pickle=False)
            write_bytes(self._file(name, fold), content.getvalue())

    def _read(self, name: str, fold: int) -> Any:
        file, rows = self._file(name, fold), len(self.parts[fold][1])
        try:
            probs = np.load(file, allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise UnderstudyError(f"{file} cannot be read ({error}); remove it to run that part again") from error
        if probs.ndim != 2 or len(probs) != rows:
            raise UnderstudyError(f"{file} has shape {probs.shape} for {rows} rows; remove it to run that part again")
        return probs


def forget(out: Path) -> None:
    """The run's config has what the pilot found; its parts are not needed again."""
    shutil.rmtree(out / FOLDER, ignore_errors=True)
