"""Every member trained on a part of gold and pool, and asked about the rest: what it says of rows it has not seen.

Gold and the pool rows that train are dealt into folds together. The member of a fold learns from the other folds, so
that neither a gold row's truth nor a pool row's imperfect label has reached whoever is asked about that row; rows of
the pool that train nobody (they have no label, or the pool is larger than ``rows``) get the mean of all folds.

    fitted = CrossFit(student, gold, pool, {"gce": Trained(us.gce())}, recipe, folds=4, rows=20_000, seed=0)
    said = fitted.run(executor)
    said.gold["gce"], said.pool["gce"]             # (n, C) and (N, C)

With a folder, finished parts are kept there: what was stopped goes on where it was.
"""

import hashlib
import math
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from understudy.data.examples import Gold, Pool
from understudy.data.splits import fold_rows, random_rows
from understudy.errors import UnderstudyError, UnderstudyWarning, warn
from understudy.objective import Objective
from understudy.reconciling.members import Fold, Member, Student
from understudy.store.arrow import Array
from understudy.store.files import write_bytes, write_json
from understudy.store.jobs import Jobs
from understudy.store.progress import ProgressBar
from understudy.store.seal import read_sealed, sealed
from understudy.store.settings import check_same, fingerprint
from understudy.training.l2 import EPOCHS_TO_CHOOSE
from understudy.training.options import AUTO, TrainingOptions
from understudy.training.train import train

Part = tuple[str, int]
"""(member, fold)."""
Race = Callable[[dict[str, Tensor]], list[str]]
"""Of the predictions of gold so far: who goes on."""
FORMAT = 1
SETTINGS, CHOSEN = "settings.json", "c.json"


@dataclass
class Testimony:
    """What the members said of rows they had not seen."""

    gold: dict[str, Tensor]
    """``(n, C)`` each; NaN on rows a member was not asked about."""
    pool: dict[str, Tensor]
    """``(N, C)`` each, of the members that were asked in every fold."""
    of_fold: dict[str, list[Array]]
    """The same of every fold's member alone, ``(N, C)`` each: also of pool rows that it learned from. Left on disk."""


@dataclass
class CrossFit:
    student: Student
    gold: Gold
    pool: Pool
    members: Mapping[str, Member]
    recipe: TrainingOptions
    classes: int
    folds: int = 4
    rows: int | None = None
    """How many pool rows train members; None: all that have a label."""
    seed: int = 0
    folder: Path | None = None
    needed: tuple[str, ...] = ("gold only", "vanilla")
    """Members whose failure is everybody's; another one is left out."""
    c: tuple[float, float] | None = None
    """As ``Fold.c``; chosen where the recipe leaves the penalty open."""

    def __post_init__(self) -> None:
        if self.rows is not None and self.rows < 1:
            raise UnderstudyError(f"rows={self.rows} must be at least 1, or None for all rows of the pool")

    @cached_property
    def judges(self) -> Tensor:
        """The gold rows that are asked about. Those chosen by active learning are no sample: they train, and judge
        nobody."""
        return (~self.gold.chosen).nonzero().squeeze(1)

    @cached_property
    def gold_fold(self) -> Tensor:
        """The fold each gold row is held out in, ``(n,)``; −1: in none."""
        fold = torch.full((len(self.gold),), -1)
        for number, (_, held_out) in enumerate(fold_rows(self.gold.y[self.judges], self.folds, self.seed)):
            fold[self.judges[held_out]] = number
        return fold

    @cached_property
    def pool_fold(self) -> Tensor:
        """The same for pool rows, ``(N,)``; −1 where they train nobody."""
        assert self.pool.teacher is not None
        labelled = self.pool.teacher.labelled().nonzero().squeeze(1)
        drawn = labelled[random_rows(len(labelled), self.rows or len(labelled), self.seed)]
        fold = torch.full((len(self.pool),), -1)
        fold[drawn] = torch.arange(len(drawn)) % self.folds
        return fold

    @property
    def learned(self) -> int:
        """How many pool rows train members."""
        return int((self.pool_fold >= 0).sum())

    def _kept_c(self, file: Path) -> tuple[float, float]:
        if not file.exists():
            alone, both = self._chosen_c()
            write_json(file, sealed({"gold only": alone, "with the pool": both}))
        kept = read_sealed(file, older=(None,), cure="remove it to choose again")
        return kept["gold only"], kept["with the pool"]

    def _chosen_c(self) -> tuple[float, float]:
        """On gold, once for all members: one number of many rows, through which no row says much of itself."""
        pool = self.pool.take((self.pool_fold >= 0).nonzero().squeeze(1))
        told = replace(self.recipe, epochs=EPOCHS_TO_CHOOSE)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnderstudyWarning)
            alone, both = (
                train(self.student, self.gold, each, Objective(name="vanilla"), progress=False, **told.arguments())
                for each in (None, pool)
            )
        return alone.config["l2"]["c"], both.config["l2"]["c"]

    def fold(self, number: int) -> Fold:
        mine = self.gold_fold == number
        return Fold(
            number=number, student=self.student, recipe=self.recipe, classes=self.classes, c=self.c,
            gold=self.gold.take((~mine).nonzero().squeeze(1)), held_out=self.gold.take(mine.nonzero().squeeze(1)),
            pool=self.pool, learned=((self.pool_fold >= 0) & (self.pool_fold != number)).nonzero().squeeze(1),
        )  # fmt: skip

    def testify(self, part: Part) -> Any:
        """What a member says of a fold's gold rows and of the pool, ``(held out + N, C)`` float32; why it cannot."""
        name, number = part
        try:
            return self.members[name].testify(self.fold(number)).float().numpy()
        except UnderstudyError as error:
            return str(error)

    def run(self, executor: Any, *, race: Race | None = None, progress: bool = False) -> Testimony:
        """``executor``: whoever has ``map`` (``parallel/executors.py``). ``race``: who goes on after each fold."""
        with self._opened() as parts:
            return self._run(parts, executor, race, progress)

    def _run(self, parts: Jobs, executor: Any, race: Race | None, progress: bool) -> Testimony:
        said = Testimony({}, {}, {})
        racing = list(self.members)
        if self.c is None and self.recipe.weight_decay == AUTO:
            self.c = self._kept_c(parts.folder.parent / CHOSEN)
        work = fingerprint(parts.settings)
        with ProgressBar("witnesses", len(racing) * self.folds, shown=progress) as bar:
            for number in range(self.folds):
                files = {(name, number): parts.file((name, number), ".npy") for name in racing}
                left = [part for part, file in files.items() if not file.exists()]
                bar.skip(len(files) - len(left))
                with closing(executor.map(self.testify, left)) as results:
                    for place, probs in results:
                        name = left[place][0]
                        bar.advance(f"{name}, fold {number + 1}")
                        if isinstance(probs, str):
                            self._leave_out(name, probs)
                            racing.remove(name)
                            continue
                        content = BytesIO()
                        np.save(content, probs, allow_pickle=False)
                        file = files[left[place]]
                        write_bytes(file, content.getvalue() + _checksum(content.getvalue(), file, work))
                for name in racing:
                    self._file(said, name, number, files[name, number], work)
                if race is not None:
                    racing = race({name: said.gold[name] for name in racing})
                bar.total = bar.done + len(racing) * (self.folds - number - 1)
        for name in list(said.pool):
            if name not in racing:
                del said.pool[name], said.of_fold[name]
        return said

    def _leave_out(self, name: str, why: str) -> None:
        """One member that cannot be trained on a part of the data does not end the others."""
        if name in self.needed:
            raise UnderstudyError(f"{name}, trained without a part of gold: {why}")
        warn(f"{name} is left out: trained without a part of gold, {why}")

    def _file(self, said: Testimony, name: str, number: int, file: Path, work: str) -> None:
        """Enter what a member said of a fold."""
        mine = self.gold_fold == number
        asked = int(mine.sum())
        probs = _read(file, asked + len(self.pool), self.classes, work)
        of_gold = said.gold.setdefault(name, torch.full((len(self.gold), self.classes), math.nan))
        of_gold[mine] = torch.tensor(probs[:asked])
        said.of_fold.setdefault(name, []).append(probs[asked:])
        of_pool = torch.tensor(probs[asked:])
        mean = said.pool.setdefault(name, torch.zeros(len(self.pool), self.classes))
        nobodys, own = self.pool_fold < 0, self.pool_fold == number
        mean[nobodys] += of_pool[nobodys] / self.folds
        mean[own] = of_pool[own]

    @contextmanager
    def _opened(self) -> Iterator[Jobs]:
        """The folder of finished parts, if they are parts of the same work."""
        with tempfile.TemporaryDirectory() as scratch:
            folder = self.folder or Path(scratch)
            file, settings = folder / SETTINGS, {} if self.folder is None else self.settings()
            if not file.exists():
                write_json(file, sealed({"format": FORMAT, "settings": settings}))
            stored = read_sealed(file, format=FORMAT, older=(FORMAT,))["settings"]  # it was not always sealed
            check_same(stored, settings, folder)
            parts = Jobs(folder / "parts", settings=stored)
            try:
                yield parts
            except Exception:
                if not parts.folder.exists():  # what failed before its first part may be begun again otherwise
                    for name in (SETTINGS, CHOSEN):
                        (folder / name).unlink(missing_ok=True)
                    with suppress(OSError):  # others' files are there too
                        folder.rmdir()
                raise

    def settings(self) -> dict[str, Any]:
        """What must be the same for work to go on."""
        data = {name: fingerprint(getattr(self, name)) for name in ("student", "gold", "pool")}
        told = {
            "recipe": fingerprint(self.recipe.settings()),
            "folds": self.folds,
            "rows": self.rows,
            "seed": self.seed,
        }
        return data | told | {f"member {name}": fingerprint(member) for name, member in self.members.items()}


def _read(file: Path, rows: int, classes: int, work: str) -> Array:
    """A map of the file: a pool's worth for every member and fold is too much to hold."""
    try:
        probs: Any = np.load(file, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise UnderstudyError(f"{file} cannot be read ({error}); remove it to run that part again") from error
    # After the array stands the checksum of what is before it; parts of former versions end with the array.
    whole: Any = np.memmap(file, mode="r")
    if len(whole) > probs.offset + probs.nbytes and whole[-32:].tobytes() != _checksum(whole[:-32], file, work):
        raise UnderstudyError(f"{file} is damaged (another checksum); remove it to run that part again")
    if probs.shape != (rows, classes):
        raise UnderstudyError(
            f"{file} has shape {probs.shape} for {rows} rows and {classes} classes; remove it to run that part again"
        )
    return cast(Array, probs)


def _checksum(content: Any, file: Path, work: str) -> bytes:
    """Of a part, its name and the work it belongs to."""
    known = hashlib.sha256(f"{file.name} of {work}\n".encode())
    known.update(content)
    return known.digest()
