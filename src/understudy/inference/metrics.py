"""How good a model's predictions are, as plain dicts."""

import torch
from torch import Tensor, nn

from understudy.data.examples import Gold
from understudy.errors import UnderstudyError
from understudy.inference.passes import BATCH_SIZE, predict
from understudy.maths.confidence import calibration_error


def metrics(probs: Tensor, labels: Tensor) -> dict[str, float]:
    """accuracy, worst_class (the lowest accuracy of a class that occurs), ece, loss."""
    if int(labels.max()) >= probs.shape[1]:
        raise UnderstudyError(
            f"the labels hold class {int(labels.max())}, but the model has {probs.shape[1]} outputs; match them"
        )
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
    }


def evaluate(model: nn.Module, gold: Gold, *, batch_size: int = BATCH_SIZE) -> dict[str, float]:
    return metrics(predict(model, gold.rows, batch_size=batch_size), gold.y)
