"""What a selection strategy is: how it picks rows, what it looks at, and how it explains a pick.

A strategy is one file in ``strategies/`` with an object named like the file. Two families share their base: `Ranked`
takes the rows with the smallest score, `Spread` draws rows whose vectors are large and far apart (k-means++). They pick
from `ScoredRows`: arrays in memory (`ArrayRows`), or those of shards (``parallel/shard_scores.py``).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from understudy.maths.random_order import draw_key, lowest
from understudy.maths.spread import Factored, RowVectors, kmeans_plus_plus, squared_distances

#: What strategies look at, one row per pool example, under the names that ``us.select`` takes.
Arrays = Mapping[str, Tensor]

#: A number and a phrase for each pick: what the strategy saw in the row.
Reasons = tuple[list[float], list[str]]


class ScoredRows(Protocol):
    """The arrays of every row of a pool, in one part or in several."""

    @property
    def parts(self) -> Sequence[slice]: ...

    @property
    def same_features(self) -> bool:
        """Whether "hidden" and "hidden_ema" are the same on every row."""
        ...

    def take(self, index: Tensor) -> Arrays:
        """Those of some rows, in the given order."""
        ...

    def map(self, function: Callable[[Arrays], Tensor]) -> Iterator[tuple[slice, Tensor]]:
        """The function of every part's arrays, one number per row, in the order of the parts."""
        ...

    def vectors(self, function: Callable[[Arrays], Factored]) -> RowVectors:
        """The vectors that the function makes of the arrays."""
        ...


@dataclass(frozen=True)
class ArrayRows:
    """All rows in memory."""

    arrays: Arrays
    size: int

    @property
    def parts(self) -> list[slice]:
        return [slice(0, self.size)]

    @property
    def same_features(self) -> bool:
        return torch.equal(self.arrays["hidden"], self.arrays["hidden_ema"])

    def take(self, index: Tensor) -> Arrays:
        return {name: values[index] for name, values in self.arrays.items()}

    def map(self, function: Callable[[Arrays], Tensor]) -> Iterator[tuple[slice, Tensor]]:
        yield self.parts[0], function(self.arrays)

    def vectors(self, function: Callable[[Arrays], Factored]) -> Factored:
        return function(self.arrays)


class Strategy(ABC):
    #: Which arrays must be there: "probs", "hidden", "probs_ema", "hidden_ema".
    needs: tuple[str, ...] = ()

    @abstractmethod
    def pick(self, n: int, rows: ScoredRows, *, available: Tensor, generator: torch.Generator) -> Tensor:
        """n distinct row numbers, in the order picked; only rows that are ``available``, (N,) bool."""

    def inclusion(self, n: int, rows: ScoredRows, *, available: Tensor) -> Tensor | None:
        """The probability with which each row is picked, (N,) float64; None where it is not known."""
        return None

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
    def score(self, arrays: Arrays) -> Tensor:
        """One number per row; the smallest is picked first."""

    def pick(self, n: int, rows: ScoredRows, *, available: Tensor, generator: torch.Generator) -> Tensor:
        return lowest(rows.map(self.score), n, available=available, key=draw_key(generator))


class Spread(Strategy):
    """k-means++ on one vector per row; the first pick has the longest."""

    #: What the vectors are, in a word or two.
    vector: str

    @abstractmethod
    def vectors(self, arrays: Arrays) -> Factored: ...

    def notes(self, arrays: Arrays) -> list[str]:
        """What else to say of each row."""
        return [""] * len(arrays["hidden"])

    def pick(self, n: int, rows: ScoredRows, *, available: Tensor, generator: torch.Generator) -> Tensor:
        return kmeans_plus_plus(rows.vectors(self.vectors), n, available=available, generator=generator)

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


def to_earlier(rows: Factored) -> Tensor:
    """Distance to the nearest row before it; infinite for the first."""
    mutual = squared_distances(rows, rows)
    later = torch.ones_like(mutual, dtype=torch.bool).triu()
    return mutual.masked_fill(later, torch.inf).amin(1).clamp_min(0).sqrt()
