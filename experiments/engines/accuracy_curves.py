"""How well the teacher's accuracy α(x) is learnt from a few rows: isotonic steps against nearest neighbours.

SLaM, Figure 1. The paper shows one pair of curves; here they are scored on rows that neither the teacher nor the
estimate has seen: the mean of (right − α)². Two estimates differ in it only by their squared distances from the true
accuracy. "Change" is how stable a curve is: the mean of |α − α′| for estimates from two sets of rows. Lower is better
in both. Curves start from 0, not from SLaM's lower bound; how many neighbours are averaged is chosen by leaving one
out. "Constant" is the overall accuracy of the same rows.

``MarginAccuracy`` is the observation behind both papers (Weighted Distillation, Figure 1, right): the teacher's
accuracy rises with its margin. Values are accuracies in the lowest, middle and highest third of the margins.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

import understudy as us
from experiments.engines.distil import Dealt, Distillation, deal
from experiments.sweep import Cell
from understudy.maths.confidence import margin
from understudy.maths.weights import neighbour_means

Estimator = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(the teacher's probabilities of rows, their labels, its probabilities of other rows) -> α of these, (N,)."""


def constant(known: Tensor, labels: Tensor, queried: Tensor) -> Tensor:
    return (known.argmax(1) == labels).double().mean().expand(len(queried))


def isotonic(known: Tensor, labels: Tensor, queried: Tensor) -> Tensor:
    return us.Reliability.fit(known, labels, lower_bound=0.0).alpha(queried).double()


def neighbours(known: Tensor, labels: Tensor, queried: Tensor) -> Tensor:
    points, right = margin(known).double(), (known.argmax(1) == labels).double()
    queries, at = margin(queried).double()[:, None].numpy(), points[:, None].numpy()
    return torch.from_numpy(neighbour_means(queries, at, right[:, None].numpy(), best_k(points, right)))[:, 0]


def best_k(points: Tensor, right: Tensor) -> int:
    """Of 1, 2, 4, … neighbours on a line, the number with the least squared error where each row is left out once."""
    distances = (points[:, None] - points).abs().fill_diagonal_(torch.inf)
    nearest = right[distances.argsort(dim=1, stable=True)[:, :-1]]
    counts = [2**power for power in range(len(points).bit_length() - 1)]
    return min(counts, key=lambda k: float((nearest[:, :k].mean(1) - right).square().mean()))


ESTIMATORS: dict[str, Estimator] = {
    "Constant": constant,
    "Isotonic regression": isotonic,
    "Nearest neighbours": neighbours,
}


@dataclass(frozen=True)
class AccuracyCurves:
    base: Distillation
    validation: tuple[int, ...]
    seeds: int = 3

    @property
    def data(self) -> str:
        return self.base.data

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(f"{count} rows" for count in self.validation)

    def measure(self, column: str, seed: int) -> list[Cell]:
        count = self.validation[self.columns.index(column)]
        dealt = deal(replace(self.base, validation=2 * count), self.base.labelled[0], seed)
        assert dealt.gold.teacher is not None
        probs, right = unseen(dealt)
        labels = dealt.gold.y[dealt.gold.teacher_rows].split(count)
        known = dealt.gold.teacher.dense(torch.arange(2 * count), probs.shape[1]).split(count)
        cells = []
        for name, estimate in ESTIMATORS.items():
            first, second = (estimate(given_labels, y, probs) for given_labels, y in zip(known, labels, strict=True))
            error = sum(float((right - alpha).square().mean()) for alpha in (first, second)) / 2
            cells.append(Cell(name, column, seed, error))
            cells.append(Cell(f"{name}: change", column, seed, float((first - second).abs().mean())))
        return cells

    def check(self) -> None:
        self.base.check()


@dataclass(frozen=True)
class MarginAccuracy:
    base: Distillation
    seeds: int = 3

    @property
    def data(self) -> str:
        return self.base.data

    @property
    def columns(self) -> tuple[str, ...]:
        return self.base.columns

    def measure(self, column: str, seed: int) -> list[Cell]:
        dealt = deal(self.base, self.base.labelled[self.columns.index(column)], seed)
        probs, right = unseen(dealt)
        thirds = right[margin(probs).argsort()].chunk(3)
        names = ("lowest margins", "middle margins", "highest margins")
        return [Cell(name, column, seed, float(part.mean())) for name, part in zip(names, thirds, strict=True)]

    def check(self) -> None:
        self.base.check()


def unseen(dealt: Dealt) -> tuple[torch.Tensor, torch.Tensor]:
    """What the teacher says of the pool, and where it is right."""
    assert dealt.pool.teacher is not None
    probs = dealt.pool.teacher.dense(torch.arange(len(dealt.truth)), int(dealt.pool.teacher.classes or 0))
    return probs, (probs.argmax(1) == dealt.truth).double()
