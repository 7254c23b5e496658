"""cleanlab and Snorkel, called in their own environment: arrays out, arrays back.

    ask("cleanlab", labels=y, probs=out_of_fold)                      # (n,) which labels are issues
    ask("snorkel", votes=votes, gold=y_gold, classes=2, seed=0)       # (n, C)

The environment is the one the Makefile makes from ``benchmarks/peers.txt`` (``make .peers/.installed``), and
$UNDERSTUDY_PEERS names its Python. The worker is started at the first request and kept until this process ends.
"""

import os
import subprocess
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from understudy.errors import UnderstudyError

PYTHON = "UNDERSTUDY_PEERS"
WORKER = Path(__file__).with_name("peer_worker.py")


_SPENT: dict[str, float] = {}


def seconds() -> float:
    """Of the processor, spent so far by this process and by its workers."""
    return time.process_time() + sum(_SPENT.values())


def available() -> bool:
    return bool(os.environ.get(PYTHON))


def ask(task: str, **arrays: Any) -> np.ndarray[Any, Any]:
    worker = _worker(os.getpid())
    assert worker.stdin is not None and worker.stdout is not None
    with tempfile.TemporaryDirectory() as folder:
        given, answer = Path(folder) / "given.npz", Path(folder) / "answer.npy"
        np.savez(given, **arrays)
        print(task, given, answer, sep="\t", file=worker.stdin, flush=True)
        status, _, rest = worker.stdout.readline().strip().partition(" ")
        if status != "done":
            why = f"{status} {rest}".strip() or "its process ended"
            raise UnderstudyError(f"{task}: {why}; run make .peers/.installed, or leave it out")
        _SPENT[task] = _SPENT.get(task, 0.0) + float(rest)
        return np.asarray(np.load(answer, allow_pickle=False))


@cache
def _worker(process: int) -> subprocess.Popen[str]:
    """One for each process: a forked one must not share its parent's pipes."""
    python = os.environ.get(PYTHON)
    if not python:
        raise UnderstudyError(f"{PYTHON} is not set; make .peers/.installed, then set it to .peers/bin/python")
    return subprocess.Popen([python, str(WORKER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
