"""Core-set (Sener and Savarese 2018): each pick is the row farthest from everything labelled or picked before.

Distances are Euclidean in penultimate features h, and the choice is greedy: argmax_i min_c ‖hᵢ − h_c‖.

The paper adds a mixed-integer refinement of the greedy solution; as in most comparisons, it is left out. With
nothing labelled yet, the row with the largest norm is first.
"""

import torch
from torch import Tensor

from understudy.maths.spread.spread import factored, farthest_first


def coreset(n: int, *, hidden: Tensor, available: Tensor, generator: torch.Generator) -> Tensor:
    labelled = (~available).nonzero().squeeze(1)
    return farthest_first(factored(hidden), n, centres=labelled, generator=generator)
