"""A recipe's optimizer, from PyTorch, and the parameters that learn at a rate of their own.

    parts = grouped(student, {"classifier.*": {"lr_scale": 10}, "*.bias": {"weight_decay": 0}})
    optimizer = make_optimizer("adamw", *parts, lr=1e-3, weight_decay=0.01, momentum=0.9)
    set_lr(optimizer, recipe.lr_at(progress))
    loss.backward(); optimizer.step()

A group is named as files are in a shell; where several fit a parameter, the last one that says something of it counts.
Whoever builds a student may note rates on it (``note_rates``), which a recipe's groups go before.
"""

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import nn

from understudy.errors import UnderstudyError
from understudy.training.options import OPTIMIZERS, Groups

_NOTE = "_understudy_rates"
LR_SCALE, WEIGHT_DECAY = "lr_scale", "weight_decay"


def note_rates(student: nn.Module, scales: Mapping[str, float]) -> None:
    """Parameters by their names, and what their learning rate is multiplied by."""
    student.__dict__[_NOTE] = dict(scales)


def grouped(student: nn.Module, groups: Groups | None) -> list[dict[str, Any]]:
    """The student's trained parameters as an optimizer takes them: together what shares rate and decay."""
    _check(student, groups or {})
    noted: dict[str, float] = student.__dict__.get(_NOTE, {})
    found: dict[tuple[tuple[str, float], ...], list[nn.Parameter]] = {}
    for name, parameter in student.named_parameters():
        settings = {LR_SCALE: noted[name]} if name in noted else {}
        for pattern, told in (groups or {}).items():
            settings |= told if fnmatchcase(name, pattern) else {}
        if parameter.requires_grad:
            found.setdefault(tuple(sorted(settings.items())), []).append(parameter)
    return [{"params": parameters, **dict(settings)} for settings, parameters in found.items()]


def _check(student: nn.Module, groups: Groups) -> None:
    names = [name for name, _ in student.named_parameters()]
    for pattern, told in groups.items():
        if not any(fnmatchcase(name, pattern) for name in names):
            raise UnderstudyError(f"groups: no parameter is called {pattern!r}; there is {names[0]!r} … {names[-1]!r}")
        for key, value in told.items():
            if key not in (LR_SCALE, WEIGHT_DECAY):
                raise UnderstudyError(f"groups[{pattern!r}]: {key!r} is unknown; say {LR_SCALE} or {WEIGHT_DECAY}")
            if not value >= 0:
                raise UnderstudyError(f"groups[{pattern!r}]: {key}={value} must be a number and not negative")


def set_lr(optimizer: torch.optim.Optimizer, lr: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = lr * group.get(LR_SCALE, 1.0)


def make_optimizer(
    name: str, *groups: Mapping[str, Any] | Iterable[nn.Parameter], lr: float, weight_decay: float, momentum: float
) -> torch.optim.Optimizer:
    """The fused kernels update all tensors of a group in one call; they exist for CPU and CUDA.

    The fused SGD wants every parameter of a group to have a gradient from its first step on, or none: what a method
    trains beside the student, which batches of gold alone do not touch, is a group of its own.
    """
    given = [dict(group) if isinstance(group, Mapping) else {"params": group} for group in groups]
    for group in given:
        group["params"] = [parameter for parameter in group["params"] if parameter.requires_grad]
    given = [group for group in given if group["params"]]
    every = [parameter for group in given for parameter in group["params"]]
    if not every:
        raise UnderstudyError("the student has no trainable parameters; set requires_grad on some")
    kinds = {parameter.device.type for parameter in every}
    fused = kinds <= {"cpu", "cuda"} and all(parameter.is_floating_point() for parameter in every)
    if name == "adam":
        return torch.optim.Adam(given, lr=lr, weight_decay=weight_decay, fused=fused)
    if name == "adamw":
        return torch.optim.AdamW(given, lr=lr, weight_decay=weight_decay, fused=fused)
    if name == "sgd":
        return torch.optim.SGD(given, lr=lr, weight_decay=weight_decay, momentum=momentum, fused=fused)
    raise UnderstudyError(f"optimizer={name!r} is unknown; use one of {', '.join(OPTIMIZERS)}")
