"""Logits and penultimate features of any `nn.Module`, without asking for a base class.

`forward(module, x)` is the plain pass: x a tensor, or a mapping of tensors passed as keyword arguments; the
output a tensor, or an object with `.logits` (as Hugging Face models return).

`FeatureTap` also returns the penultimate features: the input of the last `nn.Linear`, or the output of a
layer the user names. "Last" is the last that *ran* in the first call, not the last registered: a head that
is declared before its body, or an unused one after it, is no trap. The choice is then kept, and is readable
as `tap.layer`. Where the last one to run is not the classifier (an auxiliary head), name the layer that
makes the features.

    tap = FeatureTap(net)                       # or FeatureTap(net, layer="encoder.pool")
    logits, features = tap(x)                   # (B, C), (B, d); gradients flow through both
    logits, features = tap(x, call=wrapped)     # the same through a module that runs this one (DDP, a Trainer's)

Features have shape (B, d). Sequences (B, T, d) are averaged over T, under `attention_mask` where the input
mapping has one; any other shape is flattened. Hooks exist only while a call runs, so copies of the module
carry none and nothing is left behind when a pass fails. A module from `torch.compile` runs no hooks: call
the original.
"""

import difflib
from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from understudy.errors import UnderstudyError

Inputs = Tensor | Mapping[str, Any]


def forward(module: nn.Module, x: Inputs) -> Tensor:
    """The module's logits for x."""
    output = module(**x) if isinstance(x, Mapping) else module(x)
    if isinstance(output, Tensor):
        return output
    logits = getattr(output, "logits", None)
    if isinstance(logits, Tensor):
        return logits
    raise UnderstudyError(
        f"{type(module).__name__} returned {type(output).__name__}; "
        "it should return logits (B, C) as a tensor, or an object with .logits"
    )


class FeatureTap:
    """Calls a module and returns (logits, penultimate features)."""

    def __init__(self, module: nn.Module, layer: str | None = None) -> None:
        self.module = module
        self.layer = layer
        self._caught: Tensor | None = None
        self._caught_at: nn.Module | None = None
        self._handles: list[RemovableHandle] = []
        self._named = layer is not None
        # The layers to listen at: the named one, or every Linear until a first call shows which runs last.
        self._layers = [_find(module, layer)] if layer is not None else _linears(module)

    def __call__(self, x: Inputs, call: nn.Module | None = None) -> tuple[Tensor, Tensor]:
        """``call``: what to run instead of the module itself, where something wraps it."""
        self._listen()
        try:
            logits = forward(self.module if call is None else call, x)
            caught, at = self._caught, self._caught_at
        finally:
            self._close()
        if caught is None or at is None:
            missing = "no nn.Linear ran" if self.layer is None else f"{self._where()} did not run"
            raise UnderstudyError(f"{missing} in the forward pass; name a layer that runs")
        if self.layer is None:
            self._layers = [at]
            self.layer = next(name for name, layer in self.module.named_modules() if layer is at)
        return logits, self._rows(caught, logits, x)

    def _close(self) -> None:
        """Removes the hooks and lets go of the last features."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._caught = self._caught_at = None

    def _listen(self) -> None:
        for layer in self._layers:
            if self._named:
                handle = layer.register_forward_hook(self._catch_output)
            else:
                handle = layer.register_forward_pre_hook(self._catch_input, with_kwargs=True)
            self._handles.append(handle)

    def _catch_input(self, layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._caught = args[0] if args else kwargs["input"]
        self._caught_at = layer

    def _catch_output(self, layer: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        first = output[0] if isinstance(output, tuple) and output else output
        if not isinstance(first, Tensor):
            kind = type(output).__name__
            raise UnderstudyError(f"{self._where()} returns {kind}; name one that returns a tensor")
        # A copy, because an in-place ReLU often follows.
        self._caught = first.clone()
        self._caught_at = layer

    def _rows(self, features: Tensor, logits: Tensor, x: Inputs) -> Tensor:
        """(B, d) from whatever shape the layer saw."""
        if features.dim() == 0 or len(features) != len(logits):
            raise UnderstudyError(
                f"{self._where()} saw {tuple(features.shape)} for a batch of {len(logits)}: "
                "its first axis is not the batch; name another layer"
            )
        if features.dim() != 3:
            return features.flatten(1) if features.dim() > 1 else features.unsqueeze(1)
        mask: Tensor | None = x.get("attention_mask") if isinstance(x, Mapping) else None
        if mask is None or mask.shape != features.shape[:2]:
            return features.mean(1)
        kept = mask.to(features.dtype).unsqueeze(-1)
        return (features * kept).sum(1) / kept.sum(1).clamp(min=1)

    def _where(self) -> str:
        return f"layer {self.layer!r}" if self.layer else "the module itself"


def _linears(module: nn.Module) -> list[nn.Module]:
    found: list[nn.Module] = [layer for layer in module.modules() if isinstance(layer, nn.Linear)]
    if not found:
        raise UnderstudyError(
            f"{type(module).__name__} has no nn.Linear to take penultimate features from; "
            "name a layer whose output they are"
        )
    return found


def _find(module: nn.Module, name: str) -> nn.Module:
    layers: dict[str, nn.Module] = dict(module.named_modules(remove_duplicate=False))
    if name not in layers:
        known = [layer for layer in layers if layer]
        near = difflib.get_close_matches(name, known, n=5, cutoff=0.4) or known[-5:]
        owner = type(module).__name__
        raise UnderstudyError(f"there is no layer {name!r} in {owner}; near it: {', '.join(near) or 'none'}")
    return layers[name]
