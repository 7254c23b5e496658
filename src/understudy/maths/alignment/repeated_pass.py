"""Run a model's pass again, or with other tensors in it, and leave no trace.

The closures that `alignment` evaluates call the user's model as it is, so the tensors inside the model have to change,
not the call: dual parameters for the forward-mode pass, shifted ones for a finite difference, and throw-away copies of
the buffers for a pass that must leave BatchNorm's running statistics alone. (`torch.func.functional_call` with
parameters only would still update them.) A pass that is repeated must also see the same random draws, and the values
that differentiation holds constant.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode


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
            # It caches its weights, and would keep the substitutes till its next call.
            if isinstance(module, nn.RNNBase):
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


def same_draws(model: nn.Module) -> AbstractContextManager[None]:
    """On leaving, the random state of the CPU and of every device the model is on is what it was."""
    devices = {p.device for p in model.parameters() if p.device.type != "cpu"}
    return torch.random.fork_rng(
        [device.index for device in devices], device_type=next(iter(devices)).type if devices else "cuda"
    )


@contextmanager
def undone_on_failure(model: nn.Module) -> Iterator[None]:
    """A pass that breaks off half-way leaves neither half-updated buffers nor a moved random state behind."""
    before = [(buffer, buffer.clone()) for buffer in model.buffers()]
    state = torch.get_rng_state()
    cuda_states = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    try:
        yield
    except RuntimeError:
        for buffer, value in before:
            buffer.copy_(value)
        torch.set_rng_state(state)
        for device, cuda_state in enumerate(cuda_states):
            torch.cuda.set_rng_state(cuda_state, device)
        raise


class Constants(TorchFunctionMode):
    """Holds detached values still: the first `with` block notes them, each later one gets them back in the same order.

    A loss may contain a target made of the model's own prediction, detached or computed under `no_grad`.
    Differentiation treats it as a constant; evaluating the loss again at shifted parameters would move it.

        constants = Constants()
        with constants: middle = loss()           # notes
        with constants: shifted = loss()          # replays
    """

    def __init__(self) -> None:
        super().__init__()
        self.noted: list[Tensor | None] = []
        self._replay: Iterator[Tensor | None] | None = None
        self._entered = 0

    def __enter__(self) -> "Constants":
        self._replay = iter(self.noted) if self._entered else None
        self._entered += 1
        self._stopped = False
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is torch._C._set_grad_enabled:
            # Seen for `no_grad` blocks only: inside a custom autograd.Function grad mode is off as well, unseen, but
            # there it does not mean "constant", and neither does a `detach`.
            self._stopped = not args[0]
        constant = self._stopped or (func is Tensor.detach and torch.is_grad_enabled())
        if not constant or not _has_tensor([*args, *kwargs.values()]):
            return func(*args, **kwargs)
        noted = next(self._replay, None) if self._replay is not None else None
        if noted is not None:
            return noted
        result = func(*args, **kwargs)
        if self._replay is None:
            # A fresh tensor can be handed out again; what works in place has to be done again, on constants.
            fresh = isinstance(result, Tensor) and not any(result is value for value in args)
            self.noted.append(result.clone() if fresh else None)
        return result


def _has_tensor(values: Sequence[Any]) -> bool:
    return any(isinstance(v, Tensor) or (isinstance(v, (list, tuple)) and _has_tensor(v)) for v in values)
