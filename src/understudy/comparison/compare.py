"""``us.compare``: methods × seeds on the user's gold and pool, paired by seed, spread over processes, resumable.

On disk, so that a finished cell is never run again:

    settings.json             fingerprints of data, student, options and methods; a changed one is refused
    cells/slam-0.json         one method under one seed
    starts/0.safetensors      the pretrained student of a seed, where there is one; starts/0.json has its checksum
    comparison.json           the table, the recommendation

Every JSON file holds its checksum (``store/checked_folder.py``), and cells and starts name their comparison.
"""

import base64
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from understudy.comparison.auto import auto
from understudy.comparison.candidates import TEACHER, VANILLA
from understudy.comparison.cells import Cell, Job
from understudy.comparison.comparison_options import CompareOptions, Methods, take_options
from understudy.comparison.interval import percent
from understudy.comparison.outcome import Comparison, Correct, Outcome
from understudy.comparison.recommendation import recommend
from understudy.data.examples import Gold, Pool
from understudy.errors import UnderstudyError, warn
from understudy.models.registry import Student
from understudy.parallel.executors import Executor, Failure, attempts, executor_for, one_thread
from understudy.store.checked_folder import Finding, FolderKind, Jobs, file_name, verify_checked, write_checked
from understudy.store.console import ProgressBar, ends_on_sigterm
from understudy.store.files import locked, read_json, work_folder, write_bytes
from understudy.store.fingerprints import fingerprint
from understudy.store.option_fields import checked, plain, spell_out
from understudy.store.settings import as_json, check_same
from understudy.training.automatic_options import named_student, resolve_options
from understudy.training.callbacks import Callback
from understudy.training.options import SHARED, shows_options

SETTINGS, RESULT = "settings.json", "comparison.json"
MOST_SEEDS = 10_000


class CompareFolder:
    #: One for each method and seed, and the pretrained student of each seed.
    cells: Jobs
    starts: Jobs

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def begun(self, settings: dict[str, Any], methods: Mapping[str, Any]) -> Iterator[None]:
        """Begin, or go on where the same things are compared; further methods may join.

        What failed before its first cell or pretrained student may be begun again with other settings.
        """
        self._open(settings, {name: fingerprint(method) for name, method in methods.items()})
        try:
            yield
        except Exception:
            if not any(self.path.glob("cells/[!.]*")) and not any(self.path.glob("starts/[!.]*")):
                for part in (self.cells.folder, self.starts.folder):
                    shutil.rmtree(part, ignore_errors=True)
                (self.path / SETTINGS).unlink(missing_ok=True)
                with suppress(OSError):  # others' files are there too
                    self.path.rmdir()
            raise

    def _open(self, settings: dict[str, Any], methods: dict[str, str]) -> None:
        if (self.path / SETTINGS).exists():
            stored = COMPARISON.read(self.path)
        # A name that begins with a dot is a lock, or a file that a killed process did not finish.
        elif self.path.is_file() or (self.path.is_dir() and any(self.path.glob("[!.]*"))):
            raise UnderstudyError(f"out={str(self.path)!r} is not empty and holds no comparison; choose a new folder")
        else:
            stored = {"settings": as_json(settings), "methods": {}}
        # A method that failed before its first cell may be corrected.
        begun = [name for name in methods if any(self.path.glob(f"cells/{file_name(name)}-*"))]
        before, now = (
            {**options, **{f"method {name}": made[name] for name in begun if name in stored["methods"]}}
            for options, made in ((stored["settings"], stored["methods"]), (settings, methods))
        )
        check_same(before, now, self.path)
        COMPARISON.write(self.path, {**stored, "methods": stored["methods"] | methods})
        of = _settings_of_cells(stored)  # a default may be named now
        self.cells = Jobs(self.path / "cells", ("method", "seed"), of)
        self.starts = Jobs(self.path / "starts", ("seed",), of)

    def write(self, method: str, seed: int, outcome: Outcome, warnings: list[str]) -> None:
        cell = {name: getattr(outcome, name) for name in ("last", "selected", "facts", "history", "pool_classes")}
        judged: dict[str, Any] = {"rows": None, "right": None}
        if outcome.judged is not None:
            right = outcome.judged.right
            bits = base64.b64encode(np.packbits(right).tobytes()).decode() if right.dtype == bool else right.tolist()
            judged = {"rows": outcome.judged.rows.tolist(), "right": bits}
        self.cells.write((method, seed), {"warnings": warnings, **cell, **judged})

    def read(self, method: str, seed: int) -> tuple[Outcome, list[str]]:
        cell, judged = self.cells.read((method, seed)), None
        if cell["rows"] is not None:
            right = cell["right"]
            if isinstance(right, str):
                bits = np.frombuffer(base64.b64decode(right), dtype=np.uint8)
                right = np.unpackbits(bits, count=len(cell["rows"])).astype(bool)
            judged = Correct(np.array(cell["rows"]), np.asarray(right))
        plain = {name: cell[name] for name in ("last", "selected", "history", "facts", "pool_classes")}
        return Outcome(**plain, judged=judged), cell["warnings"]

    def has_start(self, seed: int) -> bool:
        return all(self.starts.file((seed,), ending).exists() for ending in (".safetensors", ".json"))

    def write_start(self, seed: int, content: bytes) -> None:
        file = self.starts.file((seed,), ".safetensors")
        write_bytes(file, content)
        self.starts.write((seed,), {}, {file.name: content})

    def read_start(self, seed: int) -> bytes:
        self.starts.read((seed,))
        return self.starts.file((seed,), ".safetensors").read_bytes()


def _settings_of_cells(stored: Mapping[str, Any]) -> dict[str, str]:
    """Which comparison this is: what its settings come to."""
    return {"comparison": fingerprint(stored["settings"])}


def _also(path: Path, settings: Mapping[str, Any]) -> Iterator[Finding]:
    """Cells, pretrained students and the result."""
    of, jobs = _settings_of_cells(settings), Jobs(path / "cells")
    for file in [*sorted(path.glob("cells/[!.]*.json")), *sorted(path.glob("starts/[!.]*.json"))]:
        findings = verify_checked(file)
        yield from findings
        if findings[0].problem is None:
            stored = read_json(file)
            key = [stored[name] for name in ("method", "seed") if name in stored]
            if stored.get("settings") != of or jobs.file(tuple(key)).name != file.name:
                yield Finding(file, "belongs to another comparison, method or seed")
    for file in sorted(path.glob("starts/[!.]*.safetensors")):
        if not file.with_suffix(".json").exists():
            yield Finding(file, "has no checksum (it is made again when it is needed)")
    if (path / RESULT).exists():
        yield from verify_checked(path / RESULT)


COMPARISON = FolderKind("comparison", SETTINGS, _also)


@shows_options(SHARED)
@checked
@spell_out(CompareOptions, keep_others=True)
def compare(
    student: Student | str | None, gold: Gold, pool: Pool, methods: Methods = ("slam", "weighted", "reconciled"), *,
    test: Gold | tuple[Any, Any] | None = None, select: Gold | float = 0.2, out: str | Path | None = None,
    executor: Executor | None = None, callbacks: Sequence[Callback] = (), progress: bool = True, **options: Any,
) -> Comparison:  # fmt: skip
    """Compare methods on your own data, and recommend one.

    ``methods``: names (``"slam"``, ``"slam:lower_bound=0.6"``, ``"auto"``), or a dict of names to objectives. Always
    beside them: the teacher, gold only (as many steps as the others), vanilla, and confident. Within a seed all share
    splits, initial student (pretrained once) and batches. ``test``: a test set; without one gold is split into
    5 folds and seed s tests on fold s. ``select``: a validation set that chooses the epoch, or the share of gold for it
    (0.0: none). ``out`` keeps every finished cell: the same call resumes, and more seeds or methods may be added. A
    cell that fails is marked in the table and does not end the others (``failed``); the next call tries it again.
    ``workers``: processes of one thread each (None: one per core; 1: none); ``executor``: any other that runs cells
    (``parallel/executors.py``). ``callbacks`` see every cell's training, where it runs: they are sent to the processes
    and must be importable there. ``options`` are those of ``us.train`` that all trainings share; ``epochs`` left out
    are chosen once, on gold, for all methods and seeds (without ``test`` also on the rows that will test).
    """
    own, options = take_options(CompareOptions, options)
    numbers, executor = _seeds(own.seeds), executor_for(own.workers, executor)
    validation = select if isinstance(select, Gold) else None
    student = named_student(student, gold, pool)
    resolved, _ = resolve_options(student, gold, pool, options, select=validation)
    job = Job(student, gold, pool, methods, resolved, test, select, callbacks, auto)
    with ends_on_sigterm(), tempfile.TemporaryDirectory() as scratch:
        path = work_folder(scratch if out is None else out)
        with locked(path):
            folder = CompareFolder(path)
            with folder.begun(job.settings(), job.objectives):
                failed = _run(job, folder, numbers, executor, progress)
            comparison = _gather(job, folder, numbers, failed)
            if out is not None:
                write_checked(path / RESULT, comparison.as_dict())
    return comparison


def _run(job: Job, folder: CompareFolder, seeds: list[int], executor: Executor, progress: bool) -> dict[Cell, Failure]:
    """Whatever runs the cells, results are filed here: a worker that outlives its parent must not write into what has
    come since. What could not be run, and why; it is tried again by the next call."""
    cells = [(method, seed) for seed in seeds for method in job.objectives]
    left = [Cell(*key) for key in folder.cells.missing(cells)]
    failed: dict[Cell, Failure] = {}
    if job.recipe.pretrain_epochs:
        without = _pretrain(job, folder, list(dict.fromkeys(cell.seed for cell in left)), executor)
        failed |= {cell: without[cell.seed] for cell in left if cell.seed in without}
        left = [cell for cell in left if cell not in failed]
    with one_thread():
        job.estimate(dict.fromkeys(cell.seed for cell in left))

    def handed(cell: Cell) -> Cell:
        # Read when the cell is handed out, so that not all seeds' students are in memory at once.
        return replace(cell, start=folder.read_start(cell.seed)) if job.recipe.pretrain_epochs else cell

    bar = ProgressBar("compare", len(cells), len(cells) - len(left), shown=progress)
    with bar, closing(attempts(executor, job.train, left, handed)) as results:
        for number, result in results:
            cell = left[number]
            if isinstance(result, Failure):
                failed[cell] = result
                bar.advance(f"{cell}: cannot be run")
                continue
            folder.write(cell.method, cell.seed, *result)
            bar.advance(f"{cell}: {percent(result[0].last)}%")
    if len(failed) == len(cells):
        next(iter(failed.values())).raise_error()
    return failed


def _pretrain(job: Job, folder: CompareFolder, seeds: list[int], executor: Executor) -> dict[int, Failure]:
    """Why a seed has no pretrained student, and so no cell."""
    missing = [seed for seed in seeds if not folder.has_start(seed)]
    failed: dict[int, Failure] = {}
    with closing(attempts(executor, job.pretrain, missing)) as states:
        for number, state in states:
            seed = missing[number]
            if isinstance(state, Failure):
                failed[seed] = replace(state, reason=f"pretraining on gold, seed {seed}: {state.reason}")
            else:
                folder.write_start(seed, state)
    return failed


def _gather(job: Job, folder: CompareFolder, seeds: list[int], failed: dict[Cell, Failure]) -> Comparison:
    comparison = Comparison(VANILLA, job.recipe.metric, notes=list(job.notes))
    for cell, failure in failed.items():
        comparison.failed.setdefault(cell.method, {})[cell.seed] = failure.reason
    comparison.majority = {seed: job.majority(seed) for seed in seeds}
    for seed in seeds:
        if (teacher := job.teacher(seed)) is not None:
            comparison.add(TEACHER, seed, teacher)
    for method in job.objectives:
        for seed in seeds:
            if seed in comparison.failed.get(method, {}):
                continue
            outcome, warned = folder.read(method, seed)
            comparison.add(method, seed, outcome)
            comparison.warnings += [text for text in warned if text not in comparison.warnings]
    if len(comparison.outcomes.get(TEACHER, seeds)) < len(seeds):
        del comparison.outcomes[TEACHER]
    if TEACHER not in comparison.outcomes:
        comparison.notes.append("The teacher's own accuracy is unknown: no gold or test row has its label.")
    elif job.test is not None and job.teacher_seen_on == "gold":
        comparison.notes.append("The teacher is measured on gold, the students on the test rows.")
    elif VANILLA in comparison.outcomes and (missing := comparison.rows_only_in(VANILLA, TEACHER)):
        same = comparison.accuracy(TEACHER).mean - comparison.difference(TEACHER, VANILLA).mean
        rest = f"differences to it are measured on the rest, on which {VANILLA} has {percent(same)}%."
        comparison.notes.append(f"The teacher has no label of {missing:,} of the tested rows; {rest}")
    if job.test is None:
        comparison.notes.append("No test rows were given: every student is tested on gold rows kept from its training.")
    for text in comparison.warnings:
        warn(text)
    comparison.recommendation = recommend(comparison)
    return comparison


def _seeds(seeds: int | Iterable[int]) -> list[int]:
    seeds = plain(seeds)
    numbers = [plain(one) for one in (range(min(seeds, MOST_SEEDS + 1)) if isinstance(seeds, int) else seeds)]
    whole = all(isinstance(seed, int) and 0 <= seed < 1 << 63 for seed in numbers)
    if not whole or not 0 < len(set(numbers)) == len(numbers) <= MOST_SEEDS:
        raise UnderstudyError(f"seeds={seeds} must be 1 to {MOST_SEEDS:,}, or different whole numbers from 0")
    return numbers
