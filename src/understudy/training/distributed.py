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
made by process 0 *once* and given to the others; it alone writes. Messages of this kind and the sums of CPU tensors
go through a gloo group of our own, in which nobody loses patience while process 0 works, and which breaks at once, for
all, where one process fails or dies.
"""

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from understudy.errors import UnderstudyError, UnderstudyWarning, first_line
from understudy.store.stopping import stop_asked

P = ParamSpec("P")
Result = TypeVar("Result")

# How long a process waits for process 0, which may be choosing a method: as long as it takes.
PATIENCE = timedelta(days=7)


class ProcessEnded(UnderstudyError):
    """Another process of the training failed or died; its own message says why."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(
            f"another process of this training has ended ({first_line(cause)}); what was checkpointed is on the disk: "
            "go on with resume=True (--resume)"
        )


class Processes:
    """Those that train together: this one is ``rank`` of ``size``."""

    def __init__(self) -> None:
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.stopping = False
        """Whether one of them had been asked to stop when the last step was summed: known to all, or to none."""
        self._group: Any = dist.new_group(backend="gloo", timeout=PATIENCE)

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    def close(self) -> None:
        """Whoever still waits for this process learns that it has gone."""
        dist.destroy_process_group(self._group)
        self._group = None

    def barrier(self) -> None:
        with _all_alive():
            dist.barrier(self._group)

    def once(self, make: Callable[[], Result]) -> Result:
        """``make()``, called by process 0 alone; every process has its value, or its error."""
        if not self.is_first:
            value, error = self._receive()
            if error is not None:
                raise UnderstudyError(error)
            return value  # type: ignore[no-any-return]
        try:
            with alone():
                made = make()
        except UnderstudyError as failure:
            self._send((None, str(failure)))
            raise
        self._send((made, None))
        return made

    def sum(self, tensors: Sequence[Tensor]) -> None:
        """Each becomes the sum of all processes' own, in place."""
        with _all_alive():
            for tensor in tensors:
                dist.all_reduce(tensor, group=self._group_of(tensor))

    def sum_step(self, parameters: Sequence[nn.Parameter], loss: Tensor, moves: bool) -> tuple[Tensor, bool]:
        """Add up the gradients of a step, its loss, and whether somebody's rows move the student.

        A parameter that no process's rows reached keeps no gradient: an optimizer then leaves it alone.
        """
        trained = [parameter for parameter in parameters if parameter.requires_grad]
        has = [parameter.grad is not None for parameter in trained]
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in trained]
        told = torch.tensor([*has, moves, stop_asked()], dtype=loss.dtype, device=loss.device)
        sums = [*(gradient.detach() for gradient in gradients), torch.cat([told, loss.reshape(1)])]
        self.sum_flat(sums)
        *reached, moved, stops, total = sums[-1].unbind()
        self.stopping = bool(stops)
        for parameter, gradient, any_has in zip(trained, gradients, torch.stack(reached).tolist(), strict=True):
            parameter.grad = gradient if any_has else None
        return total, bool(moved)

    def sum_function(self, value: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
        """The value and the gradient of a function that is a sum over all rows."""
        told = torch.stack([value, torch.tensor(float(stop_asked()), dtype=value.dtype, device=value.device)])
        self.sum([told, gradient])
        self.stopping = bool(told[1])
        return told[0], gradient

    def sum_flat(self, tensors: Sequence[Tensor]) -> None:
        """The same in one message for each type: a net has many small tensors, and each message takes its time."""
        kinds: dict[tuple[torch.dtype, torch.device], list[Tensor]] = {}
        for tensor in tensors:
            kinds.setdefault((tensor.dtype, tensor.device), []).append(tensor)
        for alike in kinds.values():
            flat = torch.cat([tensor.reshape(-1) for tensor in alike])
            self.sum([flat])
            for tensor, part in zip(alike, flat.split([tensor.numel() for tensor in alike]), strict=True):
                tensor.copy_(part.view(tensor.shape))

    def add_to_first(self, tensors: Sequence[Tensor]) -> None:
        """Process 0 has the sums, the others begin again at zero."""
        self.sum(tensors)
        if not self.is_first:
            for tensor in tensors:
                tensor.zero_()

    def mean_statistics(self, net: nn.Module) -> None:
        """BatchNorm's running statistics, which each process has of its own rows, become their mean: what is moved by
        means of batches is linear in them, so that it makes no difference when that is done."""
        norms = [part for part in net.modules() if isinstance(part, nn.modules.batchnorm._BatchNorm)]
        running = [each for part in norms for each in (part.running_mean, part.running_var) if each is not None]
        if running:
            sums = [each.double() for each in running]
            self.sum_flat(sums)
            for each, total in zip(running, sums, strict=True):
                each.copy_(total / self.size)

    def gather(self, values: Tensor, first: int, count: int) -> Tensor:
        """``count`` values whose place p, counted from ``first``, is that of process p mod W; these are this one's."""
        values, starts = values.detach(), [(rank - first) % self.size for rank in range(self.size)]
        padded = values.new_zeros(-(-count // self.size), *values.shape[1:])
        padded[: len(values)] = values
        parts = [torch.empty_like(padded) for _ in range(self.size)]
        every = values.new_empty(count, *values.shape[1:])
        if count:
            with _all_alive():
                dist.all_gather(parts, padded, group=self._group_of(padded))
        for start, part in zip(starts, parts, strict=True):
            every[start :: self.size] = part[: len(range(start, count, self.size))]
        return every

    def gather_objects(self, value: Result) -> list[Result]:
        """One small value of each process, in their order."""
        values: list[Any] = [None] * self.size
        with _all_alive():
            dist.all_gather_object(values, value, group=self._group)
        return values

    def check_same(self, told: dict[str, Any]) -> None:
        """All processes must have been told the same."""
        for rank, other in enumerate(self.gather_objects(told)):
            for name, value in told.items():
                if other.get(name) != value:
                    raise UnderstudyError(
                        f"the processes of a training were told different things: {name} is {value} in process "
                        f"{self.rank} and {other.get(name)} in process {rank}; give all of them the same arguments, "
                        "and the whole of the data"
                    )

    def _group_of(self, tensor: Tensor) -> Any:
        return self._group if tensor.device.type == "cpu" else dist.group.WORLD

    def _send(self, value: Any) -> None:
        tensors: list[Tensor] = []
        with _all_alive():
            dist.broadcast_object_list([_without_tensors(value, tensors)], 0, group=self._group)
        for tensor in tensors:
            self._broadcast(tensor)

    def _receive(self) -> Any:
        received: list[Any] = [None]
        with _all_alive():
            dist.broadcast_object_list(received, 0, group=self._group)
        return _with_tensors(received[0], self._broadcast)

    def _broadcast(self, tensor: Tensor) -> Tensor:
        """Process 0's, in place, as bytes: of whatever type it is."""
        if tensor.numel():
            with _all_alive():
                dist.broadcast(tensor.view(-1).view(torch.uint8), 0, group=self._group)
        return tensor


@dataclass(frozen=True)
class _Sent:
    """In the place of a tensor, which travels as it is: columns are as long as the pool."""

    dtype: torch.dtype
    shape: tuple[int, ...]


def _without_tensors(value: Any, tensors: list[Tensor]) -> Any:
    if type(value) is Tensor and value.layout is torch.strided:
        tensors.append(value.detach().cpu().contiguous())
        return _Sent(value.dtype, tuple(value.shape))
    if type(value) in (list, tuple):
        return type(value)(_without_tensors(each, tensors) for each in value)
    return {k: _without_tensors(v, tensors) for k, v in value.items()} if isinstance(value, dict) else value


def _with_tensors(value: Any, receive: Callable[[Tensor], Tensor]) -> Any:
    """The inverse, in the same order."""
    if isinstance(value, _Sent):
        return receive(torch.empty(value.shape, dtype=value.dtype))
    if type(value) in (list, tuple):
        return type(value)(_with_tensors(each, receive) for each in value)
    return {k: _with_tensors(v, receive) for k, v in value.items()} if isinstance(value, dict) else value


@dataclass(frozen=True)
class BatchShare:
    """What a process's rows of a batch are a part of: ``golds`` and ``pools`` rows of all processes."""

    processes: Processes
    golds: int
    pools: int

    def gather(self, values: Tensor, *, gold: bool = False) -> Tensor:
        first, count = (0, self.golds) if gold else (self.golds, self.pools)
        return self.processes.gather(values, first, count)

    def own(self, values: Tensor, *, gold: bool = False) -> Tensor:
        first = 0 if gold else self.golds
        return values[(self.processes.rank - first) % self.processes.size :: self.processes.size]


_CURRENT: ContextVar[Processes | bool] = ContextVar("_CURRENT", default=False)
"""The processes that train together; True in what one of them does for all, False where none have met."""


def current() -> Processes | None:
    """Those of the training that is under way; None where there is one process, or one works for all."""
    held = _CURRENT.get()
    return None if isinstance(held, bool) else held


def once(make: Callable[[], Result]) -> Result:
    """``make()``: of one process, or by process 0 for all that train together."""
    processes = current()
    return make() if processes is None else processes.once(make)


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


def same_start(student: nn.Module, recipe: Any, objective: Any, gold: Any, pool: Any) -> None:
    """Processes that train together must have been told the same, and begin with the student of the first."""
    processes = current()
    if processes is None:
        return
    processes.check_same(
        {
            "the method": objective.name,
            "the size of gold": 0 if gold is None else len(gold),
            "the size of the pool": 0 if pool is None else len(pool),
            "the student": [(name, tuple(value.shape)) for name, value in student.state_dict().items()],
            **recipe.settings(),
        }
    )
    student.load_state_dict(processes.once(student.state_dict))


def _leave_parents_group() -> None:
    """A fork has its parent's group in its memory, and no part in it."""
    if dist.is_available() and dist.is_initialized():
        _CURRENT.set(True)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_parents_group)


@contextmanager
def _all_alive() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        raise ProcessEnded(error) from error
