"""What a model says of a batch (``logits_of``, ``FeatureTap``) and of many rows (``over_rows``); how good that is.

probs = predict(net, x)                      # (n, C)
hidden = penultimate(net, x)                 # (n, d)
both = over_rows(net, x, lambda batch, index: ask(batch), outputs=2, batch_size=256)
"""

import difflib
import math
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from understudy.data.checks import check_space, first_bad, to_tensor
from understudy.data.examples import Gold
from understudy.data.inputs import as_rows, read_by
from understudy.data.rows import Rows, take_sparse
from understudy.errors import UnderstudyError, first_line
from understudy.maths.confidence import calibration_error
from understudy.maths.metric_scores import ACCURACY, row_values
from understudy.maths.sparse import sparse_batch
from understudy.models.small_nets import takes_sparse
from understudy.store.files import cache_folder
from understudy.store.option_fields import checked

BATCH_SIZE = 1024
# Results up to this size are ordinary memory.
LARGE = 256 << 20
# Of rows that differ in length, a batch holds so many tokens at most: 1024 long texts would take gigabytes.
BATCH_TOKENS = 1 << 14

Inputs = Tensor | Mapping[str, Any]
Results = Tensor | tuple[Tensor, ...]


@contextmanager
def eval_mode(model: nn.Module) -> Iterator[None]:
    """Eval mode for a while, then whatever mode each submodule had."""
    modes = [(module, module.training) for module in model.modules()]
    # To set what is set already takes twice as long as a small net's pass over one row.
    if any(mode for _, mode in modes):
        model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            if module.training != mode:
                module.training = mode


def to_device(x: Any, device: torch.device) -> Any:
    if isinstance(x, Tensor):
        return x.to(device, non_blocking=True)
    return {key: value.to(device, non_blocking=True) for key, value in x.items()}


def device_of(model: nn.Module) -> torch.device:
    first = next(model.parameters(), None)
    return torch.device("cpu") if first is None else first.device


def usable_device(device: str | torch.device | None) -> torch.device | None:
    """A device that can really hold something."""
    if device is None:
        return None
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise UnderstudyError(f"device {device!r} is unknown; use cpu or cuda") from error
    try:
        torch.empty(0, device=found)
    except (RuntimeError, AssertionError) as error:  # a build without CUDA asserts
        raise UnderstudyError(f"device {str(device)!r} cannot be used here ({first_line(error)}); use cpu") from error
    return found


def logits_of(module: nn.Module, x: Inputs) -> Tensor:
    """The module's logits for x: a tensor, or a mapping of tensors that is passed as keyword arguments.

    The output is a tensor, or an object with ``.logits`` (as Hugging Face models return).
    """
    try:
        output = module(**x) if isinstance(x, Mapping) else module(x)
    except IndexError as error:  # of a dimension that rows do not have, or an id beyond an embedding
        shown = "" if isinstance(x, Mapping) else f" of shape {tuple(x.shape)}"
        raise UnderstudyError(f"{type(module).__name__} cannot take a batch{shown}: {first_line(error)}") from error
    logits = getattr(output, "logits", output)
    if isinstance(logits, Tensor):
        return logits
    raise UnderstudyError(f"{type(module).__name__} returned {type(output).__name__}; return logits (B, C), or .logits")


class FeatureTap:
    """Calls a module and returns (logits, penultimate features), without asking for a base class.

        tap = FeatureTap(net)                       # or FeatureTap(net, layer="encoder.pool")
        logits, features = tap(x)                   # (B, C), (B, d); gradients flow through both
        logits, features = tap(x, call=wrapped)     # the same through a module that runs this one (DDP, a Trainer's)

    Features are the input of the last `nn.Linear`, or the output of a layer the user names. "Last" is the last that
    *ran* in the first call, not the last registered: a head that is declared before its body, or an unused one after
    it, is no trap. The choice is then kept, and is readable as `tap.layer`. Where the last one to run is not the
    classifier (an auxiliary head), name the layer that makes the features.

    Features have shape (B, d). Sequences (B, T, d) are averaged over T, under `attention_mask` where the input mapping
    has one; any other shape is flattened. Hooks exist only while a call runs, so copies of the module carry none and
    nothing is left behind when a pass fails. A module from `torch.compile` runs no hooks: call the original.
    """

    def __init__(self, module: nn.Module, layer: str | None = None) -> None:
        self.module, self.layer = module, layer
        self._named = layer is not None
        # The layers to listen at: the named one, or every Linear until a first call shows which runs last.
        linears: list[nn.Module] = [part for part in module.modules() if isinstance(part, nn.Linear)]
        self._layers = linears if layer is None else [_find(module, layer)]
        if not self._layers:
            raise UnderstudyError(f"{type(module).__name__} has no nn.Linear; name a layer that makes the features")

    def __call__(self, x: Inputs, call: nn.Module | None = None) -> tuple[Tensor, Tensor]:
        """``call``: what to run instead of the module itself, where something wraps it."""
        last: list[tuple[nn.Module, Tensor]] = []

        def catch_input(layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            last[:] = [(layer, args[0] if args else kwargs["input"])]

        def catch_output(layer: nn.Module, args: tuple[Any, ...], output: Any) -> None:
            first = output[0] if isinstance(output, tuple) and output else output
            if not isinstance(first, Tensor):
                kind = type(output).__name__
                raise UnderstudyError(f"{self._where()} returns {kind}; name one that returns a tensor")
            last[:] = [(layer, first.clone())]  # a copy, because an in-place ReLU often follows

        with ExitStack() as hooks:
            for layer in self._layers:
                hooks.enter_context(
                    layer.register_forward_hook(catch_output)
                    if self._named
                    else layer.register_forward_pre_hook(catch_input, with_kwargs=True)
                )
            logits = logits_of(self.module if call is None else call, x)
        if not last:
            missing = "no nn.Linear ran" if self.layer is None else f"{self._where()} did not run"
            raise UnderstudyError(f"{missing} in the forward pass; name a layer that runs")
        [(at, features)] = last
        if self.layer is None:
            self._layers = [at]
            self.layer = next(name for name, layer in self.module.named_modules() if layer is at)
        return logits, self._rows(features, logits, x)

    def _rows(self, features: Tensor, logits: Tensor, x: Inputs) -> Tensor:
        """(B, d) from whatever shape the layer saw."""
        if features.dim() == 0 or len(features) != len(logits):
            saw = f"{self._where()} saw {tuple(features.shape)} for a batch of {len(logits)}"
            raise UnderstudyError(f"{saw}: its first axis is not the batch; name another layer")
        if features.dim() != 3:
            return features.flatten(1) if features.dim() > 1 else features.unsqueeze(1)
        mask: Tensor | None = x.get("attention_mask") if isinstance(x, Mapping) else None
        if mask is None or mask.shape != features.shape[:2]:
            return features.mean(1)
        kept = mask.to(features.dtype).unsqueeze(-1)
        return (features * kept).sum(1) / kept.sum(1).clamp(min=1)

    def _where(self) -> str:
        return f"layer {self.layer!r}" if self.layer else "the module itself"


def _find(module: nn.Module, name: str) -> nn.Module:
    layers: dict[str, nn.Module] = dict(module.named_modules(remove_duplicate=False))
    if name not in layers:
        known = [layer for layer in layers if layer]
        near = difflib.get_close_matches(name, known, n=5, cutoff=0.4) or known[-5:]
        owner = type(module).__name__
        raise UnderstudyError(f"there is no layer {name!r} in {owner}; near it: {', '.join(near) or 'none'}")
    return layers[name]


def over_rows(
    model: nn.Module | None, x: Any, function: Callable[[Any, Tensor], Results], *, outputs: int = 1,
    index: Tensor | None = None, batch_size: int = BATCH_SIZE, sparse: bool = False,
) -> list[Tensor]:  # fmt: skip
    """``function(batch, index)`` of every batch; its ``outputs`` tensors of all rows, in the order of the rows.

    The model is in eval and inference mode, and batches are where its parameters are; with ``model=None`` the function
    is the user's own, and batches and modes are left alone. ``index``: the rows to pass over (default: all), so that
    several processes can take a share each; ``sparse``: whether the function takes sparse batches. Each
    result lies on the CPU in one tensor of its final size, a large one in a file that vanishes with it: a pass over any
    pool costs memory for a batch only.
    """
    rows = x if isinstance(x, Rows) else as_rows(x, "x")
    rows = read_by(model, rows) if rows.is_text and model is not None else rows
    index = torch.arange(rows.count) if index is None else index
    as_sparse = sparse and rows.is_sparse and model is not None and takes_sparse(model)
    device = None if model is None else device_of(model)
    results: list[Tensor] = []
    with nullcontext() if model is None else eval_mode(model):
        for places in _cut(rows, index, batch_size):
            part = index[places]
            batch = sparse_batch(take_sparse(rows, part)) if as_sparse else rows.take(part)
            with torch.inference_mode(model is not None):
                values = function(batch if device is None else to_device(batch, device), part)
            values = (values,) if isinstance(values, Tensor) else values
            # Results are ordinary tensors, which callers may use in autograd.
            with torch.inference_mode(torch.is_inference_mode_enabled() and model is None):
                results = results or [room_for((len(index), *value.shape[1:]), value.dtype) for value in values]
            for result, value in zip(results, values, strict=True):
                if value.shape[:1] != part.shape:
                    raise UnderstudyError(f"the model made {tuple(value.shape)} of {len(part)} rows, not one per row")
                result[places] = value
    return results or [torch.empty(0, 0)] * outputs


def room_for(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """An uninitialised tensor for results: memory while they are small, else a file that vanishes with the tensor."""
    size = math.prod(shape) * dtype.itemsize
    if size <= LARGE:
        return torch.empty(shape, dtype=dtype)
    folder = cache_folder()
    check_space(folder, size, f"a result of shape {shape}")
    kind = torch.empty(0, dtype=dtype).numpy().dtype
    handle, name = tempfile.mkstemp(dir=folder, prefix=".result.")
    try:
        # Reserved at once: a disk that fills up later would kill the process where the map is written.
        os.posix_fallocate(handle, 0, size)
        return to_tensor(np.memmap(name, dtype=kind, mode="r+", shape=shape), name)
    except OSError as error:
        raise UnderstudyError(f"cannot write {folder}: {error.strerror}; set UNDERSTUDY_CACHE to another") from error
    finally:
        os.close(handle)
        # The map keeps the file's contents for as long as it lives.
        os.unlink(name)


def _cut(rows: Rows, index: Tensor, batch_size: int) -> Iterator[slice | Tensor]:
    """The places in ``index`` of each batch: as they come, or, where rows differ in length, the longest first, so that
    a batch holds rows of like length and too little memory shows at once."""
    lengths = None if rows.collate is None else rows.lengths()
    if lengths is None:
        yield from (slice(start, start + batch_size) for start in range(0, len(index), batch_size))
        return
    row_lengths = lengths[index]
    order, start = row_lengths.argsort(descending=True, stable=True), 0
    while start < len(order):
        longest = max(1, int(row_lengths[order[start]]))
        stop = start + min(batch_size, max(1, BATCH_TOKENS // longest))
        yield order[start:stop]
        start = stop


def predict(model: nn.Module, x: Any, *, batch_size: int = BATCH_SIZE, temperature: float = 1.0) -> Tensor:
    """Class probabilities ``(n, C)``, eval mode, on the CPU: softmax(logits / temperature)."""

    def probabilities(batch: Any, index: Tensor) -> Tensor:
        logits = logits_of(model, batch).float()
        return (logits if temperature == 1.0 else logits / temperature).softmax(-1)

    probs = over_rows(model, x, probabilities, batch_size=batch_size, sparse=True)[0]
    # Files and Datasets are not looked through beforehand: what NaN makes of a row is seen here.
    if math.isnan(float(probs.sum())):
        row = first_bad(probs.flatten(1).sum(1).isnan())
        raise UnderstudyError(f"the answer to row {row} is NaN; mend its features, or train again with a lower lr")
    return probs


def predict_logits(model: nn.Module, x: Any, *, batch_size: int = BATCH_SIZE) -> Tensor:
    """Logits ``(n, C)``, eval mode, on the CPU."""
    return over_rows(model, x, lambda batch, index: logits_of(model, batch).float(), batch_size=batch_size)[0]


def predicted(model: nn.Module, x: Any, *, batch_size: int = BATCH_SIZE) -> Tensor:
    """The best class ``(n,)`` alone: no probabilities of a large pool are kept."""
    return over_rows(model, x, lambda batch, index: logits_of(model, batch).argmax(-1), batch_size=batch_size)[0]


def penultimate(model: nn.Module, x: Any, *, layer: str | None = None, batch_size: int = BATCH_SIZE) -> Tensor:
    """Penultimate features ``(n, d)``, eval mode, on the CPU."""
    tap = FeatureTap(model, layer)
    return over_rows(model, x, lambda batch, index: tap(batch)[1], batch_size=batch_size)[0]


def metrics(probs: Tensor, labels: Tensor, metric: str = ACCURACY) -> dict[str, float]:
    """accuracy, worst_class (the lowest accuracy of a class that occurs), ece, loss; score: of another metric."""
    if int(labels.max()) >= probs.shape[1]:
        raise UnderstudyError(f"labels hold class {int(labels.max())}, the model {probs.shape[1]} outputs; match them")
    confidence, best = probs.double().max(-1)
    right = (probs.argmax(-1) == labels).double()
    counts = torch.bincount(labels)
    per_class = torch.bincount(labels, weights=right) / counts
    true_prob = probs.gather(1, labels.unsqueeze(1)).double().clamp(min=torch.finfo(torch.float32).tiny)
    return {
        "accuracy": float(right.mean()),
        "worst_class": float(per_class[counts > 0].min()),
        "ece": calibration_error(confidence, best == labels),
        "loss": float(-true_prob.log().mean()),
        **({} if metric == ACCURACY else {"score": float(row_values(metric, probs, labels).mean())}),
    }


@checked
def evaluate(model: nn.Module, gold: Gold, *, batch_size: int = BATCH_SIZE, metric: str = ACCURACY) -> dict[str, float]:
    return metrics(predict(model, gold.rows, batch_size=batch_size), gold.y, metric)
