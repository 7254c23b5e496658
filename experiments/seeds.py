"""Results over seeds: means with 95% t-intervals, paired differences, jobs in processes, Markdown."""

import math
import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from scipy import stats

from experiments.table import save

Job = TypeVar("Job")
Result = TypeVar("Result")


def in_processes(work: Callable[[Job], Result], jobs: Sequence[Job], workers: int) -> Iterator[Result]:
    """Every job's result, in order, from processes of one thread each: two threads in one training gain little."""
    with multiprocessing.get_context("spawn").Pool(workers, torch.set_num_threads, (1,)) as pool:
        yield from pool.imap(work, jobs)


def half_width(values: Sequence[float]) -> float:
    """Half of the 95% t-interval of the mean; NaN for a single seed."""
    if len(values) < 2:
        return math.nan
    spread = float(np.std(values, ddof=1)) / math.sqrt(len(values))
    return float(stats.t.ppf(0.975, len(values) - 1)) * spread


def percent(values: Sequence[float], *, signed: bool = False) -> str:
    """Shares as "mean ± half width", in percent (points for differences)."""
    mean = 100 * float(np.mean(values))
    around = half_width(values)
    shown = f"{mean:+.2f}" if signed else f"{mean:.2f}"
    return shown if math.isnan(around) else f"{shown} ± {100 * around:.2f}"


def paired(values: Sequence[float], base: Sequence[float]) -> str:
    """The difference to a baseline on the same seeds, in points."""
    return percent([value - other for value, other in zip(values, base, strict=True)], signed=True)


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def publish(text: str, out: Path | None) -> None:
    print(text)
    save(out, text.rstrip())
