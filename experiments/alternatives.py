"""Does it pay? Ours beside what a user would pick instead: same features, same gold, same rows tested.

    python -m experiments.alternatives --out docs/results/alternatives.md#alternatives --workers 2
    python -m experiments.alternatives --only rivals --settings "SMS, rules" --seeds 3
    python -m experiments.alternatives --methods auto --again                              # these are run anew

24 settings (``alternatives_data``), 3 seeds. Cells are kept per setting and seed, and filled method by method: what is
there is not run again. Settings whose nets are not at hand, and methods that need cleanlab or Snorkel where
$UNDERSTUDY_PEERS names no Python that has them, are left out and named on the page.

    the alternatives take about 10 minutes of one core; expected of auto: 2 points or more above the best alternative of
    each setting in the mean, and in none below it by more than 0.5
"""

import argparse
import re
import sys
import warnings
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import torch
from sklearn.exceptions import ConvergenceWarning

import understudy as us
from experiments import peers
from experiments.alternatives_data import SETTINGS, unavailable
from experiments.alternatives_methods import METHODS, NEED_PEERS, OURS, REFERENCES, RIVALS, Case
from experiments.alternatives_page import Cell, page
from experiments.table import publish
from understudy.parallel.executors import WorkerProcesses
from understudy.store.files import read_json, write_json

SEEDS = 3
GROUPS = {"rivals": [*REFERENCES, *RIVALS], "ours": list(OURS), "all": list(METHODS)}


class Job(NamedTuple):
    setting: str
    seed: int
    methods: tuple[str, ...]


def cell_file(work: Path, setting: str, seed: int) -> Path:
    return work / f"{re.sub('[^a-z0-9]+', '-', setting.lower()).strip('-')}-{seed}.json"


def read_cell(work: Path, setting: str, seed: int) -> Cell:
    file = cell_file(work, setting, seed)
    return Cell(**read_json(file)) if file.exists() else Cell()


def run(job: Job) -> Cell:
    """Only what this job is to measure. A method that does not apply here is remembered as such."""
    case, cell = Case(SETTINGS[job.setting](job.seed), job.seed), Cell()
    for name in job.methods:
        started = peers.seconds()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", us.UnderstudyWarning)  # little gold, on purpose
            warnings.simplefilter("ignore", ConvergenceWarning)  # what LR has after 300 steps is what users take
            try:
                cell.accuracy[name] = METHODS[name](case)
            except us.UnderstudyError as error:
                print(f"{job.setting}, seed {job.seed}, {name}: {error}", file=sys.stderr)
                continue
        cell.seconds[name] = round(peers.seconds() - started, 3)
    return cell


def run_all(work: Path, settings: Sequence[str], methods: Sequence[str], seeds: int, workers: int, again: bool) -> None:
    jobs = []
    for seed in range(seeds):
        for setting in settings:
            done = {} if again else read_cell(work, setting, seed).accuracy
            left = tuple(name for name in methods if name not in done)
            if left:
                jobs.append(Job(setting, seed, left))
    with closing(WorkerProcesses(workers).map(run, jobs)) as results:
        for number, found in results:
            job = jobs[number]
            before = read_cell(work, job.setting, job.seed)
            cell = Cell(before.accuracy | found.accuracy, before.seconds | found.seconds)
            write_json(cell_file(work, job.setting, job.seed), {"accuracy": cell.accuracy, "seconds": cell.seconds})
            shown = {name: f"{100 * value:.1f}" for name, value in found.accuracy.items() if value is not None}
            print(job.setting, job.seed, shown, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--settings", nargs="+", choices=list(SETTINGS), default=list(SETTINGS), metavar="SETTING")
    parser.add_argument("--only", choices=list(GROUPS), default="all", help="which methods to run")
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), metavar="METHOD", help="these alone, by name")
    parser.add_argument("--again", action="store_true", help="run these methods even where they have been run")
    parser.add_argument("--work", type=Path, default=Path("runs/alternatives"), help="where finished cells are kept")
    parser.add_argument("--out", type=Path, help="write the tables to this Markdown file")
    options = parser.parse_args()
    torch.set_num_threads(1)
    missing = {setting: why for setting in options.settings if (why := unavailable(setting)) is not None}
    settings = [setting for setting in options.settings if setting not in missing]
    methods = options.methods or GROUPS[options.only]
    if not peers.available():
        missing |= {name: f"{peers.PYTHON} is not set" for name in methods if name in NEED_PEERS}
        methods = [name for name in methods if name not in NEED_PEERS]
    run_all(options.work, settings, methods, options.seeds, options.workers, options.again)
    found = {name: [read_cell(options.work, name, seed) for seed in range(options.seeds)] for name in settings}
    publish(page(found, missing), options.out)


if __name__ == "__main__":
    main()
