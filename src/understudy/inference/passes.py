"""The one pass over rows: every place that asks a model about many rows goes through ``over_rows``.

probs = predict(net, x)                      # (n, C)
hidden = penultimate(net, x)                 # (n, d)
both = over_rows(net, x, lambda batch, index: ask(batch), outputs=2, batch_size=256)
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from understudy.data.memory import room_for
from understudy.data.rows import as_rows
from understudy.errors import UnderstudyError
from understudy.inference.features import FeatureTap, forward

BATCH_SIZE = 1024

Results = Tensor | tuple[Tensor, ...]


@contextmanager
def eval_mode(model: nn.Module) -> Iterator[None]:
    """Eval mode for a while, then whatever mode each submodule had."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


def to_device(x: Any, device: torch.device) -> Any:
    if isinstance(x, Tensor):
        return x.to(device, non_blocking=True)
    return {key: value.to(device, non_blocking=True) for key, value in x.items()}


def device_of(model: nn.Module) -> torch.device:
    first = next(model.parameters(), None)
    return torch.device("cpu") if first is None else first.device


def over_rows(
    model: nn.Module | None,
    x: Any,
    function: Callable[[Any, Tensor], Results],
    *,
    outputs: int = 1,
    index: Tensor | None = None,
    batch_size: int = BATCH_SIZE,
) -> list[Tensor]:
    """``function(batch, index)`` of every batch; its ``outputs`` tensors of all rows, in the order of the rows.

    The model is in eval and inference mode, and batches are where its parameters are; with ``model=None`` a plain
    function of the user's is asked, whose batches and modes are left alone. ``index``: the rows to ask about (all), and
    the place where several processes can take a share each. Each result lies on the CPU in one tensor of its final
    size, a large one in a file that vanishes with it (``data/memory.py``): a pass over any pool costs memory for a
    batch only.
    """
    rows = as_rows(x, "x")
    index = torch.arange(len(rows)) if index is None else index
    results = [torch.empty(0, 0)] * outputs
    with nullcontext() if model is None else eval_mode(model), torch.inference_mode(model is not None):
        for start in range(0, len(index), batch_size):
            part = index[start : start + batch_size]
            batch = rows.take(part)
            values = function(batch if model is None else to_device(batch, device_of(model)), part)
            values = (values,) if isinstance(values, Tensor) else values
            if not start:
                # Ordinary tensors, which callers may use in autograd.
                with torch.inference_mode(False):
                    results = [room_for((len(index), *value.shape[1:]), value.dtype) for value in values]
            for result, value in zip(results, values, strict=True):
                if value.shape[:1] != part.shape:
                    raise UnderstudyError(
                        f"the model returned shape {tuple(value.shape)} for {len(part)} rows; it must be one per row"
                    )
                result[start : start + len(part)] = value
    return results


def predict(model: nn.Module, x: Any, *, batch_size: int = BATCH_SIZE) -> Tensor:
    """Class probabilities ``(n, C)``, eval mode, on the CPU."""

    def probabilities(batch: Any, index: Tensor) -> Tensor:
        return forward(model, batch).float().softmax(-1)

    return over_rows(model, x, probabilities, batch_size=batch_size)[0]


def penultimate(model: nn.Module, x: Any, *, layer: str | None = None, batch_size: int = BATCH_SIZE) -> Tensor:
    """Penultimate features ``(n, d)``, eval mode, on the CPU."""
    tap = FeatureTap(model, layer)
    return over_rows(model, x, lambda batch, index: tap(batch)[1], batch_size=batch_size)[0]
