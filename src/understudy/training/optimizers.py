"""A recipe's optimizer, from PyTorch.

optimizer = make_optimizer("adam", student.parameters(), lr=1e-3, weight_decay=0.0, momentum=0.9)
loss.backward(); optimizer.step()
"""

from collections.abc import Iterable

import torch
from torch import nn

from understudy.errors import UnderstudyError
from understudy.training.recipe import OPTIMIZERS


def make_optimizer(
    name: str, *groups: Iterable[nn.Parameter], lr: float, weight_decay: float, momentum: float
) -> torch.optim.Optimizer:
    """The fused kernels update all tensors of a group in one call; they exist for CPU and CUDA.

    The fused SGD wants every parameter of a group to have a gradient from its first step on, or none: what a method
    trains beside the student, which batches of gold alone do not touch, is a group of its own.
    """
    trained = [[parameter for parameter in group if parameter.requires_grad] for group in groups]
    every = [parameter for group in trained for parameter in group]
    if not every:
        raise UnderstudyError("the student has no trainable parameters; set requires_grad on some")
    kinds = {parameter.device.type for parameter in every}
    fused = kinds <= {"cpu", "cuda"} and all(parameter.is_floating_point() for parameter in every)
    given = [{"params": group} for group in trained if group]
    if name == "adam":
        return torch.optim.Adam(given, lr=lr, weight_decay=weight_decay, fused=fused)
    if name == "adamw":
        return torch.optim.AdamW(given, lr=lr, weight_decay=weight_decay, fused=fused)
    if name == "sgd":
        return torch.optim.SGD(given, lr=lr, weight_decay=weight_decay, momentum=momentum, fused=fused)
    raise UnderstudyError(f"optimizer={name!r} is unknown; use one of {', '.join(OPTIMIZERS)}")
