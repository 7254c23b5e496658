"""Where the cells of a comparison or the shards of a pool are worked on: worker processes of one thread each, this
process, or any object with a ``map`` (``parallel/ray_tasks.py`` has Ray's).

    executor = WorkerProcesses(4)
    with closing(executor.map(job.train, cells)) as results:
        for number, result in results:          # as they finish; only this process writes results to disk
            print(cells[number], result)

The function, each cell and each result are sent between processes and must be picklable; neither memory nor a disk is
shared. An error in a cell is raised by ``map``; closing the generator stops what is still running. ``attempts`` returns
errors as results, where one cell shall not end the others:

    for number, result in attempts(executor, job.train, cells):
        if isinstance(result, Failure): ...

The worker processes are our own. ``ProcessPoolExecutor`` loses every running cell when one worker is killed, leaves its
workers behind when the parent is, and cannot be stopped before Python 3.14; loky copies the data into each worker.
"""

import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
from abc import ABC, abstractmethod
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
#: Seconds that a worker has to clean up after SIGTERM.
GRACE = 5.0


class Executor(Protocol):
    def map(self, function: Callable[[Cell], Result], cells: Iterable[Cell]) -> Results[Result]:
        """(number of the cell, its result) in the order they finish. Cells may be generated as they are taken."""
        ...


def executor_for(workers: int | None, executor: Executor | None) -> Executor:
    """The given executor, or worker processes."""
    if executor is None:
        return WorkerProcesses(workers)
    if workers is not None:
        raise UnderstudyError(f"workers={workers} and executor= both say where cells run; pass one of them")
    return executor


@dataclass(frozen=True)
class Failure:
    """Why a cell has no result."""

    #: In one line.
    reason: str
    #: A traceback; empty for an ``UnderstudyError``, which a second attempt would raise again.
    details: str = ""

    def raise_error(self) -> NoReturn:
        raise RuntimeError(f"{self.reason}\n{self.details}") if self.details else UnderstudyError(self.reason)


@dataclass(frozen=True)
class ErrorsAsResults(Generic[Cell, Result]):
    """A function that returns a ``Failure`` where it would raise."""

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
    load: Callable[[Cell], Cell] = lambda cell: cell,
) -> Results[Result | Failure]:  # fmt: skip
    """Every cell's result, or a ``Failure``. What crashed is tried once more when the others are done. ``load``: the
    cell as it is sent, made when its turn comes."""
    again: list[int] = []
    guarded = ErrorsAsResults(function)
    with closing(executor.map(guarded, map(load, cells))) as results:
        for number, result in results:
            if isinstance(result, Failure) and result.details:
                again.append(number)
            else:
                yield number, result
    with closing(executor.map(guarded, (load(cells[number]) for number in again))) as results:
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


class CellRunner(ABC, Generic[Cell, Result]):
    """Workers of one ``map``, which may die. What they return is a result in a tuple, or None from a dead one."""

    #: Added to the message on a cell that was lost twice.
    hint = ""

    def __init__(self, function: Callable[[Cell], Result]) -> None:
        self.function = function

    @abstractmethod
    def places(self) -> int:
        """How many cells may be under way at once."""

    @abstractmethod
    def start(self, cell: Cell) -> Any:
        """A handle of the cell under way."""

    @abstractmethod
    def first_done(self, handles: list[Any]) -> Any: ...

    @abstractmethod
    def fetch(self, handle: Any) -> tuple[Result | Failure] | None:
        """What a worker returns; waits for it."""

    def end_idle(self) -> None:
        """Let go of workers without a cell."""

    def results(self, cells: Iterable[Cell]) -> Results[Result]:
        waiting = enumerate(cells)
        under_way: dict[Any, tuple[int, Cell]] = {}
        lost: list[tuple[int, Cell]] = []
        while True:
            for number, cell in islice(waiting, max(self.places() - len(under_way), 0)):
                under_way[self.start(cell)] = number, cell
            if not under_way:
                break
            done = self.first_done(list(under_way))
            number, cell = under_way.pop(done)
            reply = self.fetch(done)
            if reply is None:
                lost.append((number, cell))
            else:
                yield number, self._raised(reply[0])
        self.end_idle()
        # Most were killed for lack of memory: now that the others are done, each has all of it.
        for number, cell in lost:
            yield number, self._alone(cell, 1)
        for number, cell in waiting:  # every worker was lost
            yield number, self._alone(cell, 2)

    def _alone(self, cell: Cell, attempts: int) -> Result:
        for _ in range(attempts):
            if reply := self.fetch(self.start(cell)):
                return self._raised(reply[0])
        reason = f"the process that worked on {cell} was killed, twice (out of memory?); what is finished is kept, use"
        return self._raised(Failure(f"{reason} fewer workers or a smaller student and run again{self.hint}"))

    def _raised(self, result: Result | Failure) -> Result:
        """The result; a failure is raised, unless the function itself returns failures."""
        if isinstance(result, Failure) and not isinstance(self.function, ErrorsAsResults):
            result.raise_error()
        return cast(Result, result)


class WorkerProcesses:
    """``workers`` processes of one thread each (None: one per core; 1: none, everything runs in this process).

    On Linux without a GPU the processes are forked: they see this one's arrays without a copy, and functions of any
    kind, notebooks' included. Elsewhere they are spawned: tensors move to shared memory, and functions must be
    importable. Each worker gets its cells over a pipe of its own, so that one that dies stops no other.
    """

    def __init__(self, workers: int | None = None, *, start: str | None = None) -> None:
        self.workers = usable_cores() if workers is None else workers
        if self.workers < 1:
            raise UnderstudyError(f"workers={workers} must be at least 1, or None for one per core")
        self.start = start

    def map(self, function: Callable[[Cell], Result], cells: Iterable[Cell]) -> Results[Result]:
        waiting = iter(cells)
        first = list(islice(waiting, min(2, self.workers)))
        if len(first) < 2:
            yield from InProcess().map(function, chain(first, waiting))
            return
        pool = _WorkerPool(function, self.workers, self.start or start_method())
        try:
            yield from pool.results(chain(first, waiting))
            pool.end_idle()
        except BaseException:  # an error, Ctrl-C, or the caller closed this generator
            pool.stop()
            raise
        finally:
            for process in pool.processes:
                process.join()


class _WorkerPool(CellRunner[Cell, Result]):
    """The worker processes of one ``map``; a handle is the pipe to the worker."""

    def __init__(self, function: Callable[[Cell], Result], workers: int, start: str) -> None:
        super().__init__(function)
        self.workers, self.processes, self.idle = workers, list[Any](), list[Any]()
        self.context: Any = torch.multiprocessing.get_context(start)
        # A spawned process imports the script that started it.
        self.hint = '; in a script, call it under if __name__ == "__main__":' if start != "fork" else ""

    def places(self) -> int:
        return self.workers

    def start(self, cell: Cell) -> Any:
        pipe = self.idle.pop() if self.idle else self._new_worker()
        with suppress(ConnectionError):  # a lost worker is noticed when its result is read
            pipe.send((cell,))
        return pipe

    def first_done(self, handles: list[Any]) -> Any:
        return wait(handles)[0]

    def fetch(self, handle: Any) -> tuple[Result | Failure] | None:
        try:
            reply: tuple[Result | Failure] = handle.recv()
        except (EOFError, ConnectionError):
            handle.close()
            self.workers -= 1
            return None
        self.idle.append(handle)
        return reply

    def _new_worker(self) -> Any:
        """The pipe to a new worker."""
        pipe, theirs = self.context.Pipe()
        process = self.context.Process(target=_work, args=(self.function, theirs, os.getpid()), daemon=True)
        try:
            process.start()
        except OSError:  # no more processes allowed
            raise
        except Exception as error:  # pickling errors have many types
            cure = "define it at the top of a module, or pass workers=1"
            raise UnderstudyError(f"a part cannot be sent to other processes ({error}); {cure}") from error
        self.processes.append(process)
        theirs.close()
        return pipe

    def end_idle(self) -> None:
        """By a message: other workers were forked with a copy of this end, so closing it would not be noticed."""
        for pipe in self.idle:
            with suppress(OSError):
                pipe.send(None)
            pipe.close()
        self.idle.clear()

    def stop(self) -> None:
        for process in self.processes:
            process.terminate()
        deadline = time.monotonic() + GRACE
        for process in self.processes:
            process.join(max(deadline - time.monotonic(), 0.0))
            if process.is_alive():
                process.kill()


def usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def start_method() -> str:
    """A forked process cannot use a GPU that its parent has used."""
    return "fork" if sys.platform == "linux" and not torch.cuda.is_available() else "spawn"


@contextmanager
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _work(function: Callable[[Any], Any], pipe: Any, parent: int) -> None:
    """A worker: cells in, results out, until the end message or the end of the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches every process; the parent decides
    signal.signal(signal.SIGTERM, _exit)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    torch.set_num_threads(1)
    while True:
        try:
            message = pipe.recv()
            if message is None:
                return
            pipe.send((ErrorsAsResults(function)(*message),))
        except (EOFError, ConnectionError):
            return


def _exit(*_: object) -> NoReturn:
    sys.exit(128 + signal.SIGTERM)  # temporary files are removed on the way out


def _end_with(parent: int) -> None:
    """In a thread: the worker may be in a training, or in a ``send`` that is never received, because other workers hold
    copies of the other end."""
    started_by = multiprocessing.parent_process()
    assert started_by is not None
    while os.getppid() == parent and started_by.is_alive():
        time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE / 2)
    os._exit(1)
