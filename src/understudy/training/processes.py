"""What processes that train together tell each other: sums of gradients, gathered batches, what one of them has made.

    processes = Processes()                           # in every process of torch.distributed's group
    loss, moves = processes.sum_step(parameters, loss, moves)
    columns = processes.on_rank_zero(estimate)                # process 0 estimates

Messages and the sums of CPU tensors go through gloo groups of our own, which break at once, for all, where one process
fails or dies; a process that sleeps is waited for an hour in a step, and a day where process 0 works for all. Tensors
of a GPU go through the group that was there.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from understudy.errors import UnderstudyError, first_line
from understudy.objective import Outputs, Step
from understudy.store.console import stop_requested

Result = TypeVar("Result")

# How long a process waits for the others in a step, and for process 0, which may be choosing a method.
STEP, WORK = timedelta(hours=1), timedelta(days=1)


class Processes:
    """Those that train together: this one is ``rank`` of ``size``."""

    def __init__(self) -> None:
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.is_first = self.rank == 0
        #: Whether one of them was to stop when the last step was summed: known to all, or to none.
        self.stopping = False
        with _all_alive():
            self._steps: Any = dist.new_group(backend="gloo", timeout=STEP)
            self._group: Any = dist.new_group(backend="gloo", timeout=WORK)

    def close(self) -> None:
        """Leave the group; processes that still wait for this one notice it."""
        for group in (self._steps, self._group):
            dist.destroy_process_group(group)
        self._steps = self._group = None

    def barrier(self) -> None:
        with _all_alive():
            dist.barrier(self._group)

    def on_rank_zero(self, make: Callable[[], Result]) -> Result:
        """``make()``, called by process 0 alone; every process has its value, or its error."""
        if not self.is_first:
            value, error = self._receive()
            if error is not None:
                raise UnderstudyError(error)
            return value  # type: ignore[no-any-return]
        try:
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
        """Add up the gradients of a step, its loss, and whether any process's rows move the student.

        A parameter that no process's rows reached keeps no gradient: an optimizer then leaves it alone.
        """
        trained = [parameter for parameter in parameters if parameter.requires_grad]
        has = [parameter.grad is not None for parameter in trained]
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in trained]
        flags = torch.tensor([*has, moves, stop_requested()], dtype=loss.dtype, device=loss.device)
        sums = [*(gradient.detach() for gradient in gradients), torch.cat([flags, loss.reshape(1)])]
        self.sum_flat(sums)
        *reached, moved, stops, total = sums[-1].unbind()
        self.stopping = bool(stops)
        for parameter, gradient, any_has in zip(trained, gradients, torch.stack(reached).tolist(), strict=True):
            parameter.grad = gradient if any_has else None
        return total, bool(moved)

    def sum_function(self, value: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
        """The value and the gradient of a function that is a sum over all rows."""
        flags = torch.stack([value, torch.tensor(float(stop_requested()), dtype=value.dtype, device=value.device)])
        self.sum([flags, gradient])
        self.stopping = bool(flags[1])
        return flags[0], gradient

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

    def check_same(self, settings: dict[str, Any]) -> None:
        """Refuse processes that have different arguments."""
        first, *others = self.gather_objects(settings)
        for name in dict.fromkeys(name for each in (first, *others) for name in each):
            if odd := [rank for rank, other in enumerate(others, 1) if other.get(name) != first.get(name)]:
                which = f"process{'es' * (len(odd) > 1)} {', '.join(map(str, odd))}"
                values = f"{first.get(name)} in process 0 and {others[odd[0] - 1].get(name)} in {which}"
                cure = "give all processes of a training the same arguments, and the whole of the data"
                raise UnderstudyError(f"different arguments: {name} is {values}; {cure}")

    def _group_of(self, tensor: Tensor) -> Any:
        return self._steps if tensor.device.type == "cpu" else dist.group.WORLD

    def _send(self, value: Any) -> None:
        tensors: list[Tensor] = []

        def outline(leaf: Any) -> Any:
            """In the place of a tensor, which travels as it is: columns are as long as the pool."""
            if type(leaf) is not Tensor or leaf.layout is not torch.strided:
                return leaf
            tensors.append(leaf.detach().cpu().contiguous())
            return torch.empty(leaf.shape, dtype=leaf.dtype, device="meta")

        with _all_alive():
            dist.broadcast_object_list([tree_map(outline, value)], 0, group=self._group)
        for tensor in tensors:
            self._broadcast(tensor)

    def _receive(self) -> Any:
        received: list[Any] = [None]
        with _all_alive():
            dist.broadcast_object_list(received, 0, group=self._group)

        def filled(leaf: Any) -> Any:
            is_outline = isinstance(leaf, Tensor) and leaf.is_meta
            return self._broadcast(torch.empty_like(leaf, device="cpu")) if is_outline else leaf

        return tree_map(filled, received[0])

    def _broadcast(self, tensor: Tensor) -> Tensor:
        """Process 0's, in place, as bytes: of whatever type it is."""
        if tensor.numel():
            with _all_alive():
                dist.broadcast(tensor.view(-1).view(torch.uint8), 0, group=self._group)
        return tensor


@dataclass(frozen=True)
class BatchShare:
    """What a process's rows of a batch are a part of: ``golds`` and ``pools`` rows of all processes; None: of one."""

    processes: Processes | None
    golds: int
    pools: int

    def gather(self, values: Tensor, *, gold: bool = False) -> Tensor:
        if self.processes is None:
            return values
        first, count = (0, self.golds) if gold else (self.golds, self.pools)
        return self.processes.gather(values, first, count)

    def own(self, values: Tensor, *, gold: bool = False) -> Tensor:
        """Of one value per row of the whole batch, those of this process's rows: the inverse of ``gather``."""
        if self.processes is None:
            return values
        first = 0 if gold else self.golds
        return values[(self.processes.rank - first) % self.processes.size :: self.processes.size]

    def gather_step(self, step: Step) -> Step:
        """The step of all processes' rows, for slots that look at the whole batch. All of them must call it."""

        def gathered(value: Tensor | None) -> Tensor | None:
            return None if value is None else self.gather(value)

        if self.processes is None:
            return step
        on_gold = step.gold_alignment
        return replace(
            step, outputs=Outputs(self.gather(step.outputs.logits), gathered(step.outputs.features)),
            columns={name: self.gather(column) for name, column in step.columns.items()},
            teacher=self.gather(step.teacher), rows=self.gather(step.rows), alignment=gathered(step.alignment),
            gold_alignment=None if on_gold is None else self.gather(on_gold, gold=True),
        )  # fmt: skip


@contextmanager
def _all_alive() -> Iterator[None]:
    """A process that fails or dies ends the others; its own message says why."""
    try:
        yield
    except RuntimeError as error:
        reason = re.sub(r"^\[\S*\] ", "", first_line(error))  # without the place in gloo's source
        cure = "what was checkpointed is on the disk: go on with resume=True (--resume)"
        what = f"another process of this training has ended or does not answer ({reason})"
        raise UnderstudyError(f"{what}; {cure}") from error
