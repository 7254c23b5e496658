"""Executors: a lost process is no lost cell, a failing cell is no end, and nobody outlives the parent."""

import multiprocessing
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import understudy as us
from understudy.parallel.executors import Executor, Failure, InProcess, WorkerProcesses, attempts


def once(folder: Path, cell: int) -> bool:
    """Whether it is the first time, in any process, that this is asked."""
    try:
        (folder / str(cell)).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def test_a_cell_whose_process_was_killed_is_run_again_alone(tmp_path: Path) -> None:
    def killed_once(cell: int) -> int:
        if cell in (1, 2) and once(tmp_path, cell):
            os.kill(os.getpid(), signal.SIGKILL)
        return 10 * cell

    found = list(WorkerProcesses(2, start="fork").map(killed_once, range(6)))
    assert sorted(found) == [(cell, 10 * cell) for cell in range(6)]


def test_one_that_is_killed_twice_ends_nobody_else() -> None:
    def killed(cell: int) -> int:
        if cell == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return cell

    found = dict(attempts(WorkerProcesses(2, start="fork"), killed, range(5)))
    lost = found.pop(1)
    assert isinstance(lost, Failure) and "worked on 1 was killed, twice" in lost.reason
    assert found == {0: 0, 2: 2, 3: 3, 4: 4}


@pytest.mark.parametrize("executor", [InProcess(), WorkerProcesses(2, start="fork")], ids=["here", "processes"])
def test_crashes_are_tried_once_more_and_refusals_are_not(executor: Executor, tmp_path: Path) -> None:
    def fails(cell: int) -> int:
        with (tmp_path / f"{cell}").open("a") as file:
            file.write("x")
        if cell == 1:
            raise us.UnderstudyError("refused; do otherwise")
        if cell == 2 or (cell == 3 and (tmp_path / "3").stat().st_size == 1):
            raise ZeroDivisionError("a bug\nin two lines")
        return cell

    found = dict(attempts(executor, fails, range(5)))
    assert (found[0], found[3], found[4]) == (0, 3, 4)
    assert isinstance(found[1], Failure) and found[1].reason == "refused; do otherwise" and not found[1].details
    assert isinstance(found[2], Failure) and found[2].reason == "2: ZeroDivisionError: a bug"
    assert [(tmp_path / str(cell)).stat().st_size for cell in range(5)] == [1, 1, 2, 2, 1]
    with pytest.raises(us.UnderstudyError, match="refused"):
        found[1].raise_error()
    with pytest.raises(RuntimeError, match="in two lines"):
        found[2].raise_error()


def _ends(reader: int) -> bool:
    """Whether every process that holds the other end has gone; workers look for their parent twice a second."""
    os.set_blocking(reader, False)
    for _ in range(200):
        try:
            return os.read(reader, 1) == b""
        except BlockingIOError:
            time.sleep(0.1)
    return False


def _owner(ready: Any, work: Any) -> None:
    def results() -> Iterator[Any]:
        yield from WorkerProcesses(3, start="fork").map(work, range(3))

    for _ in results():
        ready.set()
        time.sleep(10_000)  # receives nothing more


def _train_for_ever(cell: int) -> None:
    while cell:
        time.sleep(0.01)


def _send_much(cell: int) -> bytes:
    return bytes(10_000_000 if cell else 1)  # more than a pipe takes


@pytest.mark.parametrize("work", [_train_for_ever, _send_much], ids=["training", "sending"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_workers_end_with_their_parent(work: Any, number: int) -> None:
    context = multiprocessing.get_context("fork")
    reader, writer = os.pipe()
    ready = context.Event()
    owner = context.Process(target=_owner, args=(ready, work))
    owner.start()
    os.close(writer)
    assert ready.wait(60)
    os.kill(owner.pid or 0, number)
    owner.join()
    assert _ends(reader)
    os.close(reader)


def test_a_worker_that_is_told_to_end_tidies_up(tmp_path: Path) -> None:
    def work(cell: int) -> None:
        if cell:
            try:
                (tmp_path / "scratch").touch()
                time.sleep(10_000)
            finally:
                (tmp_path / "scratch").unlink()
        while not cell and not (tmp_path / "scratch").exists():
            time.sleep(0.01)

    results = WorkerProcesses(2, start="fork").map(work, range(2))
    next(results)
    results.close()
    assert not (tmp_path / "scratch").exists()
