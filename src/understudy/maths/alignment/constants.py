"""Hold detached values still while a finite difference moves the parameters under them.

A loss may contain a target made of the model's own prediction, detached or computed under `no_grad`. Differentiation
treats it as a constant; evaluating the loss again at shifted parameters would move it. So the first evaluation, at the
parameters themselves, notes every such value, and the later ones get them back in the same order.

    constants = Constants()
    with constants: middle = loss()           # notes
    with constants: shifted = loss()          # replays
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode


class Constants(TorchFunctionMode):
    """The first `with` block records detached results, each later one replays them."""

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
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
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
