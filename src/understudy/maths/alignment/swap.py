"""Lend a module other tensors for the length of a `with` block.

The closures that `alignment` evaluates call the user's model as it is, so the tensors inside the model have to change,
not the call: dual parameters for the forward-mode pass, shifted ones for a finite difference, and throw-away copies of
the buffers for a pass that must leave BatchNorm's running statistics alone. (`torch.func.functional_call` with
parameters only would still update them.)
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from torch import Tensor, nn


@contextmanager
def parameters_as(model: nn.Module, substitutes: Mapping[nn.Parameter, Tensor]) -> Iterator[None]:
    """Every place of `model` that holds one of these parameters holds its substitute instead (tied weights too)."""
    held = [
        (module, name, parameter)
        for module in model.modules()
        for name, parameter in module._parameters.items()
        if parameter is not None and parameter in substitutes
    ]
    try:
        for module, name, parameter in held:
            module._parameters[name] = substitutes[parameter]  # type: ignore[assignment]
        yield
    finally:
        for module, name, parameter in held:
            module._parameters[name] = parameter
        for module in model.modules():
            if isinstance(
                module, nn.RNNBase
            ):  # it caches its weights, and would keep the substitutes till its next call
                module._init_flat_weights()


@contextmanager
def buffers_untouched(model: nn.Module) -> Iterator[None]:
    """Passes inside the block write to copies of the buffers; the originals come back as they were."""
    held = [
        (module, name, buffer)
        for module in model.modules()
        for name, buffer in module._buffers.items()
        if buffer is not None
    ]
    try:
        for module, name, buffer in held:
            module._buffers[name] = buffer.clone()
        yield
    finally:
        for module, name, buffer in held:
            module._buffers[name] = buffer
