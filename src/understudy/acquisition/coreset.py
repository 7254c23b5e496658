"""Core-set (Sener and Savarese 2018), greedy: each pick is the row farthest, in penultimate features, from
everything labelled or picked before.

The paper adds a mixed-integer refinement of the greedy solution; as in most comparisons, it is left out. With
nothing labelled yet, the row with the largest norm is first.
"""

import torch
from torch import Tensor

from understudy.maths.spread import factored, farthest_first


def coreset(n: int, *, hidden: Tensor, available: Tensor, generator: torch.Generator) -> Tensor:
    labelled = (~available).nonzero().squeeze(1)
    return farthest_first(factored(hidden), n, centres=labelled, generator=generator)
