"""Optimizers and learning-rate schedules, by name.

A schedule is a function of training progress (0 … 1) that multiplies the learning rate, so one name serves any number
of epochs. The piecewise ones are the papers' own: theirs drop at fixed epochs of 200 (CIFAR) or 100 (ImageNet).
"""

import math
from collections.abc import Callable, Iterable, Sequence

import torch
from torch import nn

from understudy.errors import UnderstudyError

Schedule = Callable[[float], float]


def piecewise(steps: Sequence[tuple[float, float]]) -> Schedule:
    """Factor 1, then each ``(from this progress on, factor)`` in turn."""

    def factor(progress: float) -> float:
        return next((value for start, value in reversed(steps) if progress >= start), 1.0)

    return factor


SCHEDULES: dict[str, Schedule] = {
    "constant": lambda progress: 1.0,
    "cosine": lambda progress: 0.5 * (1 + math.cos(math.pi * progress)),
    "step": piecewise([(0.5, 0.1), (0.75, 0.01)]),
    # Weighted Distillation and SLaM, CIFAR: epochs 80, 120, 160, 180 of 200.
    "papers-cifar": piecewise([(0.4, 1e-1), (0.6, 1e-2), (0.8, 1e-3), (0.9, 0.5e-3)]),
    # The same papers, ImageNet: epochs 30, 60, 80 of 100.
    "papers-imagenet": piecewise([(0.3, 1e-1), (0.6, 1e-2), (0.8, 1e-3)]),
}


def find_schedule(schedule: str | Schedule | Sequence[tuple[float, float]]) -> Schedule:
    if isinstance(schedule, str):
        if schedule not in SCHEDULES:
            raise UnderstudyError(f"schedule={schedule!r} is unknown; use one of {', '.join(SCHEDULES)}")
        return SCHEDULES[schedule]
    if callable(schedule):
        return schedule
    try:
        return piecewise([(float(start), float(factor)) for start, factor in schedule])
    except (TypeError, ValueError) as error:
        raise UnderstudyError(
            f"schedule={schedule!r}: give a name, a function of progress (0 … 1), or pairs (progress, factor)"
        ) from error


OPTIMIZERS = ("adam", "adamw", "sgd")


def make_optimizer(
    name: str, parameters: Iterable[nn.Parameter], *, lr: float, weight_decay: float, momentum: float
) -> torch.optim.Optimizer:
    """The fused kernels update all tensors in one call; they exist for CPU and CUDA."""
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    if not trained:
        raise UnderstudyError("the student has no trainable parameters; set requires_grad on some")
    kinds = {parameter.device.type for parameter in trained}
    fused = kinds <= {"cpu", "cuda"} and all(parameter.is_floating_point() for parameter in trained)
    if name == "adam":
        return torch.optim.Adam(trained, lr=lr, weight_decay=weight_decay, fused=fused)
    if name == "adamw":
        return torch.optim.AdamW(trained, lr=lr, weight_decay=weight_decay, fused=fused)
    if name == "sgd":
        return torch.optim.SGD(trained, lr=lr, weight_decay=weight_decay, momentum=momentum, fused=fused)
    raise UnderstudyError(f"optimizer={name!r} is unknown; use one of {', '.join(OPTIMIZERS)}")
