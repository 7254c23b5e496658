"""Entropy: the rows whose predicted distribution has the largest −Σ p log p."""

import torch
from torch import Tensor

from understudy.acquisition.rank import smallest
from understudy.maths import confidence


def entropy(n: int, *, probs: Tensor, available: Tensor, generator: torch.Generator) -> Tensor:
    return smallest(-confidence.entropy(probs), n, available=available, generator=generator)
