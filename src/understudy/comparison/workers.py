"""Tasks spread over processes of one thread each.

On Linux without a GPU the processes are forked: they see this one's arrays without a copy, and nets and functions of
any kind, notebooks' included. Elsewhere they are spawned: tensors move to shared memory, and nets and functions must
be importable. Each process is handed its next task over a pipe of its own, so that one that dies stops nobody else.
"""

import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import wait
from typing import Any

import torch
import torch.multiprocessing

from understudy.errors import UnderstudyError

Task = Any


def usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def start_method() -> str:
    """A forked process cannot use a GPU that its parent has touched."""
    return "fork" if sys.platform == "linux" and not torch.cuda.is_available() else "spawn"


def in_workers(
    do: Callable[[Task], Any],
    tasks: Sequence[Task],
    workers: int,
    *,
    on_done: Callable[[Task, Any], None],
    start: str | None = None,
) -> None:
    """``do(task)`` for all tasks, ``on_done(task, result)`` here as each ends. One worker: in this process."""
    workers = min(workers, len(tasks))
    if workers <= 1:
        with one_thread():
            for task in tasks:
                on_done(task, do(task))
        return
    context: Any = torch.multiprocessing.get_context(start or start_method())
    pipes: dict[Any, Any] = {}
    processes = []
    waiting = iter(enumerate(tasks))
    try:
        for _ in range(workers):
            mine, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(do, tasks, theirs, os.getpid()), daemon=True)
            try:
                process.start()
            except OSError:  # no process to be had
                raise
            except Exception as error:  # what a lambda is told when it is sent depends on where it stands
                raise UnderstudyError(
                    f"a part cannot be sent to other processes ({error}); define it at the top of a module, or pass "
                    "workers=1"
                ) from error
            theirs.close()
            processes.append(process)
            pipes[mine] = next(waiting, None)
            _hand(mine, pipes[mine])
        spawned = context.get_start_method() != "fork"
        while pipes:
            for pipe in wait(list(pipes)):
                given = pipes[pipe]
                assert given is not None
                on_done(given[1], _answer(pipe, given[1], spawned))
                pipes[pipe] = next(waiting, None)
                _hand(pipe, pipes[pipe])
                if pipes[pipe] is None:
                    del pipes[pipe]
    finally:
        for process in processes:
            if pipes:
                process.terminate()
            process.join()


def _hand(pipe: Any, numbered: tuple[int, Task] | None) -> None:
    pipe.send(None if numbered is None else numbered[0])


def _answer(pipe: Any, task: Task, spawned: bool) -> Any:
    try:
        kind, said = pipe.recv()
    except (EOFError, ConnectionResetError) as error:
        # A spawned process imports the script that started it.
        guard = '; in a script, call it under if __name__ == "__main__":' if spawned else ""
        raise UnderstudyError(
            f"the process that worked on {task} was killed (out of memory?); what is finished is kept, use fewer "
            f"workers and run again{guard}"
        ) from error
    if kind == "mistake":
        raise UnderstudyError(said)
    if kind == "crash":
        raise RuntimeError(f"{task} failed in its process:\n{said}")
    return said


def _serve(do: Callable[[Task], Any], tasks: Sequence[Task], pipe: Any, parent: int) -> None:
    """A worker's life: take a number, do the task, say what came out; end when told to, or left alone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to every process; the parent decides
    torch.set_num_threads(1)
    while True:
        while not pipe.poll(1.0):
            if os.getppid() != parent:
                return
        try:
            number = pipe.recv()
        except EOFError:
            return
        if number is None:
            return
        try:
            answer = ("done", do(tasks[number]))
        except UnderstudyError as error:
            answer = ("mistake", str(error))
        except Exception:
            answer = ("crash", traceback.format_exc())
        try:
            pipe.send(answer)
        except BrokenPipeError:
            return


@contextmanager
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
