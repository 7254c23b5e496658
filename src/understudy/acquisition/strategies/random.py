"""Uniformly random rows: the baseline every strategy has to beat, and on noisy pools often does not."""

from collections.abc import Sequence

import torch
from torch import Tensor

from understudy.acquisition.strategy import Arrays, Reasons, Strategy, shuffled


class Random(Strategy):
    def pick(self, n: int, arrays: Arrays, *, available: Tensor, generator: torch.Generator) -> Tensor:
        return shuffled(available, generator)[:n]

    def explain(self, picks: Tensor, arrays: Arrays, *, labelled: Tensor, names: Sequence[str]) -> Reasons:
        return [0.0] * len(picks), ["drawn at random"] * len(picks)


random = Random()
