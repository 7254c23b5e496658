"""The moving average of a module: a second, smoother model for S-Badge and LHD to compare with.

β ← decay · β + (1 − decay) · θ after every step, decay = min(1 − 1/(t + 1), 0.999) with t the updates made
before this one. The warm-up makes the first updates a plain mean of the iterates: the first copies θ, the
second averages two, …; a fixed 0.999 remembers the random initialisation for thousands of steps.
``warmup=False`` is that: Equation 1 of S-Badge's paper as printed, β starting at the initial θ. Buffers
(BatchNorm's statistics and counters) are copied. The average is always in eval mode and never asks for
gradients; `reset` starts it again for the next round. (PyTorch's own AveragedModel takes 1.2 to 1.4 times as long per
update, and pairs parameters by position without a word where a model is not the one it was made from.)

    ema = EMA(model)
    for batch in batches:
        step(model, batch)
        ema.update(model)
    hidden_ema = features(ema.module, pool)
"""

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from understudy.arguments import checked
from understudy.errors import UnderstudyError, first_line


class EMA:
    """`module` holds the averaged parameters; `updates` counts how many went in."""

    @checked
    def __init__(self, model: nn.Module, *, decay: float = 0.999, warmup: bool = True) -> None:
        if not isinstance(model, nn.Module):
            raise UnderstudyError(f"EMA averages a module, not a {type(model).__name__}; pass the student")
        if not 0 <= decay < 1:
            raise UnderstudyError(f"EMA decay = {decay}: use a number from 0 to below 1, usually 0.999")
        self.decay, self.warmup = decay, warmup
        self.updates = 0
        self.module = copy.deepcopy(model).requires_grad_(False).eval()

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        """Move the average towards the model as it is now."""
        decay = min(1 - 1 / (self.updates + 1), self.decay) if self.warmup else self.decay
        average, current = self._parameters(model)
        if average:
            torch._foreach_lerp_(average, current, 1 - decay)
        self._copy_buffers(model)
        self.updates += 1

    @torch.no_grad()
    def reset(self, model: nn.Module) -> None:
        """Forget everything and start from the model as it is now."""
        average, current = self._parameters(model)
        if average:
            torch._foreach_copy_(average, current)
        self._copy_buffers(model)
        self.updates = 0

    def state_dict(self) -> dict[str, Tensor]:
        """Tensors only, as safetensors wants: the module's state under `module.`, and `updates`."""
        state = {f"module.{name}": value for name, value in self.module.state_dict().items()}
        return state | {"updates": torch.tensor(self.updates)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if "updates" not in state:
            raise UnderstudyError("not the state of an EMA, 'updates' is missing: pass what EMA.state_dict() returned")
        module = {name.removeprefix("module."): value for name, value in state.items() if name != "updates"}
        try:
            self.module.load_state_dict(module)
        except RuntimeError as error:
            raise UnderstudyError(f"this EMA state belongs to another model: {first_line(error)}") from error
        self.updates = int(state["updates"])

    def _parameters(self, model: nn.Module) -> tuple[list[Tensor], list[Tensor]]:
        average, current = dict(self.module.named_parameters()), dict(model.named_parameters())
        if {k: v.shape for k, v in average.items()} != {k: v.shape for k, v in current.items()}:
            raise UnderstudyError("the model's parameters are not those this EMA was made from: make a new EMA(model)")
        return list(average.values()), [current[name].detach() for name in average]

    def _copy_buffers(self, model: nn.Module) -> None:
        current = dict(model.named_buffers())
        for name, buffer in self.module.named_buffers():
            buffer.copy_(current[name])
