"""Runs experiments: every (column, seed) of every setting is a job, run by an executor like the cells of a comparison.

A finished job is a JSON file in the work folder, named after its setting, so a stopped run goes on where it was, and
two figures of one sweep (a table and its trajectories) pay for it once; ``experiments.published`` puts back those that
are published. ``experiments.schedule`` says which come next.
"""

import platform
import resource
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch

from experiments.experiment import Experiment
from experiments.kept import kept_in
from experiments.published import beside, put_back, setting_of
from experiments.schedule import Job, Schedule, Setting, cells_of, settings_of
from experiments.sweep import Cell, key
from understudy.errors import UnderstudyError
from understudy.parallel.executors import Executor, WorkerProcesses
from understudy.store.files import read_json, write_json

WORK = Path("runs/reproduce")
SCALES = ("reduced", "full")


@dataclass(frozen=True)
class Finished:
    """An experiment's cells, part by part, with where and when they were made."""

    experiment: Experiment
    scale: str
    cells: list[list[Cell]]
    made: list[dict[str, Any]]
    """Part by part: seconds of CPU time, dates and commits of its jobs."""
    seeds: list[int]
    """Part by part."""

    @property
    def seconds(self) -> float:
        """Of a setting that two parts share, once."""
        settings = map(key, self.experiment.sweeps(self.scale))
        return sum(dict(zip(settings, (one["seconds"] for one in self.made), strict=True)).values())

    def all_of(self, name: str) -> list[str]:
        """Its dates or its commits."""
        return sorted({value for one in self.made for value in one[name]})


def run(
    experiments: Sequence[Experiment],
    *,
    scale: str = "reduced",
    seeds: int | None = None,
    minutes: float = 0.0,
    workers: int = 1,
    executor: Executor | None = None,
    work: Path = WORK,
    published: Path | None = None,
    say: Callable[[str], None] = print,
    on_finished: Callable[[Finished], None] = lambda finished: None,
) -> dict[str, str]:
    """Run what is not there yet; hand over every experiment when it has its first seeds, and again with more.

    Everything gets the seeds its setting starts with. Then claims that are still open get more, as long as all jobs
    together, those of earlier runs too, took less than ``minutes`` of CPU time; not where ``seeds`` fixes their number.
    ``executor``: who runs the jobs (None: ``workers`` processes of one thread each); their cells are written here.
    ``published``: a folder of records whose jobs need not run again.
    Returns experiment -> why it failed; one failure does not stop the others.
    """
    if scale not in SCALES:
        raise UnderstudyError(f"scale={scale!r} is unknown; use one of {', '.join(SCALES)}")
    settings = settings_of(experiments, scale, work)
    if published:
        put_back(settings.values(), published)
    schedule = Schedule(settings, seeds=seeds, minutes=minutes)
    shown: dict[str, list[int]] = {}

    def hand_over(changed: Iterable[Experiment]) -> None:
        for experiment in changed:
            mine = [settings[work / key(sweep)] for sweep in experiment.sweeps(scale)]
            counts = [seeds or setting.measured() for setting in mine]
            there = all(one.measured() >= schedule.start_of(one) and schedule.is_quiet(one) for one in mine)
            if there and shown.get(experiment.name) != counts:
                shown[experiment.name] = counts
                on_finished(load(experiment, scale, mine, counts))

    hand_over(experiments)
    if waiting := schedule.waiting():
        say(f"{len(waiting)} jobs to start with, in {workers} process{'es' if workers > 1 else ''} of one thread")
    made = {"dates": [time.strftime("%Y-%m-%d")], "commits": [commit()]}
    for job, (cells, seconds, problem) in _returning(schedule, executor or WorkerProcesses(workers)):
        if not problem:
            _keep(job, cells, seconds, made)
        schedule.returned(job, seconds, problem)
        users = {experiment.name: experiment for experiment, _ in settings[job.path.parent].shown_by}
        outcome = problem or f"{seconds:.0f} s; {_left(schedule, workers)}"
        say(f"{', '.join(users)}: {job.column}, seed {job.seed}: {outcome}")
        hand_over(users.values())
    return {
        experiment.name: problem
        for path, problem in schedule.failed.items()
        for experiment, _ in settings[path.parent].shown_by
    }


def _returning(schedule: Schedule, executor: Executor) -> Iterator[tuple[Job, tuple[list[Cell], float, str]]]:
    """Jobs as they come back. A round ends when all that is open is under way; what comes back may ask for another."""
    while True:
        jobs: list[Job] = []

        def handed(jobs: list[Job] = jobs) -> Iterator[Job]:
            for job in schedule.jobs():
                jobs.append(job)
                yield job

        with closing(executor.map(_measure, handed())) as results:
            for number, result in results:
                yield jobs[number], result
        if not jobs:
            return


def _keep(job: Job, cells: Sequence[Cell], seconds: float, made: dict[str, list[str]]) -> None:
    known = _known(job)
    methods = [getattr(method, "label", method) for method in getattr(job.sweep, "methods", ())]
    stored = known.pop("cells", [])
    there = {cell["row"] for cell in stored}
    stored += [asdict(cell) for cell in cells if cell.row not in there]
    rank = {name: place for place, name in enumerate(methods)}
    stored.sort(key=lambda cell: rank.get(cell["row"].split(": ")[0], -1))
    both = {name: sorted({*values, *known.get(name, ())}) for name, values in made.items()}
    content = {"cells": stored, "seconds": round(seconds + known.get("seconds", 0.0), 1), **both}
    write_json(job.path, {"setting": setting_of(job.sweep), **content})
    beside(job).unlink(missing_ok=True)


def _known(job: Job) -> dict[str, Any]:
    return dict(read_json(beside(job))) if beside(job).exists() else {}


def _left(schedule: Schedule, workers: int) -> str:
    minutes = schedule.seconds_left() / 60 / workers
    return f"{schedule.used / 60:.0f} CPU minutes used, at most {minutes:.0f} minutes left"


def _measure(job: Job) -> tuple[list[Cell], float, str]:
    """Cells, seconds of CPU time, and what went wrong: a failure is text, so that the other jobs go on."""
    before = resource.getrusage(resource.RUSAGE_SELF)
    try:
        with kept_in(job.path.parents[1] / "nets"):
            rows = {cell["row"] for cell in _known(job).get("cells", ())} | job.without
            rows |= {f"{method}: {extra}" for method in job.without for extra in getattr(job.sweep, "extras", ())}
            cells = job.sweep.measure(job.column, job.seed, **({"known": rows} if rows else {}))
    except UnderstudyError as error:
        return [], 0.0, str(error)
    except Exception as error:  # a bug in one experiment must not lose the hours of the others
        return [], 0.0, f"{type(error).__name__}: {error}"
    after = resource.getrusage(resource.RUSAGE_SELF)
    return cells, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, ""


def load(experiment: Experiment, scale: str, settings: Sequence[Setting], seeds: Sequence[int]) -> Finished:
    """``settings``, ``seeds``: part by part."""
    parts = [setting.stored(count) for setting, count in zip(settings, seeds, strict=True)]
    return Finished(experiment, scale, [cells_of(stored) for stored in parts], [*map(_made, parts)], list(seeds))


def _made(jobs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    of_all = {name: sorted({value for job in jobs for value in job[name]}) for name in ("dates", "commits")}
    return {"seconds": round(sum(job["seconds"] for job in jobs), 1), **of_all}


@cache
def commit(*folders: str) -> str:
    """Of the code that runs: the checkout's commit, "-dirty" where its sources differ. Read once, at the start."""
    root = Path(__file__).parents[1]

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=root, capture_output=True, text=True).stdout.strip()

    changed = git("status", "--porcelain", "--", *(folders or ("src", "experiments")))
    return (git("rev-parse", "--short", "HEAD") or "unknown") + ("-dirty" if changed else "")


def machine() -> str:
    return f"{platform.machine()}, {platform.system()}, Python {platform.python_version()}, torch {torch.__version__}"
