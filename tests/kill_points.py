"""Processes that kill themselves at a chosen step of their work: the same step on a busy machine as on an idle one.

    counts = forked(work)                           # how many steps of each kind an undisturbed run takes
    forked(work, kill=("renamed", 3)) is None       # dies of a real SIGKILL right after its third rename

Only steps that any way of doing the work must take are counted: layers that compute, the optimizer's steps, files that
get their final name, and files that go. The process is a fork, so that torch is imported once.
"""

import json
import os
import random
import signal
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

from torch.nn.modules.module import register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

KINDS = ("half written", "before a step", "renamed", "in a forward pass", "not yet renamed", "after a step", "removed")
"""In turn; files, which a kill could tear, between the steps."""

Kill = tuple[str, int]
"""A kind, and which step of this kind, from 1."""


class Steps:
    """Counts the steps of this process, from now on and for good; dies at one of them."""

    def __init__(self, kill: Kill | None, die: Callable[[], None] | None = None) -> None:
        self.kill, self.counts = kill, Counter[str]()
        self.die = die or (lambda: os.kill(os.getpid(), signal.SIGKILL))
        register_module_forward_pre_hook(lambda module, inputs: self.reach("in a forward pass"))
        register_optimizer_step_pre_hook(lambda *_: self.reach("before a step"))
        register_optimizer_step_post_hook(lambda *_: self.reach("after a step"))
        rename = os.replace

        def replace(source: Any, target: Any, **folders: Any) -> None:
            self.reach("half written", lambda: os.truncate(source, os.path.getsize(source) // 2))
            self.reach("not yet renamed")
            rename(source, target, **folders)
            self.reach("renamed")

        os.replace = replace  # type: ignore[assignment]
        for name in ("unlink", "remove", "rmdir"):
            setattr(os, name, self._counted(getattr(os, name), "removed"))

    def reach(self, kind: str, first: Callable[[], None] | None = None) -> None:
        self.counts[kind] += 1
        if (kind, self.counts[kind]) == self.kill:
            if first is not None:
                first()
            self.die()

    def _counted(self, real: Callable[..., None], kind: str) -> Callable[..., None]:
        def removing(*given: Any, **options: Any) -> None:
            real(*given, **options)
            self.reach(kind)

        return removing


def forked(work: Callable[[], object], kill: Kill | None = None) -> Counter[str] | None:
    """Do the work in a process of its own: the steps it took to the end, or None where it was killed before."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            steps = Steps(kill)
            work()
            os.write(writer, json.dumps(steps.counts).encode())
            os._exit(0)
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(1)
    os.close(writer)
    with os.fdopen(reader) as answer:
        counts = answer.read()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code == -signal.SIGKILL:
        return None
    assert code == 0, "the work failed; its traceback is above"
    return Counter(json.loads(counts))


def draw_kill(counts: Counter[str], number: int, draw: random.Random) -> Kill:
    """The number-th of several kills: its kind comes in turn, which step of that kind is drawn."""
    kinds = [kind for kind in KINDS if counts[kind]]
    kind = kinds[number % len(kinds)]
    return kind, draw.randint(1, counts[kind])
