"""Runs experiments: every (column, seed) of every setting is a job, run by an executor like the cells of a comparison.

A finished job is a JSON file in the work folder, named after its setting, so a stopped run goes on where it was, and
two figures of one sweep (a table and its trajectories) pay for it once.
"""

import platform
import re
import resource
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch

from experiments.experiment import Experiment
from experiments.sweep import Cell, Sweep, key
from understudy.comparison.executors import Executor, Processes
from understudy.errors import UnderstudyError
from understudy.store.files import read_json, write_json

WORK = Path("runs/reproduce")
SCALES = ("reduced", "full")


@dataclass(frozen=True)
class Job:
    sweep: Sweep
    column: str
    seed: int
    path: Path


@dataclass(frozen=True)
class Finished:
    """An experiment's cells, part by part, with where and when they were made."""

    experiment: Experiment
    scale: str
    cells: list[list[Cell]]
    seconds: float
    """Of CPU time, all jobs together."""
    dates: list[str]
    commits: list[str]
    seeds: int


def jobs_of(experiment: Experiment, scale: str, seeds: int | None, work: Path = WORK) -> list[Job]:
    return [
        Job(sweep, column, seed, work / key(sweep) / f"{_file_name(column)}-{seed}.json")
        for sweep in experiment.sweeps(scale)
        for column in sweep.columns
        for seed in range(seeds or sweep.seeds)
    ]


def _file_name(column: str) -> str:
    return re.sub(r"[^\w.]+", "_", column)


def run(
    experiments: Sequence[Experiment],
    *,
    scale: str = "reduced",
    seeds: int | None = None,
    workers: int = 1,
    executor: Executor | None = None,
    work: Path = WORK,
    say: Callable[[str], None] = print,
    on_finished: Callable[[Finished], None] = lambda finished: None,
) -> dict[str, str]:
    """Run what is not there yet, and hand over every experiment as soon as its last job is in.

    ``executor``: who runs the jobs (None: ``workers`` processes of one thread each); their cells are written here.
    Returns experiment -> why it failed; one failure does not stop the others.
    """
    if scale not in SCALES:
        raise UnderstudyError(f"scale={scale!r} is unknown; use one of {', '.join(SCALES)}")
    wanted = {experiment.name: jobs_of(experiment, scale, seeds, work) for experiment in experiments}
    open_jobs = {job.path: job for jobs in wanted.values() for job in jobs if not job.path.exists()}
    waiting = {experiment.name: experiment for experiment in experiments}
    failed: dict[Path, str] = {}

    def hand_over() -> None:
        for name in list(waiting):
            paths = [job.path for job in wanted[name]]
            if all(path.exists() or path in failed for path in paths):
                experiment = waiting.pop(name)
                if not any(path in failed for path in paths):
                    on_finished(load(experiment, scale, seeds, work))

    hand_over()
    if open_jobs:
        jobs = list(open_jobs.values())
        if executor is None:
            executor = Processes(workers)
            say(f"{len(jobs)} jobs in {workers} process{'es' if workers > 1 else ''} of one thread")
        made = {"date": time.strftime("%Y-%m-%d"), "commit": commit()}
        with closing(executor.map(_measure, jobs)) as results:
            for done, (number, (cells, seconds, problem)) in enumerate(results, start=1):
                job = jobs[number]
                if problem:
                    failed[job.path] = problem
                else:
                    write_json(job.path, {
                        "setting": {type(job.sweep).__name__: asdict(job.sweep)},  # type: ignore[call-overload]
                        "cells": [asdict(cell) for cell in cells], "seconds": round(seconds, 1), **made,
                    })  # fmt: skip
                users = ", ".join(name for name, its in wanted.items() if any(one.path == job.path for one in its))
                say(f"{done}/{len(jobs)} {users}: {job.column}, seed {job.seed}: {problem or f'{seconds:.0f} s'}")
                hand_over()
    return {name: failed[job.path] for name, jobs in wanted.items() for job in jobs if job.path in failed}


def _measure(job: Job) -> tuple[list[Cell], float, str]:
    """Cells, seconds of CPU time, and what went wrong: a failure is text, so that the other jobs go on."""
    before = resource.getrusage(resource.RUSAGE_SELF)
    try:
        cells = job.sweep.measure(job.column, job.seed)
    except UnderstudyError as error:
        return [], 0.0, str(error)
    except Exception as error:  # a bug in one experiment must not lose the hours of the others
        return [], 0.0, f"{type(error).__name__}: {error}"
    after = resource.getrusage(resource.RUSAGE_SELF)
    return cells, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, ""


def load(experiment: Experiment, scale: str, seeds: int | None, work: Path = WORK) -> Finished:
    parts: list[list[Cell]] = []
    stored: dict[Path, Any] = {}
    for sweep in experiment.sweeps(scale):
        mine = [job for job in jobs_of(experiment, scale, seeds, work) if job.sweep == sweep]
        stored |= {job.path: read_json(job.path) for job in mine}
        cells = [cell for job in mine for cell in stored[job.path]["cells"]]
        parts.append([Cell(**cell | {"curve": tuple(cell["curve"])}) for cell in cells])
    return Finished(
        experiment,
        scale,
        parts,
        seconds=sum(job["seconds"] for job in stored.values()),
        dates=sorted({job["date"] for job in stored.values()}),
        commits=sorted({job["commit"] for job in stored.values()}),
        seeds=max(cell.seed for part in parts for cell in part) + 1,
    )


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
