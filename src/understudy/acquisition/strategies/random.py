"""Uniformly random rows: the baseline every strategy has to beat, and on noisy pools often does not."""

from collections.abc import Sequence

import torch
from torch import Tensor

from understudy.acquisition.strategy import Arrays, Reasons, ScoredRows, Strategy
from understudy.maths.random_order import draw_key, uniform


class Random(Strategy):
    def pick(self, n: int, rows: ScoredRows, *, available: Tensor, generator: torch.Generator) -> Tensor:
        return uniform(rows.parts, n, available=available, key=draw_key(generator))

    def inclusion(self, n: int, rows: ScoredRows, *, available: Tensor) -> Tensor:
        return available.double() * (n / max(int(available.sum()), 1))

    def explain(self, picks: Tensor, arrays: Arrays, *, labelled: Tensor, names: Sequence[str]) -> Reasons:
        return [0.0] * len(picks), ["drawn at random"] * len(picks)


random = Random()
