"""A label is asked for once, whoever asks: two processes, a kill, an answer that is none, a lost state."""

import csv
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import understudy as us
from understudy.active import Loop

from ..forked_program import Program
from .conftest import CLASSES, blobs

MakeLoop = Callable[..., Loop]

# Writes down every row it is asked for, and takes its time: the other process comes meanwhile.
PROCESS = """
import sys, time, pathlib
import torch
import understudy as us
from understudy.active import Loop
torch.set_num_threads(1)
folder, log, wait = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
generator = torch.Generator().manual_seed(0)
y = torch.randint(4, (300,), generator=generator)
x = 2 * torch.eye(4, 6)[y] + torch.randn(300, 6, generator=generator)

def oracle(rows):
    with log.open("a") as file:
        file.write("".join(f"{row}\\n" for row in rows.tolist()))
    if len(log.read_text().split()) == 30:
        print("asking", flush=True)
        while not wait.exists():
            time.sleep(0.01)
    return y[rows]

try:
    loop = Loop(lambda: us.models.mlp(6, 4, hidden=(8,)), x, oracle, "entropy", out=folder, start=20, batch=10,
                budget=60, epochs=1, batch_size=16, progress=False)
    loop.run()
except us.UnderstudyError as error:
    print(error, flush=True)
    sys.exit(2)
"""


def requested(log: Path) -> list[int]:
    return [int(row) for row in log.read_text().split()]


def test_two_processes_pay_once(tmp_path: Path) -> None:
    arguments = [tmp_path / name for name in ("loop", "log", "wait")]
    first = Program(PROCESS, *arguments)
    assert first.stdout.readline() == "asking\n"
    second = Program(PROCESS, *arguments)
    assert "being written by another process" in second.rest() and second.wait() == 2
    assert len(requested(tmp_path / "log")) == 30
    (tmp_path / "wait").touch()
    assert first.rest() == "" and first.wait() == 0
    again = Program(PROCESS, *arguments)
    assert again.rest() == "" and again.wait() == 0
    rows = requested(tmp_path / "log")
    assert len(rows) == len(set(rows)) == 60


def test_a_loop_made_before_another_ran_does_not_ask_again(make_loop: MakeLoop) -> None:
    rows: list[int] = []
    y = blobs(300)[1]

    def oracle(batch: torch.Tensor) -> torch.Tensor:
        rows.extend(batch.tolist())
        return y[batch]

    one, two = make_loop(oracle=oracle), make_loop(oracle=oracle)
    first, second = one.run(), two.run()
    assert len(rows) == len(set(rows)) == 50
    assert first.rows.equal(second.rows) and first.records == second.records


def test_a_kill_after_the_answers_costs_nothing(
    make_loop: MakeLoop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Answers are on disk before anything is made of them: the step after the first write is never reached."""
    y, log = blobs(300)[1], tmp_path / "log"

    def oracle(batch: torch.Tensor) -> torch.Tensor:
        log.write_text((log.read_text() if log.exists() else "") + "".join(f"{row}\n" for row in batch.tolist()))
        return y[batch]

    def die(*rest: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    child = os.fork()
    if child == 0:
        real = Loop._fetch
        monkeypatch.setattr(Loop, "_fetch", lambda self, rows: (real(self, rows), die()))
        make_loop(oracle=oracle).run()
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert len(requested(log)) == 20
    make_loop(oracle=oracle).run()
    assert len(requested(log)) == len(set(requested(log))) == 50


def test_an_answer_that_is_no_class_does_not_cost_the_others(make_loop: MakeLoop) -> None:
    y, calls = blobs(300)[1], []

    def oracle(batch: torch.Tensor) -> list[int]:
        calls.append(batch.tolist())
        return [CLASSES if len(calls) == 1 and row == batch[3] else int(y[row]) for row in batch]

    with pytest.raises(us.UnderstudyError, match=f"class {CLASSES} for row .* the other answers are stored"):
        make_loop(oracle=oracle).run()
    result = make_loop(oracle=oracle).run()
    assert calls[1] == [calls[0][3]] and result.rows[:20].tolist() == calls[0]
    assert result.labels.equal(y[result.rows])


def test_gold_counts_by_its_content(make_loop: MakeLoop) -> None:
    x, y = blobs(20, seed=3)
    make_loop(budget=20, gold=us.Gold(x, y)).run()
    with pytest.raises(us.UnderstudyError, match=r"another gold_rows \(rows or labels\)"):
        make_loop(budget=20, gold=us.Gold(x, (y + 1) % CLASSES))


def test_a_lost_state_is_no_new_loop(make_loop: MakeLoop, tmp_path: Path) -> None:
    make_loop(budget=20).run()
    (tmp_path / "loop" / "state.json").unlink()
    with pytest.raises(us.UnderstudyError, match=r"no state\.json; restore it"):
        make_loop(budget=20)


def test_batches_with_spreadsheet_formulas_warn(make_loop: MakeLoop, tmp_path: Path) -> None:
    ids = [f"=row{number}" for number in range(300)]
    with pytest.warns(us.UnderstudyWarning, match="takes for a formula"):
        make_loop(oracle=tmp_path / "questions", ids=ids, start=2).run()
    with (tmp_path / "questions" / "round-000.csv").open(newline="") as file:
        assert all(row["id"].startswith("=row") for row in csv.DictReader(file))
