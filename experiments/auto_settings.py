"""``us.auto`` beside every method of its short list, on ten settings from images, text, rules and an LLM's labels.

    python -m experiments.auto_settings --work runs/auto --out docs/results/auto.md     # goes on where it stopped

Per setting and seed: each candidate of ``us.auto`` is trained in full and tested, and ``us.auto`` runs its pilot on
gold and trains what it chose. Regret is what auto loses to the method with the best mean of the setting, which only the
test rows can tell. The rule was made on the settings marked *dev*; the others were run after it was fixed.

    about 8 minutes of one quiet core; expect a mean regret of at most 1 point, a mean accuracy above the best single
    method's less 0.2, and no setting below vanilla by more than max(0.5 points, 2 paired standard errors)
"""

import argparse
import re
import warnings
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
from understudy.comparison.cells import alone, candidates
from understudy.comparison.executors import Processes
from understudy.comparison.interval import Interval
from understudy.comparison.outcome import GOLD_ONLY
from understudy.store.files import read_json, write_json
from understudy.training.recipe import Recipe

SEEDS, PILOT_ROWS = 3, 1500


@dataclass(frozen=True)
class Cell:
    """One setting under one seed: test accuracy of every candidate and of what auto trained."""

    methods: dict[str, float]
    teacher: float
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
        recipe, pool = Recipe(epochs=given.epochs, seed=seed, refine=False, **given.recipe), given.pool
        if name == GOLD_ONLY:
            recipe, pool = alone(recipe, given.gold, given.pool), None
        run = us.train(given.student, given.gold, pool, objective, progress=False, **recipe.arguments())
        tested[name] = us.evaluate(run.student, given.test)["accuracy"]
    chosen = us.auto(given.student, given.gold, given.pool, pilot_rows=PILOT_ROWS, workers=1, **common)
    right = given.gold.teacher.top1() == given.gold.y[given.gold.teacher_rows]
    return Cell(
        tested,
        float(right.double().mean()),
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

    with closing(Processes(workers).map(run_quietly, left)) as results:
        for number, found in results:
            write_json(cell_file(work, *left[number]), asdict(found))
            vanilla = 100 * found.methods["vanilla"]
            print(*left[number], f"auto {100 * found.auto:.1f} by {found.choice}, vanilla {vanilla:.1f}", flush=True)
    return {s: [Cell(**read_json(cell_file(work, s, seed))) for seed in range(seeds)] for s in SETTINGS}


def fixed_mean(cells: Sequence[Cell], method: str) -> float:
    """Hard labels are hard already, and cannot be ranked: there these two methods are vanilla."""
    return mean(cell.methods.get(method, cell.methods["vanilla"]) for cell in cells)


def tables(found: dict[str, list[Cell]]) -> str:
    names = list(dict.fromkeys(name for cells in found.values() for cell in cells for name in cell.methods))
    rows, regrets, below = [], [], []
    for setting, cells in found.items():
        best = max(names, key=lambda name: fixed_mean(cells, name))
        mine = mean(cell.auto for cell in cells)
        gap = Interval.of(cell.auto - cell.methods["vanilla"] for cell in cells)
        regrets.append(fixed_mean(cells, best) - mine)
        if gap.mean < -max(0.005, 2 * gap.error):
            below.append(setting)
        rows.append(
            [
                setting + (" (dev)" if setting in DEV else ""),
                *(
                    f"{100 * number:.1f}"
                    for number in (mean(cell.teacher for cell in cells), fixed_mean(cells, "vanilla"))
                ),
                f"{best} {100 * fixed_mean(cells, best):.1f}",
                f"{100 * mine:.1f}",
                f"{100 * gap.mean:+.1f} ± {100 * gap.error:.1f}",
                f"{100 * regrets[-1]:.1f}",
                ", ".join(cell.choice for cell in cells),
            ]
        )
    header = [
        "setting",
        "teacher",
        "vanilla",
        "best method",
        "auto",
        "auto − vanilla (s.e.)",
        "regret",
        "auto's choices",
    ]
    overall = {name: mean(fixed_mean(cells, name) for cells in found.values()) for name in names}
    top = max(overall, key=lambda name: overall[name])
    ours = mean(cell.auto for cells in found.values() for cell in cells)
    seen = [setting for setting in found if setting not in DEV]
    unseen = mean(regret for setting, regret in zip(found, regrets, strict=True) if setting in seen)
    summary = [
        [
            "mean regret to the best method of each setting",
            f"{100 * mean(regrets):.2f}",
            "≤ 1",
            _met(mean(regrets) <= 0.01),
        ],
        [f"the same, on the {len(seen)} settings that are not dev", f"{100 * unseen:.2f}", "≤ 1", _met(unseen <= 0.01)],
        [
            f"mean accuracy of auto, less that of the best single method ({top} {100 * overall[top]:.2f})",
            f"{100 * (ours - overall[top]):+.2f}",
            "≥ −0.2",
            _met(ours - overall[top] >= -0.002),
        ],
        ["settings below vanilla by more than max(0.5, 2 s.e.)", str(len(below)), "0", _met(not below)],
    ]
    every = [
        [name, *(f"{100 * fixed_mean(cells, name):.1f}" for cells in found.values()), f"{100 * overall[name]:.1f}"]
        for name in names
    ]
    parts = [
        f"**us.auto beside every method of its short list** (test accuracy in %, {len(found['digits'])} seeds)",
        markdown(["what", "found", "target", "met"], summary),
        markdown(header, rows),
        "Every method, trained in full:",
        markdown(["method", *found, "mean"], every),
    ]
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


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
