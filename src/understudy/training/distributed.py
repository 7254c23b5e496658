"""Processes that share a training: each takes every W-th row of a batch, and the result is that of one process.

    torchrun --nproc-per-node 2 -m understudy train …         # process_group; or, in a group started elsewhere:
    run = us.train(student, gold, pool, us.slam(), epochs=30)  # called by every process, with the same arguments

An epoch's plan knows nothing of processes. Row p of a batch, gold rows first, belongs to process p mod W. Each computes
the summed loss of its rows over the rows of *all*, and the gradients are added up: DistributedDataParallel would take W
times that loss and the mean of the gradients, which is the same sum. It is made here, once a step, because
DistributedDataParallel wants one module that is called once per step and reaches all its parameters. Co-teaching has
two nets, noise layers and heads stand beside the student, learning to reweight calls it twice and in forward mode, and
a process may have no row of a batch. The price: the sum does not begin before the backward pass has ended.

What looks at more than a step (columns, students that choose an epoch or a penalty, labels made anew, measurements) is
made by process 0 *once* and given to the others; it alone writes. ``training/processes.py`` has the messages.

**BatchNorm** over the rows of all processes (``sync_batchnorm=True``): the mean and variance of the whole batch.

    with SyncedBatchNorm(processes):
        logits = student(x)                     # every BatchNorm in train mode; the layers stay as they are

PyTorch's own SyncBatchNorm takes CUDA tensors alone and is a layer of another kind, which a student would have to be
made of before and unmade of after. Here the function that all such layers call is another while the block lasts. Sums
travel forwards and their gradients backwards: two messages a layer each way.
"""

import os
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.rendezvous import rendezvous
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from understudy.data.examples import ExampleSet
from understudy.errors import UnderstudyWarning
from understudy.store.console import complain, last_words
from understudy.store.fingerprints import fingerprint
from understudy.training.processes import Processes

_PRINTED = "understudy has printed the error"
#: Seconds.
NOTICED_WITHIN = 10.0
Result = TypeVar("Result")


#: The processes that train together; True in what one of them does for all, False where none have met.
_CURRENT: ContextVar[Processes | bool] = ContextVar("_CURRENT", default=False)


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
        with _as_current(True):  # what is trained here is trained by this process alone
            return make()

    return processes.on_rank_zero(by_one)


def is_first() -> bool:
    """Whether this process writes and speaks."""
    processes = current()
    return processes is None or processes.is_first


@contextmanager
def _as_current(held: Processes | bool) -> Iterator[None]:
    token = _CURRENT.set(held)
    try:
        yield
    finally:
        _CURRENT.reset(token)


@contextmanager
def joined() -> Iterator[None]:
    """In this block, or a function with this decorator that all call, the processes of ``torch.distributed``'s group,
    if there are several, train together."""
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


def same_data(**sets: Any) -> None:
    """Processes that train together must have the same data: checked before anything is made of them."""
    if (processes := current()) is not None:
        sizes = {f"the size of {name}": len(rows) for name, rows in sets.items() if isinstance(rows, ExampleSet)}
        processes.check_same(sizes | {f"the fingerprint of {name}": fingerprint(rows) for name, rows in sets.items()})


def same_start(student: nn.Module, options: Any, objective: Any) -> None:
    """Processes that train together must have the same arguments, and begin with the student of the first."""
    processes = current()
    if processes is None:
        return
    shapes = [(name, tuple(value.shape)) for name, value in student.state_dict().items()]
    method = {"the method": objective.name, "the fingerprint of the method's options": fingerprint(objective)}
    processes.check_same({**method, "the student": shapes, **options.settings()})
    student.load_state_dict(on_rank_zero(student.state_dict))


def _leave_parents_group() -> None:
    """A fork has its parent's group in its memory, and no part in it."""
    if dist.is_available() and dist.is_initialized():
        _CURRENT.set(True)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_parents_group)


class SyncedBatchNorm(TorchFunctionMode):
    """``counted=False``: the rows of this process are none of the batch's, and count as nothing."""

    def __init__(self, processes: Processes, *, counted: bool = True) -> None:
        super().__init__()
        self.processes, self.counted = processes, float(counted)

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is F.batch_norm:
            return self._batch_norm(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))

    def _batch_norm(
        self, input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, weight: Tensor | None = None,
        bias: Tensor | None = None, training: bool = False, momentum: float = 0.1, eps: float = 1e-5,
    ) -> Tensor:  # fmt: skip
        if not training:
            return F.batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
        axes, shape = [0, *range(2, input.dim())], [1, -1, *[1] * (input.dim() - 2)]
        own = input.new_full((1,), self.counted * input.numel() / input.shape[1])
        *sums, rows = self._sum(torch.cat([self.counted * input.sum(axes), own])).split([input.shape[1], 1])
        rows, mean = rows.detach(), sums[0] / rows.detach()
        centred = input - mean.view(shape)
        variance = self._sum(self.counted * centred.square().sum(axes)) / rows
        if running_mean is not None and running_var is not None:
            with torch.no_grad():
                running_mean.lerp_(mean.to(running_mean.dtype), momentum)
                running_var.lerp_((variance * rows / (rows - 1)).to(running_var.dtype), momentum)
        normed = centred * (variance + eps).rsqrt().view(shape)
        if weight is not None:
            normed = normed * weight.view(shape)
        shifted: Tensor = normed if bias is None else normed + bias.view(shape)
        return shifted

    def _sum(self, values: Tensor) -> Tensor:
        summed: Tensor = _Sum.apply(values, self.processes)  # type: ignore[no-untyped-call]
        return summed


class _Sum(torch.autograd.Function):
    """Σ over processes. Each one's loss depends on it, so that its gradient is their sum; linear, as its tangent."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, processes: Processes) -> Tensor:
        ctx.processes = processes
        return _summed(values, processes)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return _summed(gradient, ctx.processes), None

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, _: None) -> Tensor:
        return _summed(tangent, ctx.processes)


def _summed(values: Tensor, processes: Processes) -> Tensor:
    total = values.detach().clone()
    processes.sum([total])
    return total


def is_restarted() -> bool:
    """Whether torchrun has started the processes again (``--max-restarts``) after one of them ended."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0


@contextmanager
def process_group() -> Iterator[None]:
    """The processes that torchrun started, as a group; of a single one, nothing happens.

    A process that fails prints why, and all of them end with its exit code; those that fail because of it print
    nothing. Of a process that was killed, the first of the others to notice prints it.
    """
    named = all(os.environ.get(name) for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"))
    if not named or int(os.environ["WORLD_SIZE"]) < 2:
        yield
        return
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    store, rank, size = next(rendezvous("env://"))
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    dist.init_process_group(backend, store=store, rank=rank, world_size=size)
    try:
        with joined(), _one_error(store):
            yield
    except SystemExit:
        if rank == 0:  # it holds the store, which tells the others that the error has been printed
            _wait_for_others(store, size)
        raise
    finally:
        dist.destroy_process_group()


def _wait_for_others(store: Any, size: int) -> None:
    """Until each has noticed the error; not for long, as one may have been killed."""
    end = time.monotonic() + NOTICED_WITHIN
    while store.add(_PRINTED, 0) < size and time.monotonic() < end:
        time.sleep(0.02)


@contextmanager
def _one_error(store: Any) -> Iterator[None]:
    """Printed before the others learn that this process ends: torchrun kills all when the first of them has."""
    try:
        yield
    except BaseException as error:
        # torchrun tells the others to end as soon as one has, and this process may be slower than they are.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        words, first = last_words(error), True
        with suppress(RuntimeError):  # the process that held the store has ended
            first = store.add(_PRINTED, 1) == 1
        if words is None:  # a bug: its traceback is the message
            sys.excepthook(*sys.exc_info())
        elif first:
            complain(words[0])
        raise SystemExit(1 if words is None else words[1]) from error
