"""Where the cells of a comparison run: processes of one thread each, this process, or whatever has a ``map``.

    executor = Processes(4)
    with closing(executor.map(job.train, cells)) as results:
        for number, result in results:          # as they finish; here, and only here, results are written to disk
            print(cells[number], result)

An executor of your own (a cluster's) has one method. The function and each cell are sent to whoever runs them and the
result is sent back, so all three must be picklable; nothing else is shared, neither memory nor a disk. An error of a
cell is raised by ``map``; closing its generator gives up what is still under way.
"""

import os
import signal
import sys
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain, islice
from multiprocessing.connection import wait
from typing import Any, Protocol, TypeVar

import torch
import torch.multiprocessing

from understudy.errors import UnderstudyError

Cell = TypeVar("Cell")
Result = TypeVar("Result")
Results = Generator[tuple[int, Result], None, None]


class Executor(Protocol):
    def map(self, function: Callable[[Cell], Result], cells: Iterable[Cell]) -> Results[Result]:
        """(number of the cell, its result) in the order they finish. Cells may be made as they are taken."""
        ...


def executor_for(workers: int | None, executor: Executor | None) -> Executor:
    """The caller's own, or processes."""
    if executor is None:
        return Processes(workers)
    if workers is not None:
        raise UnderstudyError(f"workers={workers} and executor= both say where cells run; pass one of them")
    return executor


class InProcess:
    """One cell after the other, here, on one thread as in a process of its own."""

    def map(self, function: Callable[[Cell], Result], cells: Iterable[Cell]) -> Results[Result]:
        for number, cell in enumerate(cells):
            with one_thread():
                result = function(cell)
            yield number, result


class Processes:
    """``workers`` processes of one thread each (None: one per core; 1: none, everything runs here).

    On Linux without a GPU the processes are forked: they see this one's arrays without a copy, and functions of any
    kind, notebooks' included. Elsewhere they are spawned: tensors move to shared memory, and functions must be
    importable. Each process is handed its next cell over a pipe of its own, so that one that dies stops nobody else.
    """

    def __init__(self, workers: int | None = None, *, start: str | None = None) -> None:
        self.workers = usable_cores() if workers is None else workers
        if self.workers < 1:
            raise UnderstudyError(f"workers={workers} must be at least 1, or None for one per core")
        self.start = start

    def map(self, function: Callable[[Cell], Result], cells: Iterable[Cell]) -> Results[Result]:
        waiting = enumerate(cells)
        first = list(islice(waiting, self.workers))
        if len(first) < 2:
            yield from InProcess().map(function, (cell for _, cell in chain(first, waiting)))
            return
        start = self.start or start_method()
        context: Any = torch.multiprocessing.get_context(start)
        working: dict[Any, tuple[int, Cell]] = {}  # a process's pipe -> its cell
        processes: list[Any] = []
        try:
            for task in first:
                pipe, theirs = context.Pipe()
                processes.append(_started(context.Process(target=_work, args=(function, theirs, os.getpid()))))
                theirs.close()
                working[pipe] = task
            for pipe, (_, cell) in working.items():
                _send(pipe, cell, start)
            while working:
                ready: list[Any] = wait(list(working))
                for pipe in ready:
                    number, cell = working.pop(pipe)
                    yield number, _receive(pipe, cell, start)
                    following = next(waiting, None)
                    if following is None:
                        with suppress(OSError):  # it may have ended by itself
                            pipe.send(None)
                    else:
                        working[pipe] = following
                        _send(pipe, following[1], start)
        except BaseException:  # an error, Ctrl-C, or the caller closed this generator
            for process in processes:
                process.terminate()
            raise
        finally:
            for process in processes:
                process.join()


def usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def start_method() -> str:
    """A forked process cannot use a GPU that its parent has touched."""
    return "fork" if sys.platform == "linux" and not torch.cuda.is_available() else "spawn"


@contextmanager
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _started(process: Any) -> Any:
    process.daemon = True
    try:
        process.start()
    except OSError:  # no process to be had
        raise
    except Exception as error:  # what a lambda is told when it is sent depends on where it stands
        raise UnderstudyError(
            f"a part cannot be sent to other processes ({error}); define it at the top of a module, or pass workers=1"
        ) from error
    return process


def _send(pipe: Any, cell: Any, start: str) -> None:
    try:
        pipe.send((cell,))
    except ConnectionError as error:
        raise _killed(cell, start) from error


def _receive(pipe: Any, cell: Any, start: str) -> Any:
    try:
        status, result = pipe.recv()
    except (EOFError, ConnectionError) as error:
        raise _killed(cell, start) from error
    if status == "mistake":
        raise UnderstudyError(result)
    if status == "crash":
        raise RuntimeError(f"{cell} failed in its process:\n{result}")
    return result


def _killed(cell: Any, start: str) -> UnderstudyError:
    # A spawned process imports the script that started it.
    guard = '; in a script, call it under if __name__ == "__main__":' if start != "fork" else ""
    return UnderstudyError(
        f"the process that worked on {cell} was killed (out of memory?); what is finished is kept, use fewer workers "
        f"and run again{guard}"
    )


def _work(function: Callable[[Any], Any], pipe: Any, parent: int) -> None:
    """A process: take a cell, send back what came out; end when told to, or when the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to every process; the parent decides
    torch.set_num_threads(1)
    while True:
        while not pipe.poll(1.0):
            if os.getppid() != parent:
                return
        try:
            message = pipe.recv()
        except EOFError:
            return
        if message is None:
            return
        try:
            answer = ("done", function(*message))
        except UnderstudyError as error:
            answer = ("mistake", str(error))
        except Exception:
            answer = ("crash", traceback.format_exc())
        try:
            pipe.send(answer)
        except BrokenPipeError:
            return
