"""Selection strategies on pools that are mostly noise: strategies × kinds of noise (the S-Badge paper's benchmark).

Two rows per strategy: test accuracy after the last round, and "clean picks", the share of selected rows (the random
start not counted) that are original data. The curve is the accuracy after each round.
"""

import tempfile
from dataclasses import dataclass
from pathlib import Path

import torch

from experiments.datasets import LOADERS, load
from experiments.strategy_benchmark import KINDS, benchmark
from experiments.sweep import Cell, known, net
from understudy.acquisition.strategies import STRATEGIES

TITLES = {
    "clean": "Clean",
    "noisy_blank": "Noisy-Blank",
    "noisy_diverse": "Noisy-Diverse",
    "noisy_class": "Noisy-Class",
}


@dataclass(frozen=True)
class Active:
    data: str
    student: str
    strategies: tuple[str, ...]
    start: int
    batch: int
    budget: int
    epochs: int
    kinds: tuple[str, ...] = KINDS
    rows: int | None = None
    """Original rows of the pool."""
    noisy_share: float = 0.8
    batch_size: int = 64
    lr: float = 1e-3
    until_accuracy: float | None = None
    """A round's training ends once that share of its own labels is predicted; ``epochs`` at the latest."""
    ema_warmup: bool = True
    """Whether S-Badge's moving average starts as a plain mean; False: Equation 1 as printed."""
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
        tested = torch.arange(self.test_rows or len(data.y_test))
        kind = self.kinds[self.columns.index(column)]
        with tempfile.TemporaryDirectory() as folder:
            found = benchmark(
                net(self.student, tuple(x.shape[1:]), data.classes), x, data.y,
                test=(x_test[tested], data.y_test[tested]),
                out=Path(folder) / "cells", kinds=[kind], strategies=self.strategies, seeds=[seed], rows=self.rows,
                noisy_share=self.noisy_share, start=self.start, batch=self.batch, budget=self.budget,
                epochs=self.epochs, batch_size=self.batch_size, lr=self.lr,
                until_accuracy=self.until_accuracy, ema_warmup=self.ema_warmup,
            )  # fmt: skip
        cells = []
        for cell in found.cells:
            curve = tuple(cell.accuracy)
            cells.append(Cell(cell.strategy, column, seed, curve[-1], curve))
            if kind != "clean":
                cells.append(Cell(f"{cell.strategy}, clean picks", column, seed, cell.clean_share))
        return cells

    def check(self) -> None:
        known(LOADERS, self.data)
        known(STRATEGIES, *self.strategies)
        known(TITLES, *self.kinds)
