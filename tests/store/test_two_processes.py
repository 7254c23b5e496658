"""While one process has a folder, no other changes a byte in it, whatever it was asked to do there."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import understudy as us
from understudy import cli

Y = torch.arange(30) % 2
X = torch.eye(2)[Y] + torch.arange(60).reshape(30, 2) / 100
GOLD, POOL = us.Gold(X[:20], Y[:20], us.Hard(Y[:20])), us.Pool(X[20:], us.Hard(Y[20:]))
STUDENT = partial(us.models.linear, 2, 2)

OWNER = """
import sys
from pathlib import Path
from understudy.store.files import locked
with locked(Path(sys.argv[1])):
    print("mine", flush=True)
    sys.stdin.read()
"""


def command(line: str) -> None:
    result = CliRunner().invoke(cli.app, line.split())
    assert result.exit_code == 2, result.output
    raise us.UnderstudyError(result.stderr)


def loop(budget: int) -> Any:
    return us.active.Loop(
        STUDENT, X, Y, "entropy", out="folder", start=10, batch=5, budget=budget, epochs=1, progress=False
    )


def compare(seeds: int) -> Any:
    return us.compare(
        STUDENT, GOLD, POOL, ["vanilla"], seeds=seeds, out="folder", epochs=1, workers=1, progress=False
    )  # fmt: skip


def train(**options: Any) -> Any:
    return us.train(STUDENT, GOLD, POOL, us.vanilla(), epochs=1, out="folder", progress=False, **options)


def store() -> us.LabelStore:
    return us.LabelStore("folder", 2, "hard")


TRAIN = "train --gold gold.csv --method vanilla --student linear --epochs 1 --quiet"
# What is there before, and what somebody else tries.
TRIED: dict[str, tuple[Callable[[], Any] | None, Callable[[], Any]]] = {
    "train": (None, train),
    "train, resumed": (train, partial(train, resume=True)),
    "the command": (None, partial(command, f"{TRAIN} --out folder")),
    "the command, resumed": (None, partial(command, "train --resume --out folder")),
    "compare": (None, partial(compare, 1)),
    "more of a comparison": (partial(compare, 1), partial(compare, 2)),
    "a new store": (None, lambda: store().append([1], [0])),
    "a store": (lambda: store().append([1], [0]), lambda: store().append([2], [0])),
    "to merge": (lambda: store().append([1], [0]), lambda: store().compact()),
    "to set aside": (lambda: store().append([1], [0]), lambda: us.LabelStore.set_aside_damaged("folder")),
    "a loop": (None, lambda: loop(15).run()),
    "more of a loop": (lambda: loop(15).run(), lambda: loop(20).run()),
}


@pytest.fixture
def owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    monkeypatch.chdir(tmp_path)
    processes: list[subprocess.Popen[str]] = []

    def own() -> None:
        line = [sys.executable, "-c", OWNER, "folder"]
        processes.append(subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        assert processes[0].stdout is not None and processes[0].stdout.readline() == "mine\n"

    yield own
    processes[0].communicate()


@pytest.mark.parametrize("what", TRIED)
def test_the_second_is_refused_before_it_writes(what: str, owner: Callable[[], None]) -> None:
    Path("gold.csv").write_text("a,b,label\n" + "".join(f"{k},{k % 3},{k % 2}\n" for k in range(20)))
    before, tries = TRIED[what]
    if before is not None:
        before()
    if what == "the command, resumed":
        Path("folder").mkdir()
        Path("folder/request.json").write_text("{}")
    owner()
    there = {path: path.read_bytes() for path in Path("folder").rglob("*") if path.is_file()}
    with pytest.raises(us.UnderstudyError, match=r"folder is being written by another process \(\d+\)"):
        tries()
    assert there == {path: path.read_bytes() for path in Path("folder").rglob("*") if path.is_file()}


def test_a_killed_owner_owns_nothing(tmp_path: Path) -> None:
    line = [sys.executable, "-c", OWNER, str(tmp_path)]
    process = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "mine\n"
    process.kill()
    process.communicate()
    us.LabelStore(tmp_path, 2, "hard").append(np.arange(3), [0, 1, 1])
