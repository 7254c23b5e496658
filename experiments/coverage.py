"""Whether every printed 95% interval holds the truth in 95% of simulated data sets, and whether figures are biased.

    make coverage                                       about two hours of two cores; goes on where it was stopped
    python -m experiments.coverage --parts audit votes --sets 50
    python -m experiments.coverage --again train        what is kept of a part is measured anew
    python -m experiments.coverage --minutes 2          stops after that; the same command goes on

For every part of ``coverage_parts``, signal (none, weak, strong) and number of gold rows: simulated data sets, each
with what a command prints and the truth of it. Kept, as a line for each set, in ``runs/coverage``. Where several
intervals of one kind are printed of a set (one for each class), their mean counts. Expected: 93 to 97% in every cell,
and no bias beyond three of its standard errors; cells that fail are marked on the page.
"""

import argparse
import json
import math
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from scipy.special import stdtrit

from experiments.coverage_data import SIGNALS
from experiments.coverage_parts import PARTS, Found, measure
from experiments.runner import commit
from experiments.table import markdown, publish
from understudy.parallel.executors import InProcess, WorkerProcesses

GOLD_ROWS = (24, 50, 100, 300)
#: Data sets of a cell: three standard errors of a coverage of 95% are 4.6 points.
SETS = 200
LOWEST, HIGHEST = 0.93, 0.97
#: Sets of a cell that is shown.
FEWEST = 20
#: The chance of less than three standard errors above 0.
BEYOND = 0.99865
NOTES = """\
Columns: gold rows. Without a signal features and teacher say nothing about the class; with a weak one the best student
of two classes knows 66%, with a strong one 92%. Confusions are listed where gold has one, the larger direction of a
pair first, so they look larger. Cross-validated figures are of students with fewer gold rows than the one
that is handed over, and slightly low."""


class Job(NamedTuple):
    part: str
    signal: str
    gold_rows: int
    seed: int


class Measured(NamedTuple):
    job: Job
    found: dict[str, list[Found]]
    commit: str


class Cell(NamedTuple):
    """All data sets of one interval, signal and number of gold rows."""

    sets: int
    coverage: float
    #: Of single intervals at 95%; of several in a set it is less.
    coverage_error: float
    bias: float
    bias_error: float
    width: float

    @property
    def misses(self) -> bool:
        """Whether the coverage is outside of the target by more than two standard errors."""
        slack = 2 * self.coverage_error
        return not LOWEST - slack <= self.coverage <= HIGHEST + slack

    @property
    def is_biased(self) -> bool:
        """By more than three standard errors, or what is as seldom with few sets."""
        return abs(self.bias) > float(stdtrit(max(self.sets - 1, 1), BEYOND)) * self.bias_error


def cell(sets: Sequence[Sequence[Found]]) -> Cell:
    held, off, width = (
        np.array([np.mean([measured(one) for one in found]) for found in sets])
        for measured in (_holds, lambda one: one.estimate - one.truth, lambda one: one.high - one.low)
    )
    count = len(sets)
    error = off.std(ddof=1) / math.sqrt(count) if count > 1 else math.inf
    return Cell(
        count, float(held.mean()), math.sqrt(0.95 * 0.05 / count), float(off.mean()), float(error), float(width.mean())
    )


def _holds(one: Found) -> bool:
    return one.low - 1e-12 <= one.truth <= one.high + 1e-12


def work(job: Job) -> dict[str, list[Found]]:
    return dict(measure(*job))


def stored(folder: Path, part: str) -> Iterator[Measured]:
    file = folder / f"{part}.jsonl"
    for line in file.read_text(encoding="utf-8").splitlines(keepends=True) if file.exists() else ():
        if line.endswith("\n"):  # else a kill cut it
            kept = json.loads(line)
            found = {name: [Found(*one) for one in each] for name, each in kept["found"].items()}
            yield Measured(Job(*kept["job"]), found, kept["commit"])


def run(folder: Path, parts: Sequence[str], sets: int | None, workers: int, minutes: float) -> None:
    """Measure what is missing, a set of every cell before the next set of any."""
    folder.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    executor = WorkerProcesses(workers) if workers > 1 else InProcess()
    for part in parts:
        done = {kept.job for kept in stored(folder, part)}
        seeds = range(SETS if sets is None else min(sets, SETS))
        jobs = [Job(part, signal, rows, seed) for seed, signal, rows in product(seeds, SIGNALS, GOLD_ROWS)]
        left = [job for job in jobs if job not in done]
        if not left:
            continue
        print(f"{part}: {len(left)} of {len(jobs)} data sets", flush=True)
        file_name = folder / f"{part}.jsonl"
        if file_name.exists() and not (kept := file_name.read_bytes()).endswith(b"\n"):
            file_name.write_bytes(kept[: kept.rfind(b"\n") + 1])  # a kill cut the last line
        with file_name.open("a", encoding="utf-8") as file, closing(executor.map(work, left)) as results:
            for count, (number, found) in enumerate(results, start=1):
                file.write(json.dumps({"job": left[number], "commit": commit(), "found": found}) + "\n")
                file.flush()
                if count % 60 == 0:
                    print(f"{part}: {count} of {len(left)}, {time.monotonic() - started:.0f} s", flush=True)
                if time.monotonic() - started > 60 * minutes:
                    return


Table = dict[tuple[str, str], dict[str, dict[int, Cell]]]


def cells(folder: Path) -> Table:
    """(part, interval) -> signal -> gold rows -> cell."""
    gathered: dict[tuple[str, str, str, int], list[list[Found]]] = defaultdict(list)
    for part in PARTS:
        for kept in stored(folder, part):
            for name, intervals in kept.found.items():
                if intervals:
                    gathered[part, name, kept.job.signal, kept.job.gold_rows].append(intervals)
    table: Table = {}
    for (part, name, signal, rows), sets in gathered.items():
        table.setdefault((part, name), {}).setdefault(signal, {})[rows] = cell(sets)
    return table


def page(folder: Path) -> str:
    table = cells(folder)
    by_rows = [each for by_signal in table.values() for each in by_signal.values()]
    every = [one for each in by_rows for one in each.values() if one.sets >= FEWEST]
    within = sum(LOWEST <= one.coverage <= HIGHEST for one in every)
    misses, biased = (sum(getattr(one, name) for one in every) for name in ("misses", "is_biased"))
    rows = [
        [part, name, signal, *(_text(by_signal[signal].get(count)) for count in GOLD_ROWS)]
        for (part, name), by_signal in table.items()
        for signal in SIGNALS
        if any(one.sets >= FEWEST for one in by_signal.get(signal, {}).values())
    ]
    text = [
        "# Coverage of the intervals",
        f"How often printed 95% intervals hold the truth of simulated data sets, in percent, and how far the figure is "
        f"off in the mean, in points (`make coverage`). Of {len(every)} cells {within} lie between 93 and 97%. "
        f"**Bold**: further off than the number of sets explains ({misses} cells), or a bias above three standard "
        f"errors ({biased}).",
        "\n".join(
            _part_line(part, list(stored(folder, part))) for part in PARTS if (folder / f"{part}.jsonl").exists()
        ),
        NOTES,
        markdown(["command", "interval", "signal", *map(str, GOLD_ROWS)], rows).strip().replace(" | ", "|"),
    ]
    return "\n\n".join(text) + "\n"


def _part_line(part: str, kept: list[Measured]) -> str:
    sets = len({each.job.seed for each in kept})
    error = 100 * math.sqrt(0.95 * 0.05 / max(sets, 1))
    commits = ", ".join(sorted({each.commit for each in kept}))
    measured = f"{sets} of {SETS} sets (standard error {error:.1f}), commit {commits}"
    return f"- *{part}*: {measured}. {PARTS[part].__doc__}"


def _text(found: Cell | None) -> str:
    """``95.5/−0.1``: coverage in percent, and the bias in points."""
    if found is None or found.sets < FEWEST:
        return "–"
    covered, bias = f"{100 * found.coverage:.1f}", f"{100 * found.bias:+.1f}".replace("-", "−")
    return f"{f'**{covered}**' if found.misses else covered}/{f'**{bias}**' if found.is_biased else bias}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=list(PARTS), metavar="PART")
    parser.add_argument("--sets", type=int, help="at most so many data sets of each cell")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=math.inf, help="stop after so many")
    parser.add_argument("--again", nargs="+", choices=list(PARTS), default=[], metavar="PART", help="measure anew")
    parser.add_argument("--work", type=Path, default=Path("runs/coverage"), help="where finished data sets are kept")
    parser.add_argument("--out", type=Path, help="write the table to this Markdown file")
    options = parser.parse_args()
    torch.set_num_threads(1)
    for part in options.again:
        (options.work / f"{part}.jsonl").unlink(missing_ok=True)
    run(options.work, options.parts, options.sets, options.workers, options.minutes)
    publish(page(options.work), options.out)


if __name__ == "__main__":
    main()
