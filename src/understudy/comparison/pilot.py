"""The pilot of ``us.auto``: every candidate, trained without a fold of gold, is asked about that fold.

After all folds every gold row has been predicted by students that never saw it. Candidates that are clearly behind
leave after each fold. With a folder, finished parts are kept there: a pilot that was stopped goes on where it was.
"""

import math
import shutil
import warnings
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from understudy.comparison.deal import gold_passes
from understudy.comparison.folder import CompareFolder
from understudy.comparison.job import Student, initial_student, plain_settings
from understudy.comparison.judge import Judged, judge, still_racing
from understudy.comparison.progress import CellProgress
from understudy.comparison.recommend import GOLD_ONLY
from understudy.comparison.workers import in_workers
from understudy.data.crossfit import fold_rows
from understudy.data.examples import Gold, Pool
from understudy.errors import UnderstudyError, UnderstudyWarning
from understudy.objective import Objective
from understudy.store.files import locked, write_bytes
from understudy.store.fingerprint import fingerprint
from understudy.training.loop import train

FEWEST_ROWS = 20
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
    options: dict[str, Any]
    seed: int
    out: Path | None = None
    """The run's folder."""

    def run(self, workers: int, *, progress: bool = False) -> dict[str, Judged]:
        """Every candidate beside vanilla; nobody where gold is too small to tell."""
        # Rows chosen by active learning are no sample of anything: they train, and judge nobody.
        random = (~self.gold.chosen).nonzero().squeeze(1)
        needed = max(FEWEST_ROWS, self.folds)
        if len(random) < needed:
            warnings.warn(
                f"{len(random)} gold rows are too few to choose a method by ({needed} or more are needed); "
                "vanilla is trained",
                UnderstudyWarning,
                stacklevel=3,
            )
            return {}
        self.parts = self._parts(random)
        if self.out is None:
            return self._race(workers, progress)
        with locked(self.out):
            self._folder.open(self.settings(), {name: fingerprint(one) for name, one in self.objectives.items()})
            try:
                return self._race(workers, progress)
            except Exception:
                self._folder.forget_if_empty()
                raise

    def _race(self, workers: int, progress: bool) -> dict[str, Judged]:
        said: dict[str, Tensor] = {}
        racing = list(self.objectives)
        with CellProgress(len(racing) * self.folds, title="pilot", shown=progress) as bar:
            for fold in range(self.folds):
                parts = [(name, fold) for name in racing]
                left = [part for part in parts if not self._is_kept(part)]
                for part in parts:
                    if part not in left:
                        self._note(said, part, self._kept(part))
                        bar.skip()
                in_workers(self.predict, left, workers, on_done=lambda part, probs: self._done(said, part, probs, bar))
                racing = still_racing({name: said[name] for name in racing}, self.gold.y)
                bar.total = bar.done + len(racing) * (self.folds - fold - 1)
        return judge(said, self.gold.y)

    def predict(self, part: Part) -> Any:
        """What a candidate, trained without a fold of gold, says of its rows."""
        name, fold = part
        train_rows, held_out = self.parts[fold]
        gold = self.gold.take(train_rows)
        options, pool = dict(self.options), self.pool
        if name == GOLD_ONLY:
            options["gold_repeat"] = gold_passes(gold, pool, options["gold_repeat"])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnderstudyWarning)  # the training in full says it again
            try:
                run = train(
                    self.student, gold, None if name == GOLD_ONLY else pool, self.objectives[name],
                    seed=self.seed + fold, refine=False, progress=False, **options,
                )  # fmt: skip
            except UnderstudyError as error:
                raise UnderstudyError(f"pilot, {name}: {error}") from error
        return run.predict(self.gold.take(held_out).rows).numpy()

    def _parts(self, random: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Per fold the gold rows that train, and those that are asked about."""
        chosen = self.gold.chosen.nonzero().squeeze(1)
        return [
            (torch.cat([random[rest], chosen]), random[held_out])
            for rest, held_out in fold_rows(self.gold.take(random), self.folds, self.seed)
        ]

    def _note(self, said: dict[str, Tensor], part: Part, probs: Any) -> None:
        name, fold = part
        found = torch.from_numpy(probs)
        said.setdefault(name, torch.full((len(self.gold), found.shape[1]), math.nan))[self.parts[fold][1]] = found

    def _done(self, said: dict[str, Tensor], part: Part, probs: Any, bar: CellProgress) -> None:
        self._note(said, part, probs)
        if self.out is not None:
            content = BytesIO()
            np.save(content, probs, allow_pickle=False)
            write_bytes(self._file(part), content.getvalue())
        bar.cell(f"{part[0]}, fold {part[1] + 1}")

    def settings(self) -> dict[str, Any]:
        """What must be the same for a pilot to go on."""
        told: dict[str, Any] = {
            "gold": self.gold, "pool": self.pool, "student": initial_student(self.student, 0), "seed": self.seed,
            "folds": self.folds, **self.options,
        }  # fmt: skip
        return plain_settings(told)

    @property
    def _folder(self) -> CompareFolder:
        assert self.out is not None
        return CompareFolder(self.out / FOLDER)

    def _file(self, part: Part) -> Path:
        return self._folder.cell_file(*part).with_suffix(".npy")

    def _is_kept(self, part: Part) -> bool:
        return self.out is not None and self._file(part).exists()

    def _kept(self, part: Part) -> Any:
        file, rows = self._file(part), len(self.parts[part[1]][1])
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
