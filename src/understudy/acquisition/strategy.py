"""What a selection strategy is: how it picks rows, what it looks at, and how it explains a pick.

A strategy is one file in ``strategies/`` with an object named like the file. Two families share their base: `Ranked`
takes the rows with the smallest score, `Spread` draws rows whose vectors are large and far apart (k-means++).
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from understudy.maths.factored import Factored, squared_distances
from understudy.maths.random_order import draw_key, random_keys
from understudy.maths.spread import kmeans_plus_plus

#: What strategies look at, one row per pool example, under the names that ``us.select`` takes.
Arrays = Mapping[str, Tensor]

#: A number and a phrase for each pick: what the strategy saw in the row.
Reasons = tuple[list[float], list[str]]


class Strategy(ABC):
    #: Which arrays must be there: "probs", "hidden", "probs_ema", "hidden_ema".
    needs: tuple[str, ...] = ()

    @abstractmethod
    def pick(self, n: int, arrays: Arrays, *, available: Tensor, generator: torch.Generator) -> Tensor:
        """n distinct row numbers, in the order picked; only rows that are ``available``, (N,) bool."""

    @abstractmethod
    def explain(self, picks: Tensor, arrays: Arrays, *, labelled: Tensor, names: Sequence[str]) -> Reasons:
        """Why these rows. ``labelled``: row numbers that had labels before; ``names``: what the classes are called."""


class Ranked(Strategy):
    """The n rows with the smallest score, ties in random order.

    LLM confidences take few distinct values, and a pool often repeats rows: a stable sort would then favour
    the rows that come first in the file. The seed decides instead, so row order has no influence on the chances.
    """

    needs = ("probs",)

    @abstractmethod
    def score(self, probs: Tensor) -> Tensor:
        """One number per row of class probabilities; the smallest is picked first."""

    def pick(self, n: int, arrays: Arrays, *, available: Tensor, generator: torch.Generator) -> Tensor:
        rows = shuffled(available, generator)
        return rows[self.score(arrays["probs"])[rows].argsort(stable=True)[:n]]


class Spread(Strategy):
    """k-means++ on one vector per row; the first pick has the longest."""

    #: What the vectors are, in a word or two.
    vector: str

    @abstractmethod
    def vectors(self, arrays: Arrays) -> Factored: ...

    def notes(self, arrays: Arrays) -> list[str]:
        """What else to say of each row."""
        return [""] * len(arrays["hidden"])

    def pick(self, n: int, arrays: Arrays, *, available: Tensor, generator: torch.Generator) -> Tensor:
        return kmeans_plus_plus(self.vectors(arrays), n, available=available, generator=generator)

    def explain(self, picks: Tensor, arrays: Arrays, *, labelled: Tensor, names: Sequence[str]) -> Reasons:
        picked = {name: arrays[name][picks] for name in self.needs}
        vectors = self.vectors(picked)
        lengths = vectors.squared_norms.sqrt().tolist()
        phrases = [
            f"{note}{self.vector} {length:.3g}, "
            + ("the largest" if distance == torch.inf else f"{distance:.3g} from the nearest earlier pick")
            for note, length, distance in zip(self.notes(picked), lengths, to_earlier(vectors).tolist(), strict=True)
        ]
        return lengths, phrases


def shuffled(available: Tensor, generator: torch.Generator) -> Tensor:
    """The available row numbers in random order; the same order where a pool lies in parts."""
    rows = available.nonzero().squeeze(1)
    return rows[random_keys(rows, draw_key(generator)).argsort()]


def to_earlier(rows: Factored) -> Tensor:
    """Distance to the nearest row before it; infinite for the first."""
    mutual = squared_distances(rows, rows)
    later = torch.ones_like(mutual, dtype=torch.bool).triu()
    return mutual.masked_fill(later, torch.inf).amin(1).clamp_min(0).sqrt()
