"""Calls whose way through the files is counted (``docs/architecture.md``, "How far a call travels").

    python tests/walk_calls.py train FOLDER           # us.train(out=FOLDER/run), SLaM, one batch, with select rows
    python tests/walk_calls.py command FOLDER         # understudy train --text of 220 CSV rows, one epoch
    python tests/walk_calls.py select FOLDER          # understudy select, BADGE, of the same file and its run

Each prints the number of files passed and of changes from one file of the package to another.
"""

import csv
import random
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from typer.testing import CliRunner

import understudy as us
from understudy import cli

PACKAGE = str(Path(us.__file__).parent)


class Walk:
    """A profile function that counts the package's files and the changes between them; imports do not count."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        self.changes, self.last = 0, ""

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        name = frame.f_code.co_filename
        if event != "call" or not name.startswith(PACKAGE) or frame.f_code.co_name == "<module>" or _imports(frame):
            return
        self.files.add(name)
        self.changes += self.last not in ("", name)
        self.last = name


def _imports(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def walked(call: Callable[[], Any]) -> tuple[int, int]:
    """Files passed and changes of file."""
    walk, before = Walk(), sys.getprofile()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sys.setprofile(walk)
        try:
            call()
        finally:
            sys.setprofile(before)
    return len(walk.files), walk.changes


def train(folder: Path) -> tuple[int, int]:
    """``us.train`` of one epoch of one batch on 12 gold and 40 pool rows, saved."""
    draw = torch.Generator().manual_seed(0)
    x, y = torch.randn(72, 4, generator=draw), torch.arange(72) % 3
    probs = torch.rand(72, 3, generator=draw) + 2 * torch.nn.functional.one_hot(y, 3)
    probs = probs / probs.sum(1, keepdim=True)
    gold, pool = us.Gold(x[:12], y[:12], probs[:12]), us.Pool(x[12:52], probs[12:52])
    select, student, method = us.Gold(x[52:], y[52:]), us.models.mlp(4, 3, hidden=(8,)), us.slam()
    options: dict[str, Any] = {"select": select, "epochs": 1, "out": folder / "run", "progress": False}
    return walked(lambda: us.train(student, gold, pool, method, **options))


def command(folder: Path) -> tuple[int, int]:
    """``understudy train --text`` with its cross-validated evaluation."""
    gold, pool = _files(folder)
    options = ("--text", "message", "--method", "slam", "--student", "mlp:16", "--epochs", "1", "--quiet")
    return walked(lambda: _run("train", "--gold", gold, "--pool", pool, *options, "--out", folder / "student"))


def select(folder: Path) -> tuple[int, int]:
    gold, pool = _files(folder)
    if not (folder / "student").exists():
        command(folder)
    options = ("--strategy", "badge", "-n", "10", "--labelled", gold, "--quiet", "--out", folder / "batch.csv")
    return walked(lambda: _run("select", folder / "student", pool, *options))


def _run(*arguments: Any) -> None:
    result = CliRunner().invoke(cli.app, [str(each) for each in arguments])
    assert result.exit_code == 0, result.output


def _files(folder: Path) -> tuple[Path, Path]:
    """60 gold labels by id, and a pool of 220 texts with a teacher that is wrong on one in ten."""
    draw, gold, pool = random.Random(0), folder / "gold.csv", folder / "pool.csv"
    terms = {"billing": ["bill", "invoice", "refund", "charge"], "delivery": ["parcel", "delivery", "late", "box"]}
    rows = []
    for row in range(220):
        label = draw.choice(sorted(terms))
        text = " ".join(draw.choices([*terms[label], "the", "my", "is", "please", "hello"], k=8))
        rows.append((f"r{row}", text, label if draw.random() < 0.8 else draw.choice(sorted(terms)), label))
    for path, header, lines in (
        (pool, ("id", "message", "teacher_label"), [row[:3] for row in rows]),
        (gold, ("id", "label"), [(row[0], row[3]) for row in rows[:60]]),
    ):
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([header, *lines])
    return gold, pool


CALLS = {"train": train, "command": command, "select": select}

if __name__ == "__main__":
    print(*CALLS[sys.argv[1]](Path(sys.argv[2])))
