"""Where the cells of a comparison run: processes of one thread each, this process, or whatever has a ``map`` (Ray's is
in ``parallel/ray_tasks.py``).

    executor = Processes(4)
    with closing(executor.map(job.train, cells)) as results:
        for number, result in results:          # as they finish; here, and only here, results are written to disk
            print(cells[number], result)

An executor of your own (a cluster's) has one method. The function and each cell are sent to whoever runs them and the
result is sent back, so all three must be picklable; nothing else is shared, neither memory nor a disk. An error of a
cell is raised by ``map``; closing its generator gives up what is still under way. Where a cell's error shall not be
everybody's, ``attempts`` gives it as a result:

    for number, result in attempts(executor, job.train, cells):
        if isinstance(result, Failure): ...
"""

import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from itertools import chain, islice
from multiprocessing.connection import wait
from typing import Any, Generic, NoReturn, Protocol, TypeVar, cast

import torch
import torch.multiprocessing

from understudy.errors import UnderstudyError, first_line

Cell = TypeVar("Cell")
Result = TypeVar("Result")
Results = Generator[tuple[int, Result], None, None]
PATIENCE = 5.0
"""Seconds that a process has to tidy up when it is told to end."""


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


@dataclass(frozen=True)
class Failure:
    """Why a cell has no result."""

    reason: str
    """In one line."""
    details: str = ""
    """A traceback, where it is no refusal that a second attempt would meet again."""

    def raised(self) -> NoReturn:
        raise RuntimeError(f"{self.reason}\n{self.details}") if self.details else UnderstudyError(self.reason)


@dataclass(frozen=True)
class Guarded(Generic[Cell, Result]):
    """A function whose errors are results."""

    function: Callable[[Cell], Result]

    def __call__(self, cell: Cell) -> Result | Failure:
        try:
            return self.function(cell)
        except UnderstudyError as error:
            return Failure(str(error))
        except Exception as error:
            return Failure(f"{cell}: {type(error).__name__}: {first_line(error)}", traceback.format_exc())


def attempts(
    executor: Executor, function: Callable[[Cell], Result], cells: Sequence[Cell],
    handed: Callable[[Cell], Cell] = lambda cell: cell,
) -> Results[Result | Failure]:  # fmt: skip
    """Every cell's result, or why there is none. What crashed is tried once more when the others are done; a refusal
    would be the same again. ``handed``: the cell as it is sent, made when its turn comes."""
    again: list[int] = []
    with closing(executor.map(Guarded(function), map(handed, cells))) as results:
        for number, result in results:
            if isinstance(result, Failure) and result.details:
                again.append(number)
            else:
                yield number, result
    with closing(executor.map(Guarded(function), (handed(cells[number]) for number in again))) as results:
        for place, result in results:
            yield again[place], result


class InProcess:
    """One cell after the other in this process. ``threads``: as many of PyTorch (1: as in a worker process)."""

    def __init__(self, threads: int | None = 1) -> None:
        self.threads = threads

    def map(self, function: Callable[[Cell], Result], cells: Iterable[Cell]) -> Results[Result]:
        for number, cell in enumerate(cells):
            with one_thread() if self.threads == 1 else nullcontext():
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
        with _crew(function, self.start or start_method()) as crew:
            lost: list[tuple[int, Cell]] = []
            working = {crew.hire(): task for task in first}  # a process's pipe -> its cell
            for pipe, (_, cell) in working.items():
                _send(pipe, cell)
            while working:
                ready: list[Any] = wait(list(working))
                for pipe in ready:
                    number, cell = working.pop(pipe)
                    try:
                        result = _receive(pipe, cell)
                    except _Lost:
                        lost.append((number, cell))
                        continue
                    yield number, result
                    following = next(waiting, None)
                    if following is None:
                        _end(pipe)
                    else:
                        working[pipe] = following
                        _send(pipe, following[1])
            # Memory is what most of them died of: the others are done, and each has all of it now.
            for number, cell in lost:
                yield number, crew.alone(cell)
            for number, cell in waiting:  # every process was lost
                yield number, crew.alone(cell, tries=2)


class _Crew(Generic[Cell, Result]):
    """The processes of one ``map``."""

    def __init__(self, function: Callable[[Cell], Result], start: str) -> None:
        self.function, self.start, self.processes = function, start, list[Any]()
        self.context: Any = torch.multiprocessing.get_context(start)

    def hire(self) -> Any:
        """Another process; the pipe to it."""
        pipe, theirs = self.context.Pipe()
        process = self.context.Process(target=_work, args=(self.function, theirs, os.getpid()))
        self.processes.append(_started(process))
        theirs.close()
        return pipe

    def alone(self, cell: Cell, tries: int = 1) -> Result:
        """What comes out in a process of its own."""
        for _ in range(tries):
            pipe = self.hire()
            _send(pipe, cell)
            with suppress(_Lost):
                result: Result = _receive(pipe, cell)
                _end(pipe)
                return result
        # A spawned process imports the script that started it.
        guard = '; in a script, call it under if __name__ == "__main__":' if self.start != "fork" else ""
        return given_up(self.function, cell, guard)

    def dismiss(self) -> None:
        for process in self.processes:
            process.terminate()
        deadline = time.monotonic() + PATIENCE
        for process in self.processes:
            process.join(max(deadline - time.monotonic(), 0.0))
            if process.is_alive():
                process.kill()


@contextmanager
def _crew(function: Callable[[Cell], Result], start: str) -> Iterator[_Crew[Cell, Result]]:
    crew = _Crew(function, start)
    try:
        yield crew
    except BaseException:  # an error, Ctrl-C, or the caller closed this generator
        crew.dismiss()
        raise
    finally:
        for process in crew.processes:
            process.join()


def given_up(function: Callable[[Cell], Result], cell: Cell, hint: str = "") -> Result:
    """What is said of a cell whose process was lost, and again when it was tried once more."""
    reason = (
        f"the process that worked on {cell} was killed, twice (out of memory?); what is finished is kept, use fewer "
        f"workers or a smaller student and run again{hint}"
    )
    if isinstance(function, Guarded):
        lost: Any = Failure(reason)
        return cast(Result, lost)
    raise UnderstudyError(reason)


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


class _Lost(Exception):
    """The process at the other end is gone."""


def _send(pipe: Any, cell: Any) -> None:
    with suppress(ConnectionError):  # who does not take it will not answer either
        pipe.send((cell,))


def _end(pipe: Any) -> None:
    """In words: closing this end is not noticed where other processes were forked with a copy of it."""
    with suppress(OSError):
        pipe.send(None)
    pipe.close()


def _receive(pipe: Any, cell: Any) -> Any:
    try:
        answer = pipe.recv()
    except (EOFError, ConnectionError) as error:
        pipe.close()
        raise _Lost from error
    return opened(answer, cell)


def answered(function: Callable[[Any], Any], cell: Any) -> tuple[str, Any]:
    """What a process sends back: the result, or what went wrong, in words that any process can read."""
    try:
        return "done", function(cell)
    except UnderstudyError as error:
        return "mistake", str(error)
    except Exception:
        return "crash", traceback.format_exc()


def opened(answer: tuple[str, Any], cell: Any) -> Any:
    """The result in such an answer; what went wrong is raised here."""
    status, result = answer
    if status == "mistake":
        raise UnderstudyError(result)
    if status == "crash":
        raise RuntimeError(f"{cell} failed in its process:\n{result}")
    return result


def _work(function: Callable[[Any], Any], pipe: Any, parent: int) -> None:
    """A process: take a cell, send back what came out; end when told to, or with the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to every process; the parent decides
    signal.signal(signal.SIGTERM, _leave)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    torch.set_num_threads(1)
    while True:
        try:
            message = pipe.recv()
        except (EOFError, ConnectionError):
            return
        if message is None:
            return
        answer = answered(function, *message)
        try:
            pipe.send(answer)
        except ConnectionError:
            return


def _leave(*_: object) -> NoReturn:
    sys.exit(128 + signal.SIGTERM)  # temporary files are removed on the way out


def _end_with(parent: int) -> None:
    """In a thread, since the process may be in the midst of a training, or of a ``send`` that nobody will receive: its
    brothers hold copies of the other end."""
    started_by = multiprocessing.parent_process()
    assert started_by is not None
    while os.getppid() == parent and started_by.is_alive():
        time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(PATIENCE / 2)
    os._exit(1)
