"""BatchNorm over the rows of all processes that train together: the mean and variance of the whole batch.

    with SyncedBatchNorm(processes):
        logits = student(x)                     # every BatchNorm in train mode; the layers stay as they are

PyTorch's own SyncBatchNorm takes CUDA tensors alone and is a layer of another kind, which a student would have to be
made of before and unmade of after. Here the function that all such layers call is another while the block lasts. Sums
travel forwards and their gradients backwards: two messages a layer each way.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from understudy.training.processes import Processes


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
        self,
        input: Tensor,
        running_mean: Tensor | None,
        running_var: Tensor | None,
        weight: Tensor | None = None,
        bias: Tensor | None = None,
        training: bool = False,
        momentum: float = 0.1,
        eps: float = 1e-5,
    ) -> Tensor:
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
