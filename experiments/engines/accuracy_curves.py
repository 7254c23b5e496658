"""How well the teacher's accuracy α(x) is learnt from a few rows: isotonic steps against nearest neighbours.

SLaM, Figure 1. The paper shows one pair of curves; here they are scored on rows that neither the teacher nor the
estimate has seen: the mean of (right − α)². Two estimates differ in it only by their squared distances from the true
accuracy. Lower is better. Both start from 0, not from SLaM's lower bound. "Constant" is the overall
accuracy of the same rows.

``MarginAccuracy`` is the observation behind both papers (Weighted Distillation, Figure 1, right): the teacher's
accuracy rises with its margin. Values are accuracies in the lowest, middle and highest third of the margins.
"""

from dataclasses import dataclass, replace

import torch

import understudy as us
from experiments.engines.distil import Dealt, Distillation, deal
from experiments.sweep import Cell
from understudy.maths.confidence import margin

ESTIMATORS = {"Isotonic regression": "isotonic", "Nearest neighbours": "knn"}


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
        dealt = deal(replace(self.base, validation=count), self.base.labelled[0], seed)
        assert dealt.gold.teacher is not None
        labels = dealt.gold.y[dealt.gold.teacher_rows]
        probs, right = unseen(dealt)
        known = dealt.gold.teacher.dense(torch.arange(len(labels)), probs.shape[1])
        overall = float((known.argmax(1) == labels).double().mean())
        cells = [Cell("Constant", column, seed, float((right - overall).square().mean()))]
        for name, estimator in ESTIMATORS.items():
            alpha = us.Reliability.fit(known, labels, lower_bound=0.0, estimator=estimator).alpha(probs)
            cells.append(Cell(name, column, seed, float((right - alpha.double()).square().mean())))
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
