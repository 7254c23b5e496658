"""Core-set (Sener and Savarese 2018): each pick is the row farthest from everything labelled or picked before.

Distances are Euclidean in penultimate features h, and the choice is greedy: argmax_i min_c ‖hᵢ − h_c‖.

The paper adds a mixed-integer refinement of the greedy solution; as in most comparisons, it is left out. With
nothing labelled yet, the row with the largest norm is first.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from understudy.acquisition.strategy import Arrays, Reasons, ScoredRows, Strategy, to_earlier
from understudy.maths.spread import Factored, factored, farthest_first, squared_distances


class Coreset(Strategy):
    needs = ("hidden",)

    def pick(self, n: int, rows: ScoredRows, *, available: Tensor, generator: torch.Generator) -> Tensor:
        labelled = (~available).nonzero().squeeze(1)
        vectors = rows.vectors(self.vectors)
        return farthest_first(vectors, n, available=available, centres=labelled, generator=generator)

    def vectors(self, arrays: Arrays) -> Factored:
        return factored(arrays["hidden"])

    def explain(self, picks: Tensor, arrays: Arrays, *, labelled: Tensor, names: Sequence[str]) -> Reasons:
        rows = factored(arrays["hidden"][picks])
        nearest = to_earlier(rows)
        if len(labelled):
            before = squared_distances(rows, factored(arrays["hidden"][labelled]))
            nearest = torch.minimum(nearest, before.amin(1).clamp_min(0).sqrt())
        phrases = [
            "largest features, first pick" if distance == torch.inf
            else f"{distance:.3g} from the nearest labelled or picked row"
            for distance in nearest.tolist()
        ]  # fmt: skip
        return torch.where(nearest.isfinite(), nearest, 0.0).tolist(), phrases


coreset = Coreset()
