"""Two classes of MNIST, one of them rare: methods × imbalance ratios (Ren et al. 2018, 4.1). Values are test errors.

The clean rows are balanced and taken out of the training rows; they only steer ``l2rw``. The test rows are balanced.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch

import understudy as us
from experiments.datasets import LOADERS, load
from experiments.sweep import Cell, Training, known, net
from understudy.data.noise import imbalance

METHODS: dict[str, Callable[[], us.Objective]] = {
    "Learning to reweight": us.l2rw,
    "Baseline": us.vanilla,
    "Proportion": us.proportion,
    "Resample": us.resample,
    "Hard mining": us.hard_mining,
    "Random": us.random_weights,
}


@dataclass(frozen=True)
class Imbalance:
    data: str
    student: str
    ratios: tuple[int, ...]
    training: Training
    rare: int = 4
    common: int = 9
    rows: int = 5_000
    gold: int = 10
    methods: tuple[str, ...] = tuple(METHODS)
    seeds: int = 3

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(f"{ratio}:1" for ratio in self.ratios)

    def measure(self, column: str, seed: int) -> list[Cell]:
        gold, pool, test = self.deal(self.ratios[self.columns.index(column)], seed)
        build = net(self.student, tuple(gold.x.shape[1:]), 2)
        cells = []
        for method in self.methods:
            steering = gold if method == "Learning to reweight" else None
            run = us.train(build, steering, pool, METHODS[method](), seed=seed, **self.training.options(len(pool)))
            cells.append(Cell(method, column, seed, 1 - us.evaluate(run.student, test)["accuracy"]))
        return cells

    def deal(self, ratio: int, seed: int) -> tuple[us.Gold, us.Pool, us.Gold]:
        data = load(self.data)
        kept, kept_test = ((labels == self.rare) | (labels == self.common) for labels in (data.y, data.y_test))
        order = torch.randperm(int(kept.sum()), generator=torch.Generator().manual_seed(seed))
        x, y = data.x[kept][order], (data.y[kept] == self.common).long()[order]
        clean = torch.cat([(y == label).nonzero().squeeze(1)[: self.gold // 2] for label in (0, 1)])
        left = torch.ones(len(y), dtype=torch.bool)
        left[clean] = False
        gold = us.Gold(x[clean], y[clean])
        x, y = x[left], y[left]
        drawn = imbalance(y, ratio, rare=[0], total=self.rows, seed=seed)
        test = us.Gold(data.x_test[kept_test], (data.y_test[kept_test] == self.common).long())
        return gold, us.Pool(x[drawn], us.Hard(y[drawn], classes=2)), test

    def check(self) -> None:
        known(LOADERS, self.data)
        known(METHODS, *self.methods)
