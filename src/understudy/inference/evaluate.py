"""What a model says of some rows, and how good that is, as plain dicts."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from understudy.data.examples import Gold
from understudy.data.paging import room_for
from understudy.data.rows import Rows, as_rows
from understudy.errors import UnderstudyError
from understudy.inference.features import FeatureTap, forward

CALIBRATION_BINS = 15


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


def batches_of(rows: Rows, batch_size: int) -> Iterator[Any]:
    for start in range(0, len(rows), batch_size):
        yield rows.take(torch.arange(start, min(start + batch_size, len(rows))))


class Stack:
    """What a pass says of ``rows`` rows, batch by batch, in one tensor of its final size.

    A large one lies in a file that vanishes with it (``data/paging.py``), so that a pass over any pool costs memory
    for a batch only.
    """

    def __init__(self, rows: int) -> None:
        self.rows, self.filled = rows, 0
        self.tensor = torch.empty(0, 0)

    def add(self, part: Tensor) -> None:
        if not self.filled:
            # An ordinary tensor, which callers may use in autograd.
            with torch.inference_mode(False):
                self.tensor = room_for((self.rows, *part.shape[1:]), part.dtype)
        self.tensor[self.filled : self.filled + len(part)] = part
        self.filled += len(part)


def predict(model: nn.Module, x: Any, *, batch_size: int = 1024) -> Tensor:
    """Class probabilities ``(n, C)``, eval mode, on the CPU."""
    device, rows = device_of(model), as_rows(x, "x")
    probs = Stack(len(rows))
    with eval_mode(model), torch.inference_mode():
        for batch in batches_of(rows, batch_size):
            probs.add(forward(model, to_device(batch, device)).float().softmax(-1))
    return probs.tensor


def penultimate(model: nn.Module, x: Any, *, layer: str | None = None, batch_size: int = 1024) -> Tensor:
    """Penultimate features ``(n, d)``, eval mode, on the CPU."""
    device, rows = device_of(model), as_rows(x, "x")
    features = Stack(len(rows))
    with eval_mode(model), torch.inference_mode(), FeatureTap(model, layer) as tap:
        for batch in batches_of(rows, batch_size):
            features.add(tap(to_device(batch, device))[1])
    return features.tensor


def calibration_error(probs: Tensor, labels: Tensor, bins: int = CALIBRATION_BINS) -> float:
    """Expected calibration error of the top class: the mean gap between confidence and accuracy over equal bins."""
    confidence, best = probs.double().max(-1)
    place = (confidence * bins).long().clamp(max=bins - 1)
    gap = (best == labels).double() - confidence
    return float(torch.zeros(bins, dtype=torch.float64).index_add_(0, place, gap).abs().sum() / len(labels))


def metrics(probs: Tensor, labels: Tensor) -> dict[str, float]:
    """accuracy, worst_class (the lowest accuracy of a class that occurs), ece, loss."""
    if int(labels.max()) >= probs.shape[1]:
        raise UnderstudyError(
            f"the labels hold class {int(labels.max())}, but the model has {probs.shape[1]} outputs; match them"
        )
    right = (probs.argmax(-1) == labels).double()
    counts = torch.bincount(labels)
    per_class = torch.bincount(labels, weights=right) / counts
    true_prob = probs.gather(1, labels.unsqueeze(1)).double().clamp(min=torch.finfo(torch.float32).tiny)
    return {
        "accuracy": float(right.mean()),
        "worst_class": float(per_class[counts > 0].min()),
        "ece": calibration_error(probs, labels),
        "loss": float(-true_prob.log().mean()),
    }


def evaluate(model: nn.Module, gold: Gold, *, batch_size: int = 1024) -> dict[str, float]:
    return metrics(predict(model, gold.rows, batch_size=batch_size), gold.y)
