"""Work that several processes of one gloo group do together; each is a fork, so that torch is imported once.

    results = together(work, 2)                                     # what work() returned in processes 0 and 1
    results = together(work, 2, kill={1: ("after a step", 7)})      # 1 dies of a SIGKILL there: see kill_points.py
    counts = counted(work, 2)                                       # the steps that each of them took

A process that was killed has None for a result, one whose work failed has its error.
"""

import os
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from .kill_points import Kill, Steps

LIMIT = 300
"""Seconds after which a process that hangs is ended."""


def together(work: Callable[[], Any], size: int, *, kill: Mapping[int, Kill] | None = None) -> list[Any]:
    return [None if done is None else done["result"] for done in _done(work, size, kill or {})]


def counted(work: Callable[[], Any], size: int) -> list[Counter[str]]:
    return [Counter(done["counts"]) for done in _done(work, size, {})]


def _done(work: Callable[[], Any], size: int, kill: Mapping[int, Kill]) -> list[Any]:
    with tempfile.TemporaryDirectory() as folder:
        children = [_started(work, rank, size, Path(folder), kill.get(rank)) for rank in range(size)]
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        assert all(code in (0, -signal.SIGKILL) for code in codes), f"{codes}; the tracebacks are above"
        files = [Path(folder) / f"{rank}.pt" for rank in range(size)]
        return [None if code else torch.load(file, weights_only=False) for code, file in zip(codes, files, strict=True)]


def _started(work: Callable[[], Any], rank: int, size: int, folder: Path, kill: Kill | None) -> int:
    child = os.fork()
    if child:
        return child
    try:
        signal.alarm(LIMIT)
        torch.set_num_threads(1)
        dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=size)
        steps = Steps(kill)
        try:
            result = work()
        except Exception as error:
            result = error
        torch.save({"result": result, "counts": dict(steps.counts)}, folder / f"{rank}.pt")
        os._exit(0)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(1)
