"""Margin: the rows whose two most likely classes are closest."""

import torch
from torch import Tensor

from understudy.acquisition.rank import smallest
from understudy.maths import confidence


def margin(n: int, *, probs: Tensor, available: Tensor, generator: torch.Generator) -> Tensor:
    return smallest(confidence.margin(probs), n, available=available, generator=generator)
