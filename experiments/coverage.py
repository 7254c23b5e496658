"""Whether every printed 95% interval holds the truth in 95% of simulated data sets, and whether figures are biased.

    make coverage                                       some hours of two cores; goes on where it was stopped
    python -m experiments.coverage --parts audit votes --sets 50
    python -m experiments.coverage --again train        what is kept of a part is measured anew
    python -m experiments.coverage --minutes 2          stops after that; the same command goes on
    python -m experiments.coverage --parts auto --signals noise --sets 1000

For every part of ``coverage_parts``, signal (none, weak, strong) and number of gold rows: simulated data sets, each
with what a command prints and the truth of it. Kept are their number and sums, in ``docs/results/coverage.json``, so
that any machine goes on from there. Where several intervals of one kind are printed of a set (one for each class),
their mean counts. Expected: 93 to 97% in every cell, and no bias beyond three of its standard errors; cells that fail
are marked on the page.
"""

import argparse
import json
import math
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.special import stdtrit

from experiments.coverage_data import SIGNALS
from experiments.coverage_parts import PARTS, Found, measure
from experiments.runner import commit
from experiments.table import markdown, publish
from understudy.parallel.executors import InProcess, WorkerProcesses
from understudy.store.files import read_json, write_bytes

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
of two classes knows 66%, with a strong one 92%. Parts have the same seeds, so that an unlucky draw shows in several
rows: *accuracy, test set* is binomial by construction and low at 50 and 100 rows all the same (of 300 other sets 92 to
96% hold). What is off for a reason:

- *rate of a confusion*: listed where gold has one, so that those of a few rows look too frequent.
- *accuracy by confidence*: an isotonic curve bends at its ends, also where the truth is flat; too wide where it rises.
- *campaign*: later rounds have a figure where 100 random rows measure it. These helped to choose the others, which
  lifts it where features tell nothing.
- *expected accuracy*: only of what seems above chance, so too high without a signal.
- *in a group*: an F1 of few rows is low in the mean.
- *wrong labels among the suspects*: no bias, as no estimate is printed; with few errors its prior counts."""


#: Part -> how many ``sets`` by signal (seeds 0, 1, …), by which ``commits``, and the ``cells``:
#: interval -> "signal rows" -> sums over the sets (``add``).
Kept = dict[str, dict[str, Any]]
#: "signal rows" -> interval -> its intervals in one data set.
OneSet = dict[str, dict[str, list[Found]]]


class Job(NamedTuple):
    part: str
    signal: str
    seed: int


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

    @classmethod
    def of(cls, sums: Sequence[float]) -> "Cell":
        count, held, off, squares, width = sums
        variance = max(squares - off**2 / count, 0.0) / (count - 1) if count > 1 else math.inf
        errors = (math.sqrt(each / count) for each in (0.95 * 0.05, variance))
        return cls(int(count), held / count, next(errors), off / count, next(errors), width / count)


def add(sums: Sequence[float], found: Sequence[Found]) -> list[float]:
    """One more data set: the sums of 1, of whether the truth is held, of the error, its square, and the width."""
    held = np.mean([one.low - 1e-12 <= one.truth <= one.high + 1e-12 for one in found])
    off = np.nan_to_num(np.mean([one.estimate - one.truth for one in found]))  # no estimate: no bias
    width = np.mean([one.high - one.low for one in found])
    # Rounded, so that files are small and 1e-17 is no bias.
    return [round(float(a + b), 9) for a, b in zip(sums, (1, held, off, off**2, width), strict=True)]


def work(job: Job) -> OneSet:
    """A data set of each number of gold rows."""
    part, signal, seed = job
    return {f"{signal} {rows}": dict(measure(part, signal, rows, seed)) for rows in GOLD_ROWS}


def read(file: Path) -> Kept:
    kept: Kept = read_json(file) if file.exists() else {}
    return kept


def write(file: Path, kept: Kept) -> None:
    """A line for each interval."""
    text = json.dumps(kept, separators=(",", ":")).replace('},"', '},\n"').replace('{"', '{\n"', 1)
    write_bytes(file, (text + "\n").encode())


def run(file: Path, parts: Sequence[str], signals: Sequence[str], sets: int, workers: int, minutes: float) -> None:
    """Measure what is missing, a set of every part before the next set of any. Sets are added by seed, whatever the
    order they are finished in: a part's sums depend on their number alone."""
    kept, started, waiting = read(file), time.monotonic(), dict[Job, OneSet]()
    for part in parts:
        kept.setdefault(part, {"sets": dict.fromkeys(SIGNALS, 0), "commits": [], "cells": {}})
    every = (Job(part, signal, seed) for seed, part, signal in product(range(sets), parts, signals))
    left = [job for job in every if job.seed >= kept[job.part]["sets"][job.signal]]
    executor = WorkerProcesses(workers) if workers > 1 else InProcess()
    with closing(executor.map(work, left)) as results:
        for count, (number, found) in enumerate(results, start=1):
            job = left[number]
            waiting[job], done = found, kept[job.part]["sets"]
            while (following := job._replace(seed=done[job.signal])) in waiting:
                _add_set(kept[job.part], waiting.pop(following))
                done[job.signal] += 1
            write(file, kept)
            seconds = time.monotonic() - started
            print(
                f"{job.part}, {job.signal}: {done[job.signal]} sets ({count} of {len(left)}, {seconds:.0f} s)",
                flush=True,
            )
            if seconds > 60 * minutes:
                return


def _add_set(part: dict[str, Any], found: OneSet) -> None:
    part["commits"] = sorted({*part["commits"], commit()})
    for place, by_name in found.items():
        for name, intervals in by_name.items():
            if intervals:
                sums = part["cells"].setdefault(name, {})
                sums[place] = add(sums.get(place, [0] * 5), intervals)


Table = dict[tuple[str, str], dict[str, dict[int, Cell]]]


def cells(kept: Mapping[str, Mapping[str, Any]]) -> Table:
    """(part, interval) -> signal -> gold rows -> cell."""
    table: Table = {}
    for part in PARTS:
        for name, sums in kept.get(part, {"cells": {}})["cells"].items():
            for place, each in sums.items():
                signal, rows = place.split()
                table.setdefault((part, name), {}).setdefault(signal, {})[int(rows)] = Cell.of(each)
    return table


def page(kept: Kept) -> str:
    table = cells(kept)
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
        "\n".join(_part_line(part, kept[part]) for part in PARTS if part in kept),
        NOTES,
        _noise_of_auto(table),
        markdown(["command", "interval", "signal", *map(str, GOLD_ROWS)], rows).strip().replace(" | ", "|"),
    ]
    return "\n\n".join(filter(None, text)) + "\n"


def _noise_of_auto(table: Table) -> str:
    found = table.get(("auto", "accuracy, cross-validated"), {}).get("noise", {})
    each = (f"{100 * one.bias:+.1f} ± {100 * one.bias_error:.1f} ({rows})" for rows, one in sorted(found.items()))
    text = f"`auto` without a signal, minus 50%, ± standard error (gold rows): {', '.join(each)} points."
    return text.replace("-", "−") if found else ""


def _part_line(part: str, kept: Mapping[str, Any]) -> str:
    by_signal = kept["sets"].values()
    sets = " / ".join(map(str, by_signal if len({*by_signal}) > 1 else {*by_signal}))
    error = 100 * math.sqrt(0.95 * 0.05 / max(min(by_signal), 1))
    measured = f"{sets} of {SETS} sets (standard error {error:.1f}), commit {', '.join(kept['commits'])}"
    return f"- *{part}*: {measured}. {PARTS[part].__doc__}"


def _text(found: Cell | None) -> str:
    """``95.5/−0.1``: coverage in percent, and the bias in points; no bias where an interval alone is printed, or where
    it cancels over the classes.
    """
    if found is None or found.sets < FEWEST:
        return "–"
    covered, bias = f"{100 * found.coverage:.1f}", f"{100 * found.bias:+.1f}".replace("-", "−")
    shown = f"**{covered}**" if found.misses else covered
    return shown if not found.bias_error else f"{shown}/{f'**{bias}**' if found.is_biased else bias}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=list(PARTS), metavar="PART")
    parser.add_argument("--signals", nargs="+", choices=list(SIGNALS), default=list(SIGNALS), metavar="SIGNAL")
    parser.add_argument("--sets", type=int, default=SETS, help="at most so many data sets of each cell")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=math.inf, help="stop after so many")
    parser.add_argument("--again", nargs="+", choices=list(PARTS), default=[], metavar="PART", help="measure anew")
    parser.add_argument("--kept", type=Path, default=Path("docs/results/coverage.json"), help="the sums so far")
    parser.add_argument("--out", type=Path, help="write the table to this Markdown file")
    options = parser.parse_args()
    torch.set_num_threads(1)
    write(options.kept, {part: kept for part, kept in read(options.kept).items() if part not in options.again})
    run(options.kept, options.parts, options.signals, options.sets, options.workers, options.minutes)
    publish(page(read(options.kept)), options.out)


if __name__ == "__main__":
    main()
