"""Processes that share a training: each takes every W-th row of a batch, and the result is that of one process.

    torchrun --nproc-per-node 2 -m understudy train …         # or, in a group that somebody else has started:
    run = us.train(student, gold, pool, us.slam(), epochs=30)  # called by every process, with the same arguments

An epoch's plan knows nothing of processes. Row p of a batch, gold rows first, belongs to process p mod W. Each computes
the summed loss of its rows over the rows of *all*, and the gradients are added up: DistributedDataParallel would take W
times that loss and the mean of the gradients, which is the same sum. It is made here, once a step, because
DistributedDataParallel wants one module that is called once per step and reaches all its parameters. Co-teaching has
two nets, noise layers and heads stand beside the student, learning to reweight calls it twice and in forward mode, and
a process may have no row of a batch. The price: the sum does not begin before the backward pass has ended.

What looks at more than a step (columns, students that choose an epoch or a penalty, labels made anew, measurements) is
made by process 0 *once* and given to the others; it alone writes. ``training/processes.py`` has the messages.
"""

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import torch.distributed as dist
from torch import nn

from understudy.errors import UnderstudyWarning
from understudy.training.processes import Processes

P = ParamSpec("P")
Result = TypeVar("Result")


_CURRENT: ContextVar[Processes | bool] = ContextVar("_CURRENT", default=False)
"""The processes that train together; True in what one of them does for all, False where none have met."""


def current() -> Processes | None:
    """Those of the training that is under way; None where there is one process, or one works for all."""
    held = _CURRENT.get()
    return None if isinstance(held, bool) else held


def on_rank_zero(make: Callable[[], Result]) -> Result:
    """``make()``: of one process, or by process 0 for all that train together."""
    processes = current()
    if processes is None:
        return make()

    def by_one() -> Result:
        with alone():
            return make()

    return processes.on_rank_zero(by_one)


def is_first() -> bool:
    """Whether this process writes and speaks."""
    processes = current()
    return processes is None or processes.is_first


def alone() -> AbstractContextManager[None]:
    """What is trained in this block is trained by this process alone."""
    return _as_current(True)


@contextmanager
def _as_current(held: Processes | bool) -> Iterator[None]:
    token = _CURRENT.set(held)
    try:
        yield
    finally:
        _CURRENT.reset(token)


@contextmanager
def joined() -> Iterator[None]:
    """In this block the processes of ``torch.distributed``'s group, if there are several, train together."""
    if _CURRENT.get() is not False or not (dist.is_available() and dist.is_initialized()) or dist.get_world_size() < 2:
        yield
        return
    processes = Processes()
    try:
        with _as_current(processes), warnings.catch_warnings():
            if not processes.is_first:
                warnings.showwarning = _muted(warnings.showwarning)
            yield
            processes.barrier()
    finally:
        processes.close()


def _muted(show: Callable[..., None]) -> Callable[..., None]:
    """This package's warnings are for process 0 to say; others as usual."""

    def shown(message: Any, category: type[Warning], *rest: Any, **more: Any) -> None:
        if not issubclass(category, UnderstudyWarning):
            show(message, category, *rest, **more)

    return shown


@contextmanager
def first_goes_ahead() -> Iterator[None]:
    """Process 0 does this first, and the others when it is done."""
    processes = current()
    if processes is not None and not processes.is_first:
        processes.barrier()
    yield
    if processes is not None and processes.is_first:
        processes.barrier()


def together(function: Callable[P, Result]) -> Callable[P, Result]:
    """Called by every process, the function is theirs together."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> Result:
        with joined():
            return function(*args, **kwargs)

    return call


def same_start(student: nn.Module, options: Any, objective: Any, gold: Any, pool: Any) -> None:
    """Processes that train together must have the same arguments, and begin with the student of the first."""
    processes = current()
    if processes is None:
        return
    processes.check_same(
        {
            "the method": objective.name,
            "the size of gold": 0 if gold is None else len(gold),
            "the size of the pool": 0 if pool is None else len(pool),
            "the student": [(name, tuple(value.shape)) for name, value in student.state_dict().items()],
            **options.settings(),
        }
    )
    student.load_state_dict(on_rank_zero(student.state_dict))


def _leave_parents_group() -> None:
    """A fork has its parent's group in its memory, and no part in it."""
    if dist.is_available() and dist.is_initialized():
        _CURRENT.set(True)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_parents_group)
