"""Training on the highest losses only, on clean and on heteroskedastic pools (the S-Badge paper, Appendix A).

Its theory of why confidence sampling fails speaks of *ordered SGD* (Kawaguchi & Lu, AISTATS 2020): every step counts
the q rows of its batch with the highest losses, and no others. Without corruption that may help; with it the rows of
highest loss are the noise. The paper proves a bound and measures nothing; here the two trainings meet the paper's own
pools. Values are test accuracies, and the share of noise among the rows that count once training is over.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

import understudy as us
from experiments.datasets import LOADERS, load
from experiments.engines.active import TITLES
from experiments.strategy_benchmark import KINDS, heteroskedastic
from experiments.sweep import Cell, Training, known, net
from understudy.data.splits import random_rows
from understudy.inference.passes import predict
from understudy.maths.weights import normalise
from understudy.objective import Objective, Step, TeacherTarget, Weight

PLAIN, ORDERED, NOISE = "every row", "top q", "noise among the rows that count"


def top(losses: Tensor, q: int) -> Tensor:
    """0/1: the q highest losses; ties: the earlier row."""
    kept = losses.argsort(descending=True, stable=True)[:q]
    return torch.zeros_like(losses).index_fill_(0, kept, 1.0)


@dataclass(frozen=True)
class TopQWeight(Weight):
    q: int
    name: str = "top_q"
    whole_batch = True

    def __call__(self, losses: Tensor, step: Step) -> Tensor:
        return normalise(top(losses, self.q))


def ordered(q: int) -> Objective:
    return Objective(name="top_q", target=TeacherTarget(), weight=TopQWeight(q))


@dataclass(frozen=True)
class OrderedSGD:
    data: str
    student: str
    q: int
    """Of a batch."""
    training: Training
    kinds: tuple[str, ...] = KINDS
    rows: int | None = None
    """Original rows of the pool."""
    noisy_share: float = 0.8
    test_rows: int | None = None
    side: int | None = None
    seeds: int = 3

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(TITLES[kind] for kind in self.kinds)

    def measure(self, column: str, seed: int) -> list[Cell]:
        data = load(self.data, side=self.side)
        # The benchmark's noise has colours.
        x, x_test = (part.expand(-1, 3, -1, -1) for part in (data.x, data.x_test))
        drawn, tested = (
            random_rows(len(data.y), self.rows or len(data.y), seed),
            torch.arange(self.test_rows or len(x_test)),
        )
        kind = self.kinds[self.columns.index(column)]
        noisy = heteroskedastic(
            kind, x[drawn], data.y[drawn], noisy_share=self.noisy_share, seed=seed, classes=data.classes
        )
        pool = us.Pool(noisy.x, us.Hard(noisy.y, classes=data.classes))
        build, options = net(self.student, tuple(x.shape[1:]), data.classes), self.training.options(len(pool))
        cells = []
        for row, objective in ((PLAIN, us.vanilla()), (ORDERED, ordered(self.q))):
            student = us.train(build, None, pool, objective, seed=seed, **options).student
            value = us.evaluate(student, us.Gold(x_test[tested], data.y_test[tested]))["accuracy"]
            cells.append(Cell(row, column, seed, value))
            if kind != "clean":
                on_label = predict(student, noisy.x).gather(1, noisy.y.unsqueeze(1)).squeeze(1)
                share = self.q / self.training.batch_size if row == ORDERED else 1.0
                counted = on_label.argsort()[: round(share * len(on_label))]
                cells.append(Cell(f"{row}: {NOISE}", column, seed, 1 - float(noisy.original[counted].double().mean())))
        return cells

    def check(self) -> None:
        known(LOADERS, self.data)
        known(TITLES, *self.kinds)
