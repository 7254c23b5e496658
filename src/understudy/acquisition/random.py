"""Uniformly random rows: the baseline every strategy has to beat, and on noisy pools often does not."""

import torch
from torch import Tensor


def random(n: int, *, available: Tensor, generator: torch.Generator) -> Tensor:
    rows = available.nonzero().squeeze(1)
    return rows[torch.randperm(len(rows), generator=generator)[:n]]
