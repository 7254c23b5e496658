"""``us.compare``: methods × seeds on the user's gold and pool, paired by seed, spread over processes, resumable."""

import tempfile
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Unpack

from understudy.comparison.folder import CompareFolder
from understudy.comparison.interval import percent
from understudy.comparison.job import Job, Student, Training
from understudy.comparison.named import VANILLA, Methods
from understudy.comparison.outcome import Comparison, Outcome
from understudy.comparison.progress import CellProgress
from understudy.comparison.recommend import TEACHER, recommend
from understudy.comparison.workers import in_workers, one_thread, usable_cores
from understudy.data.examples import Gold, Pool
from understudy.errors import UnderstudyError, UnderstudyWarning
from understudy.store.files import locked, write_json
from understudy.store.fingerprint import fingerprint


def compare(
    student: Student,
    gold: Gold,
    pool: Pool,
    methods: Methods = ("slam", "weighted"),
    *,
    epochs: int,
    seeds: int | Iterable[int] = 5,
    test: Gold | tuple[Any, Any] | None = None,
    select: Gold | float = 0.2,
    pretrain_epochs: int = 0,
    out: str | Path | None = None,
    workers: int | None = None,
    progress: bool = True,
    **training: Unpack[Training],
) -> Comparison:
    """Methods side by side on your own data, and which to take.

    ``methods``: names (``"slam"``, ``"slam:lower_bound=0.6"``), or a dict of names to objectives. Always beside them:
    the teacher, gold only (as many steps as the others), vanilla, and confident. Within a seed all of them share the
    splits, the initial student (pretrained once) and the batches. ``test`` rows are only looked at; without them gold
    is cut into 5 folds and seed s tests on fold s. ``select``: gold rows that pick an epoch, or the share of gold to
    set aside for that (0.0: none). ``out`` keeps every finished cell: the same call goes on where it was stopped, and
    more seeds or methods may join. ``workers``: processes of one thread each (None: one per core; 1: none).
    ``training`` are the other options of ``us.train``.
    """
    unknown = set(training) - set(Training.__annotations__)
    if unknown:
        raise TypeError(f"compare() got an unexpected keyword argument {min(unknown)!r}")
    job = Job.of(student, gold, pool, methods, epochs, test, select, pretrain_epochs, training)
    numbers = _seeds(seeds)
    workers = usable_cores() if workers is None else workers
    if workers < 1:
        raise UnderstudyError(f"workers={workers} must be at least 1, or None for one per core")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch if out is None else out)
        with locked(folder):
            job.folder = CompareFolder(folder)
            job.folder.open(job.settings(), {name: fingerprint(method) for name, method in job.objectives.items()})
            try:
                _run(job, numbers, workers, progress)
            except Exception:
                job.folder.forget_if_empty()
                raise
            comparison = _gather(job, numbers)
            if out is not None:
                write_json(folder / "comparison.json", comparison.as_dict())
    return comparison


def _run(job: Job, seeds: list[int], workers: int, progress: bool) -> None:
    cells = [(method, seed) for seed in seeds for method in job.objectives]
    left = [cell for cell in cells if not job.folder.has(*cell)]
    if job.pretrain_epochs:
        starts = [seed for seed in dict.fromkeys(seed for _, seed in left) if not job.folder.start_file(seed).exists()]
        in_workers(job.start, starts, workers, on_done=job.folder.write_start)
    with one_thread():
        job.estimate(dict.fromkeys(seed for _, seed in left))
    with CellProgress(len(cells), len(cells) - len(left), shown=progress) as bar:

        def file(cell: tuple[str, int], found: tuple[Outcome, list[str]]) -> None:
            # Here and not in the workers: one that outlives its parent must not write into what has come since.
            job.folder.write(*cell, *found)
            bar.cell(f"{cell[0]}, seed {cell[1]}: {percent(found[0].last)}%")

        in_workers(job.cell, left, workers, on_done=file)


def _gather(job: Job, seeds: list[int]) -> Comparison:
    comparison = Comparison(VANILLA, notes=list(job.notes))
    for seed in seeds:
        if (teacher := job.teacher(seed)) is not None:
            comparison.add(TEACHER, seed, teacher)
    for method in job.objectives:
        for seed in seeds:
            outcome, said = job.folder.read(method, seed)
            comparison.add(method, seed, outcome)
            comparison.warnings += [text for text in said if text not in comparison.warnings]
    if len(comparison.outcomes.get(TEACHER, seeds)) < len(seeds):
        del comparison.outcomes[TEACHER]
    if TEACHER not in comparison.outcomes:
        comparison.notes.append("The teacher's own accuracy is not known: no gold or test row has its word.")
    elif job.test is not None and len(job.test.estimate_rows()) < len(job.test) and job.teacher_word == "test":
        known = f"{len(job.test.estimate_rows()):,} of {len(job.test):,} test rows"
        comparison.notes.append(f"The teacher is known on {known}, and is held against the students there.")
    elif job.test is not None and job.teacher_word == "gold":
        comparison.notes.append("The teacher is measured on gold, the students on the test rows.")
    if job.test is None:
        comparison.notes.append("No test rows were given: every student is tested on gold rows kept from its training.")
    for text in comparison.warnings:
        warnings.warn(text, UnderstudyWarning, stacklevel=3)
    comparison.recommendation = recommend(comparison)
    return comparison


def _seeds(seeds: int | Iterable[int]) -> list[int]:
    numbers = list(range(seeds)) if isinstance(seeds, int) else [int(seed) for seed in seeds]
    if not numbers or len(set(numbers)) < len(numbers) or min(numbers) < 0:
        raise UnderstudyError(f"seeds={seeds} must be at least 1, or different numbers from 0")
    return numbers
