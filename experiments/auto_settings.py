"""Reconciled labels and ``us.auto`` beside every method of its short list: ten settings of images, text, rules, an LLM.

    python -m experiments.auto_settings --work runs/auto --out docs/results/auto.md#auto     # goes on where it stopped

Per setting and seed: each candidate of ``us.auto`` is trained in full and tested, so is ``us.reconciled()``, and
``us.auto`` runs its pilot on gold and trains what it chose. The best method of a setting is the one with the best mean,
which only the test rows show. Members, ridges and the rule were made on the settings marked *dev*, and on three
seeds of the others; two seeds were run after everything was fixed.

    about 50 minutes of one quiet core; expected of reconciled: 3 points above the best fixed method in the mean, 0.5
    above the best method of each setting, none below by more than max(0.5 points, 2 paired standard errors)
"""

import argparse
import re
import warnings
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean
from typing import Any

import torch

import understudy as us
from experiments.auto_data import DEV, SETTINGS
from experiments.table import markdown, publish
from understudy.comparison.candidates import GOLD_ONLY, candidates
from understudy.comparison.interval import Interval, percent, signed
from understudy.parallel.executors import WorkerProcesses
from understudy.store.files import read_json, write_json
from understudy.training.evaluation import gold_only_options
from understudy.training.options import TrainingOptions

SEEDS = 5
OURS = ("reconciled", "auto")


@dataclass(frozen=True)
class Cell:
    """One setting under one seed: test accuracy of every candidate and of what auto trained."""

    methods: dict[str, float]
    teacher: float
    reconciled: float
    auto: float
    choice: str


def cell_file(work: Path, setting: str, seed: int) -> Path:
    return work / f"{re.sub('[^a-z0-9]+', '-', setting.lower())}-{seed}.json"


def run_cell(setting: str, seed: int) -> Cell:
    given = SETTINGS[setting](seed)
    assert given.gold.teacher is not None
    common: Any = {"epochs": given.epochs, "seed": seed, "progress": False, **given.recipe}
    tested = {}
    for name, objective in candidates(given.gold, given.pool).items():
        recipe, pool = TrainingOptions(epochs=given.epochs, seed=seed, refine=False, **given.recipe), given.pool
        if name == GOLD_ONLY:
            recipe, pool = gold_only_options(recipe, given.gold, given.pool), None
        run = us.train(given.student, given.gold, pool, objective, progress=False, **recipe.arguments())
        tested[name] = us.evaluate(run.student, given.test)["accuracy"]
    merged = us.train(given.student, given.gold, given.pool, us.reconciled(), **common)
    chosen = us.auto(given.student, given.gold, given.pool, workers=1, **common)
    right = given.gold.teacher.top1() == given.gold.y[given.gold.teacher_rows]
    return Cell(
        tested,
        float(right.double().mean()),
        us.evaluate(merged.student, given.test)["accuracy"],
        us.evaluate(chosen.student, given.test)["accuracy"],
        str(chosen.config["auto"]["choice"]),
    )


def run_quietly(cell: tuple[str, int]) -> Cell:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", us.UnderstudyWarning)  # little gold, on purpose
        return run_cell(*cell)


def run_all(work: Path, seeds: int, workers: int) -> dict[str, list[Cell]]:
    cells = [(setting, seed) for seed in range(seeds) for setting in SETTINGS]
    left = [cell for cell in cells if not cell_file(work, *cell).exists()]

    with closing(WorkerProcesses(workers).map(run_quietly, left)) as results:
        for number, found in results:
            write_json(cell_file(work, *left[number]), asdict(found))
            vanilla = 100 * found.methods["vanilla"]
            ours = f"reconciled {100 * found.reconciled:.1f}, auto {100 * found.auto:.1f} by {found.choice}"
            print(*left[number], f"{ours}, vanilla {vanilla:.1f}", flush=True)
    return {s: [Cell(**read_json(cell_file(work, s, seed))) for seed in range(seeds)] for s in SETTINGS}


def fixed_mean(cells: Sequence[Cell], method: str) -> float:
    """Hard labels are hard already, and cannot be ranked: there these two methods are vanilla."""
    return mean(cell.methods.get(method, cell.methods["vanilla"]) for cell in cells)


def tables(found: dict[str, list[Cell]]) -> str:
    names = list(dict.fromkeys(name for cells in found.values() for cell in cells for name in cell.methods))
    rows, leads, behind, below, gaps = [], [], [], [], []
    for setting, cells in found.items():
        best = max(names, key=lambda name: fixed_mean(cells, name))
        lead = Interval.of(cell.reconciled - cell.methods.get(best, cell.methods["vanilla"]) for cell in cells)
        over = Interval.of(cell.auto - cell.methods["vanilla"] for cell in cells)
        leads.append(lead.mean)
        if lead.mean < -max(0.005, 2 * lead.error):
            behind.append(setting)
        if over.mean < -max(0.005, 2 * over.error):
            below.append(setting)
        auto, merged = mean(cell.auto for cell in cells), mean(cell.reconciled for cell in cells)
        gaps.append(max(merged, fixed_mean(cells, best)) - auto)
        teacher, vanilla = mean(cell.teacher for cell in cells), fixed_mean(cells, "vanilla")
        choices = Counter(cell.choice for cell in cells).most_common()
        rows.append([
            setting + (" (dev)" if setting in DEV else ""), percent(teacher), percent(vanilla),
            f"{best} {percent(fixed_mean(cells, best))}", percent(merged), shown(lead), percent(auto), shown(over),
            ", ".join(f"{name} {times}" for name, times in choices),
        ])  # fmt: skip
    header = [
        "setting", "teacher", "vanilla", "best method", "reconciled", "reconciled − best", "auto", "auto − vanilla",
        "auto's choices",
    ]  # fmt: skip
    overall = {name: mean(fixed_mean(cells, name) for cells in found.values()) for name in names}
    top = max(overall, key=lambda name: overall[name])
    merged, auto = (mean(getattr(cell, each) for cells in found.values() for cell in cells) for each in OURS)
    unseen = mean(lead for setting, lead in zip(found, leads, strict=True) if setting not in DEV)
    summary = [
        verdict(f"reconciled − best fixed method ({top} {percent(overall[top])}), mean", merged - overall[top], 0.03),
        verdict("reconciled − best method of each setting, mean", mean(leads), 0.005),
        verdict(f"the same on the {len(found) - len(DEV)} settings that are not dev", unseen, 0.005),
        ["settings where reconciled is below the best method", ", ".join(behind) or "none", "none", _met(not behind)],
        verdict("auto − the better of reconciled and the best method, mean", -mean(gaps), -0.005),
        ["settings where auto is below vanilla", ", ".join(below) or "none", "none", _met(not below)],
    ]
    every = [
        [name, *(percent(fixed_mean(cells, name)) for cells in found.values()), percent(overall[name])]
        for name in names
    ]
    for name, total in zip(OURS, (merged, auto), strict=True):
        means = [percent(mean(getattr(cell, name) for cell in cells)) for cells in found.values()]
        every.append([f"**{name}**", *means, percent(total)])
    parts = [
        f"**Reconciled labels and us.auto beside every method** (test accuracy in %, {len(found['digits'])} seeds; "
        "differences with standard errors; below: by more than max(0.5, 2 s.e.))",
        markdown(["what", "found", "target", "met"], summary),
        markdown(header, rows),
        "Every method, trained in full:",
        markdown(["method", *found, "mean"], every),
    ]
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


def verdict(what: str, found: float, least: float) -> list[str]:
    return [what, f"{100 * found:+.2f}", f"≥ {signed(least)}", _met(found >= least)]


def shown(gap: Interval) -> str:
    return f"{signed(gap.mean)} ± {100 * gap.error:.1f}"


def _met(yes: bool) -> str:
    return "yes" if yes else "**no**"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--work", type=Path, default=Path("runs/auto"), help="where finished cells are kept")
    parser.add_argument("--out", type=Path, help="write the tables to this Markdown file")
    options = parser.parse_args()
    torch.set_num_threads(1)
    publish(tables(run_all(options.work, options.seeds, options.workers)), options.out)


if __name__ == "__main__":
    main()
