"""Least confidence: the rows whose largest class probability is smallest."""

import torch
from torch import Tensor

from understudy.acquisition.rank import smallest


def confidence(n: int, *, probs: Tensor, available: Tensor, generator: torch.Generator) -> Tensor:
    return smallest(probs.amax(1), n, available=available, generator=generator)
