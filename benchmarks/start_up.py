"""How long the command line takes to answer, beside importing PyTorch: help, a mistake, 600 predictions.

Each is a process of its own, in turn, and costs its processor time. Targets: half a second for what needs no PyTorch,
and 0.7 s beyond importing it for predictions, where importing it takes 2 s. Predicted are rows of 20 numbers, and texts
of three words (TF-IDF), both from CSV to CSV, by students that one epoch trained.

    python -m benchmarks.start_up
"""

import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.figures import Figure, main

ROWS = 600
TORCH = "import torch"
HELP, PREDICT = "≤ 0.25", "≤ 1.35"
COMMANDS = {
    "--help": HELP,
    "train --help": HELP,
    "train --bogus": HELP,
    "predict numbers numbers.csv --out predictions.csv": PREDICT,
    "predict texts texts.csv --out predictions.csv": PREDICT,
}


def figures(repeats: int = 5) -> list[Figure]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _train(folder)
        seconds: dict[str, list[float]] = {command: [] for command in (TORCH, *COMMANDS)}
        for _ in range(repeats + 1):
            for command, times in seconds.items():
                (folder / "predictions.csv").unlink(missing_ok=True)
                words = ["-c", TORCH] if command == TORCH else ["-m", "understudy", *command.split()]
                times.append(_cost(words, folder))
    # The first turn reads files that the others find in memory.
    cost = {command: statistics.median(times[1:]) for command, times in seconds.items()}
    return [
        Figure(f"understudy {command}", "s", cost[command], TORCH, cost[TORCH], cost[command] / cost[TORCH], target)
        for command, target in COMMANDS.items()
    ]


def _cost(words: list[str], folder: Path) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *words], cwd=folder, env=_environment(), capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def _environment() -> dict[str, str]:
    return os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def _train(folder: Path) -> None:
    """Two runs, and the rows to predict."""
    rng = np.random.default_rng(0)
    numbers = [",".join(f"{value:.4f}" for value in row) for row in rng.normal(size=(ROWS, 20))]
    texts = [" ".join(row) for row in rng.choice(["good", "bad", "fine", "poor", "dull"], (ROWS, 3))]
    header = ",".join(f"f{number}" for number in range(20))
    for name, columns, rows, more in [("numbers", header, numbers, []), ("texts", "t", texts, ["--text", "t"])]:
        (folder / f"{name}.csv").write_text("\n".join([columns, *rows]) + "\n")
        gold = [f"{columns},label", *(f"{row},{'ab'[number % 2]}" for number, row in enumerate(rows[:100]))]
        (folder / f"{name}_gold.csv").write_text("\n".join(gold) + "\n")
        words = ["train", "--gold", f"{name}_gold.csv", "--method", "vanilla", "--epochs", "1", "--quiet", *more]
        command = [sys.executable, "-m", "understudy", *words, "--out", name]
        subprocess.run(command, cwd=folder, env=_environment(), check=True, capture_output=True)


if __name__ == "__main__":
    main(figures)
