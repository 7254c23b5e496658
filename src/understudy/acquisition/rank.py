"""The n rows with the smallest score, ties in random order.

LLM confidences take few distinct values, and a pool often repeats rows: a stable sort would then favour
whoever comes first in the file. The seed decides instead, so row order has no influence on the chances.
"""

import torch
from torch import Tensor


def smallest(score: Tensor, n: int, *, available: Tensor, generator: torch.Generator) -> Tensor:
    rows = available.nonzero().squeeze(1)
    rows = rows[torch.randperm(len(rows), generator=generator)]
    return rows[score[rows].argsort(stable=True)[:n]]
