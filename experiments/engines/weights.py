"""Which rows learning to reweight gives weight to: Ren et al. (2018), Figure 3.

A net is trained on background-flipped labels for half of its steps; then the weights of rows it has never seen, flipped
the same way, are computed batch by batch against the clean rows. "One class" takes batches of a single true class, for
every class but the background one, so that only the given label tells clean rows from flipped ones. Values are the
shares of the clean and of the flipped rows that have a weight above 0; both come from one training. What plain
training, of its whole length, repeats of its given labels is measured beside.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

import understudy as us
from experiments.datasets import load, rows
from experiments.engines.noisy import EXTRAS, NoisyLabels
from experiments.needs import REPEATED
from experiments.sweep import Cell, Training, net
from understudy.data.noise import background_flip

MIXED, ONE_CLASS = "mixed batch", "one class"


@dataclass(frozen=True)
class ExampleWeights:
    data: str
    student: str
    noise: float
    gold: int
    """Clean rows per class."""
    training: Training
    batch: int = 100
    batches: int = 10
    plain: int = 2
    """How many times as long plain training takes, of which the memorised share is measured."""
    rows: int | None = None
    watched: int = 5_000
    backgrounds: tuple[int, ...] = (0,)
    side: int | None = None
    seeds: int = 3

    @property
    def columns(self) -> tuple[str, ...]:
        return ("unseen rows",)

    def measure(self, column: str, seed: int) -> list[Cell]:
        flipped = self._noisy().deal(0, seed)
        assert flipped.gold is not None and flipped.watched is not None
        data = load(self.data, side=self.side)
        build = net(self.student, data.shape, data.classes)
        options = self.training.options(len(flipped.pool))
        student = us.train(build, flipped.gold, flipped.pool, us.l2rw(gold_rows=100), seed=seed, **options).student
        x, given, truth = self._held_out(seed)
        options |= {"epochs": self.plain * options["epochs"]}
        plain = us.train(build, None, flipped.pool, us.vanilla(), seed=seed, **options).student
        cells = [Cell(f"Baseline: {REPEATED}", column, seed, EXTRAS[REPEATED](plain, flipped))]
        for kind, batches in self._batches(truth, flipped.background).items():
            weighed = torch.cat(
                [us.alignment(student, x[rows], given[rows], flipped.gold.x, flipped.gold.y) > 0 for rows in batches]
            ).double()
            wrong = torch.cat([given[rows] != truth[rows] for rows in batches])
            cells.append(Cell(f"clean rows with a weight, {kind}", column, seed, float(weighed[~wrong].mean())))
            cells.append(Cell(f"flipped rows with a weight, {kind}", column, seed, float(weighed[wrong].mean())))
        return cells

    def _noisy(self) -> NoisyLabels:
        return NoisyLabels(
            self.data, self.student, "background", (self.noise,), ("Learning to reweight",), self.training,
            gold=(self.gold,), rows=self.rows, watched=self.watched, backgrounds=self.backgrounds, side=self.side,
        )  # fmt: skip

    def _held_out(self, seed: int) -> tuple[Any, Tensor, Tensor]:
        """The held-out rows with their given labels and the truth."""
        data = load(self.data, side=self.side)
        order = torch.randperm(len(data.y_test), generator=torch.Generator().manual_seed(seed))[: self.watched]
        truth = data.y_test[order]
        background = self.backgrounds[seed % len(self.backgrounds)]
        given, _ = background_flip(truth, self.noise, background, data.classes, seed=seed)
        return rows(data.x_test, order), given, truth

    def _batches(self, truth: Tensor, background: int) -> dict[str, list[Tensor]]:
        classes = [label for label in truth.unique().tolist() if label != background]
        return {
            MIXED: list(torch.arange(len(truth)).split(self.batch))[: self.batches],
            ONE_CLASS: [(truth == label).nonzero().squeeze(1)[: self.batch] for label in classes],
        }

    def check(self) -> None:
        self._noisy().check()
