"""Out-of-fold predictions of base models: each is trained on a part of gold and pool, and predicts the rest.

Gold and the pool rows that train are split into folds together. The base model of a fold trains on the other folds, so
that neither a gold row's label nor a pool row's imperfect label reaches the model that predicts that row. Pool rows
that train no base model (they have no label, or the pool is larger than ``rows``) get the mean over all folds.

    fitted = CrossFit(student, gold, pool, {"gce": TrainedModel(us.gce())}, recipe, classes, folds=4, rows=20_000)
    predictions = fitted.run(executor)
    predictions.gold["gce"], predictions.pool["gce"]             # (n, C) and (N, C)

With a folder, finished parts are kept there, and an interrupted run resumes.
"""

import hashlib
import math
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from understudy.data.examples import Gold, Pool
from understudy.data.splits import fold_rows, random_rows
from understudy.errors import UnderstudyError, warn
from understudy.maths.proportions import disagreement
from understudy.models.registry import Student
from understudy.objective import Objective
from understudy.reconciling.base_models import BaseModel, Fold, NearestNeighbours, Neighbours
from understudy.store.arrow import Array
from understudy.store.checked_folder import FolderKind, Jobs
from understudy.store.console import ProgressBar
from understudy.store.files import write_bytes
from understudy.store.fingerprints import fingerprint
from understudy.store.settings import check_same
from understudy.training.automatic_options import c_on_gold
from understudy.training.evaluation import COMPARED_ROWS
from understudy.training.fit_together import can_stack
from understudy.training.options import AUTO, TrainingOptions

#: (base model, its folds that are trained together).
Part = tuple[str, tuple[int, ...]]
SETTINGS = "settings.json"
CROSS_FIT = FolderKind("cross-fit", SETTINGS)


@dataclass
class OutOfFold:
    """Predictions of rows that the base models were not trained on."""

    #: ``(n, C)`` each; NaN on rows without a prediction.
    gold: dict[str, Tensor] = field(default_factory=dict)
    #: ``(N, C)`` each, of the base models that were trained in every fold.
    pool: dict[str, Tensor] = field(default_factory=dict)
    #: The pool's predictions by the model of each fold, ``(N, C)`` each, also of its training rows. Memory-mapped.
    by_fold: dict[str, list[Array]] = field(default_factory=dict)

    def disagreement(self, name: str) -> float:
        """Of a base model's folds, on (the first) rows of the pool."""
        return disagreement([probs[:COMPARED_ROWS].argmax(1) for probs in self.by_fold[name]])


@dataclass
class CrossFit:
    student: Student
    gold: Gold
    pool: Pool
    base_models: Mapping[str, BaseModel]
    recipe: TrainingOptions
    classes: int
    folds: int = 4
    #: How many pool rows train base models; None: all that have a label.
    rows: int | None = None
    seed: int = 0
    folder: Path | None = None
    #: Base models whose failure is an error; any other is left out with a warning.
    needed: tuple[str, ...] = ("gold only", "vanilla")
    #: As ``Fold.c``; chosen on gold where the penalty is left open.
    c: tuple[float, float] | None = None
    #: These choices, as a run's config keeps them.
    chosen_penalties: tuple[dict[str, Any], dict[str, Any]] | None = None

    def __post_init__(self) -> None:
        if self.rows is not None and self.rows < 1:
            raise UnderstudyError(f"rows={self.rows} must be at least 1, or None for all rows of the pool")

    @cached_property
    def evaluation_rows(self) -> Tensor:
        """The gold rows that get out-of-fold predictions: all but those chosen by active learning, which only train."""
        return (~self.gold.chosen).nonzero().squeeze(1)

    @cached_property
    def gold_fold(self) -> Tensor:
        """The fold in which each gold row is held out, ``(n,)``; −1: none."""
        fold = torch.full((len(self.gold),), -1)
        y = self.gold.y[self.evaluation_rows]
        for number, (_, held_out) in enumerate(fold_rows(y, self.folds, self.seed, stratify=False)):
            fold[self.evaluation_rows[held_out]] = number
        return fold

    @cached_property
    def pool_fold(self) -> Tensor:
        """The same for pool rows, ``(N,)``; −1 where they train no base model."""
        assert self.pool.teacher is not None
        labelled = self.pool.teacher.labelled().nonzero().squeeze(1)
        drawn = labelled[random_rows(len(labelled), self.rows or len(labelled), self.seed)]
        fold = torch.full((len(self.pool),), -1)
        fold[drawn] = torch.arange(len(drawn)) % self.folds
        return fold

    def fold(self, number: int) -> Fold:
        mine = self.gold_fold == number
        return Fold(
            number=number, student=self.student, recipe=self.recipe, classes=self.classes, c=self.c,
            gold=self.gold.take((~mine).nonzero().squeeze(1)), held_out=self.gold.take(mine.nonzero().squeeze(1)),
            pool=self.pool, training_rows=((self.pool_fold >= 0) & (self.pool_fold != number)).nonzero().squeeze(1),
            is_held_out=mine, neighbours=lambda: self.neighbours,
        )  # fmt: skip

    @cached_property
    def neighbours(self) -> Neighbours:
        return Neighbours.find(self.gold, self.pool, (self.pool_fold >= 0).nonzero().squeeze(1))

    def predict_part(self, part: Part) -> Any:
        """Of each fold the predictions of its gold rows and of the pool, ``(held out + N, C)`` float32; or why there
        are none."""
        name, numbers = part
        try:
            found = self.base_models[name].predict_out_of_fold([self.fold(number) for number in numbers])
            return [probs.float().numpy() for probs in found]
        except UnderstudyError as error:
            return str(error)

    def run(self, executor: Any, *, progress: bool = False) -> OutOfFold:
        """``executor``: as in ``parallel/executors.py``."""
        predictions = OutOfFold()
        bar = ProgressBar("base models", len(self.base_models) * self.folds, shown=progress)
        with self._opened() as parts, bar:
            bar.show("")
            if self.c is None and self.recipe.weight_decay == AUTO:
                # On all of gold, once for all base models: a single number reveals little about any one row.
                some = self.pool.take((self.pool_fold >= 0).nonzero().squeeze(1))
                alone, with_pool = (c_on_gold(self.student, self.gold, each, self.recipe) for each in (None, some))
                self.chosen_penalties, self.c = (alone, with_pool), (alone["c"], with_pool["c"])
            wanted = [(name, number) for name in self.base_models for number in range(self.folds)]
            for (name, number), probs in self._predictions(wanted, parts, executor, bar).items():
                self._add(predictions, name, number, probs)
        return predictions

    def _predictions(
        self, wanted: list[tuple[str, int]], parts: Jobs, executor: Any, bar: ProgressBar
    ) -> dict[tuple[str, int], Array]:
        """By base model and fold, but for base models that failed; those that are in the folder are not made again."""
        work, failed = fingerprint(parts.settings), set[str]()
        files = {each: parts.file(each, ".npy") for each in wanted}
        found = {each: _read(file, work) for each, file in files.items() if file.exists()}
        bar.skip(len(found))
        missing = [each for each in wanted if each not in found]
        if any(isinstance(self.base_models[name], NearestNeighbours) for name, _ in missing):
            _ = self.neighbours  # now, once, and not in every process
        left = self._together(missing)
        with closing(executor.map(self.predict_part, left)) as results:
            for place, made in results:
                name, numbers = left[place]
                bar.advance(name, len(numbers))
                if isinstance(made, str):
                    if name not in failed:
                        self._leave_out(name, made)
                    failed.add(name)
                    continue
                for number, probs in zip(numbers, made, strict=True):
                    _write(files[name, number], probs, work)
                    found[name, number] = _read(files[name, number], work)
        return {each: found[each] for each in wanted if each[0] not in failed}

    def _together(self, missing: list[tuple[str, int]]) -> list[Part]:
        """All folds of a base model as one part where the student can be trained for them in step."""
        if not can_stack(self.student, self.recipe, Objective(name="vanilla")):
            return [(name, (number,)) for name, number in missing]
        names = dict.fromkeys(name for name, _ in missing)
        return [(name, tuple(number for other, number in missing if other == name)) for name in names]

    def _leave_out(self, name: str, reason: str) -> None:
        if name in self.needed:
            raise UnderstudyError(f"{name}, trained without a part of gold: {reason}")
        warn(f"{name} is left out: trained without a part of gold, {reason}")

    def _add(self, predictions: OutOfFold, name: str, number: int, probs: Array) -> None:
        """Enter the predictions of one base model in one fold."""
        mine = self.gold_fold == number
        held_out = int(mine.sum())
        on_gold = predictions.gold.setdefault(name, torch.full((len(self.gold), self.classes), math.nan))
        on_gold[mine] = torch.tensor(probs[:held_out])
        predictions.by_fold.setdefault(name, []).append(probs[held_out:])
        on_pool = torch.tensor(probs[held_out:])
        total = predictions.pool.setdefault(name, torch.zeros(len(self.pool), self.classes))
        no_fold, own = self.pool_fold < 0, self.pool_fold == number
        total[no_fold] += on_pool[no_fold] / self.folds
        total[own] = on_pool[own]

    @contextmanager
    def _opened(self) -> Iterator[Jobs]:
        """The folder of finished parts, if its settings are the same."""
        with tempfile.TemporaryDirectory() as scratch:
            folder = self.folder or Path(scratch)
            file, settings = folder / SETTINGS, {} if self.folder is None else self.settings()
            if not file.exists():
                CROSS_FIT.write(folder, {"settings": settings})
            stored = CROSS_FIT.read(folder)["settings"]
            check_same(stored, settings, folder)
            parts = Jobs(folder / "parts", settings=stored)
            try:
                yield parts
            except Exception:
                if not parts.folder.exists():  # without a finished part, other settings may be tried in this folder
                    file.unlink(missing_ok=True)
                    with suppress(OSError):  # it holds other files too
                        folder.rmdir()
                raise

    def settings(self) -> dict[str, Any]:
        """What must be the same for a run to resume."""
        data = {name: fingerprint(getattr(self, name)) for name in ("student", "gold", "pool")}
        options = {"recipe": fingerprint(self.recipe.settings())}
        options |= {name: getattr(self, name) for name in ("folds", "rows", "seed")}
        return data | options | {f"base model {name}": fingerprint(one) for name, one in self.base_models.items()}


def _write(file: Path, probs: Array, work: str) -> None:
    """The array, and after it the checksum of what is before it."""
    content = BytesIO()
    np.save(content, probs, allow_pickle=False)
    write_bytes(file, content.getvalue() + _checksum(content.getvalue(), file, work))


def _read(file: Path, work: str) -> Array:
    """A memory map of the file: the pool's predictions by every base model and fold may not fit into memory."""
    try:
        probs: Array = np.load(file, mmap_mode="r", allow_pickle=False)
        stored: Any = np.memmap(file, mode="r")
    except (OSError, ValueError, EOFError) as error:
        raise UnderstudyError(f"{file} cannot be read ({error}); remove it to run that part again") from error
    if stored[-32:].tobytes() != _checksum(stored[:-32], file, work):
        raise UnderstudyError(f"{file} is damaged (another checksum); remove it to run that part again")
    return probs


def _checksum(content: Any, file: Path, work: str) -> bytes:
    """Of a part, its name and the fingerprint of the settings."""
    known = hashlib.sha256(f"{file.name} of {work}\n".encode())
    known.update(content)
    return known.digest()
