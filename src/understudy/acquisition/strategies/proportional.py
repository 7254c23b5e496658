"""Rows drawn with known probabilities that grow with the student's uncertainty, so that their labels can estimate.

u = √(1 − Σ_c p_c²) is the standard deviation of a row's class, summed over the classes: drawing in proportion to it
estimates class shares best (Neyman's allocation; Zrnic and Candès 2024, active statistical inference). A student may be
sure and wrong: half of the weight is uniform, w = ½ + ½ u / mean(u), so that no row's probability is below half that of
a random draw, n / (2N), and no row counts more than twice. π = min(1, c · w) sums to n.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from understudy.acquisition.strategy import Arrays, Reasons, ScoredRows, Strategy
from understudy.maths.random_order import draw_key, inclusion_probabilities, systematic

UNIFORM = 0.5


class Proportional(Strategy):
    needs = ("probs",)

    def inclusion(self, n: int, rows: ScoredRows, *, available: Tensor) -> Tensor:
        score = torch.cat([values for _, values in rows.map(uncertainty)])[available]
        probability = torch.zeros(len(available), dtype=torch.float64)
        if len(score):
            weight = UNIFORM + (1 - UNIFORM) * score / score.mean().clamp_min(1e-300)
            probability[available] = inclusion_probabilities(weight, n)
        return probability

    def pick(self, n: int, rows: ScoredRows, *, available: Tensor, generator: torch.Generator) -> Tensor:
        free = available.nonzero().squeeze(1)
        start = float(torch.rand(1, generator=generator, dtype=torch.float64))
        chances = self.inclusion(n, rows, available=available)[free]
        return free[systematic(chances, n, start=start, key=draw_key(generator))]

    def explain(self, picks: Tensor, arrays: Arrays, *, labelled: Tensor, names: Sequence[str]) -> Reasons:
        numbers = uncertainty({"probs": arrays["probs"][picks]}).tolist()
        return numbers, [f"drawn, with a probability that grows with its uncertainty of {u:.2f}" for u in numbers]


def uncertainty(arrays: Arrays) -> Tensor:
    """√(1 − Σ p²), (N,), float64."""
    return (1 - arrays["probs"].double().square().sum(1)).clamp_min(0).sqrt()


proportional = Proportional()
