"""The gold gradient as a direction to differentiate along, with wide linear layers left unmultiplied.

The gradient of a linear layer's weight is δᵀh: rows h went in, gradients δ came back. For a gold batch of m rows it has
rank m, and both forming it and pushing a pool batch through it (x ↦ x hᵀ δ) are cheaper by the factors: m (in + out)
products for each row instead of in · out. With 20 gold rows and a layer of 784 × 512 that is 15 times less work.
Where m is too large to pay, and for every other kind of parameter, the gradient is kept as it is.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode


class Factors(NamedTuple):
    """δ (m, out) and h (m, in) of the weight gradient δᵀh."""

    delta: Tensor
    inputs: Tensor

    def multiplied(self) -> Tensor:
        return self.delta.T @ self.inputs


@dataclass(frozen=True)
class Direction:
    """One gradient per parameter, as a tensor or as factors."""

    gradients: dict[nn.Parameter, Tensor]
    factors: dict[nn.Parameter, Factors] = field(default_factory=dict)

    def multiplied(self) -> "Direction":
        """The same direction without factors, e.g. to average it over processes."""
        return Direction(self.gradients | {p: factors.multiplied() for p, factors in self.factors.items()})


def gradient_of(loss: Callable[[], Tensor], parameters: Sequence[nn.Parameter]) -> Direction:
    """∇ loss; zeros for a parameter that the loss does not reach."""
    with _Trace(parameters) as trace:
        value = loss()
    edges = [call.edge for call in trace.calls]
    slopes = torch.autograd.grad(value, [*parameters, *edges], allow_unused=True)
    factors: dict[nn.Parameter, Factors] = {}
    for call, delta in zip(trace.calls, slopes[len(parameters) :], strict=True):
        if delta is not None:
            rows = Factors(delta.flatten(0, -2), call.inputs.flatten(0, -2))
            before = factors.get(call.weight)
            factors[call.weight] = Factors(*map(torch.cat, zip(before, rows, strict=True))) if before else rows
    gradients = {}
    for p, gradient in zip(parameters, slopes, strict=False):
        if p not in factors:
            gradients[p] = torch.zeros_like(p) if gradient is None else gradient
        elif gradient is not None:  # also used outside a linear map: the sum has no factors
            gradients[p] = gradient + factors.pop(p).multiplied()
    return Direction(gradients, factors)


class _Call(NamedTuple):
    weight: nn.Parameter
    inputs: Tensor
    edge: GradientEdge


class _Trace(TorchFunctionMode):
    """Cuts the weight out of every linear map that is cheaper in factors, and notes what its gradient is made of."""

    def __init__(self, parameters: Sequence[nn.Parameter]) -> None:
        super().__init__()
        self.parameters = frozenset(parameters)
        self.calls: list[_Call] = []

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is F.linear:
            return self._linear(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))

    def _linear(self, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        rows = input.numel() // input.shape[-1] if input.dim() > 1 else weight.numel()
        autocast = torch.is_autocast_enabled(input.device.type)
        if weight not in self.parameters or rows * sum(weight.shape) >= weight.numel() or autocast:
            return F.linear(input, weight, bias)
        tracked = input if input.requires_grad else input.detach().requires_grad_()  # so that y has an edge
        y = F.linear(tracked, weight.detach(), bias)
        # The edge, not the tensor: an in-place activation would turn the tensor into its own output.
        self.calls.append(_Call(weight, input.detach(), get_gradient_edge(y)))  # type: ignore[arg-type]
        return y
