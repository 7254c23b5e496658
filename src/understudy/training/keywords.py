"""A recipe's options as the keyword arguments that a function shows.

@takes(SharedOptions)
def compare(student, gold, pool, *, seeds=5, **options: Unpack[SharedOptions]): ...
inspect.signature(compare)                  # (student, gold, pool, *, epochs: int, batch_size: int = 128, …)
"""

from collections.abc import Callable
from typing import Any

import torch

from understudy.data.augment import Augment
from understudy.method_options import Function, parameters, spelled_out
from understudy.training.ema import EMA
from understudy.training.options import TrainingOptions

NAMED: dict[str, Any] = {"torch": torch, "Augment": Augment, "EMA": EMA}
"""What the recipe's file, which loads without PyTorch, only names."""


def takes(options: type) -> Callable[[Function], Function]:
    """Shows, in place of ``**options``, those options of a recipe by name, type and default; refuses any other."""
    return lambda function: spelled_out(function, parameters(TrainingOptions, options, NAMED), first=True)
