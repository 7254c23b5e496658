"""Two classes of MNIST, one of them rare: methods × imbalance ratios (Ren et al. 2018, 4.1). Values are test errors.

All methods have the same ``rows``: ten, five of each class, are split off to steer ``l2rw``, which trains on the
rest; the others train on all of them, and "Clean only" on the ten alone. The test rows are balanced.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch

import understudy as us
from experiments.datasets import LOADERS, load
from experiments.sweep import Cell, Training, facts_of, known, net
from understudy.data.noise import imbalance

OURS, GOLD_ONLY = "Learning to reweight", "Clean only"
METHODS: dict[str, Callable[[], us.Objective]] = {
    OURS: us.l2rw,
    "Baseline": us.vanilla,
    "Proportion": us.proportion,
    "Resample": us.resample,
    "Hard mining": us.hard_mining,
    "Random": us.random_weights,
    GOLD_ONLY: us.vanilla,
}


class Dealt(NamedTuple):
    gold: us.Gold
    rest: us.Pool
    """Without the gold rows."""
    everything: us.Pool
    test: us.Gold


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
    mild: tuple[str, ...] | None = None
    """The methods at every ratio but the largest; None: all."""
    side: int | None = None
    seeds: int = 3

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(f"{ratio}:1" for ratio in self.ratios)

    def measure(self, column: str, seed: int) -> list[Cell]:
        ratio = self.ratios[self.columns.index(column)]
        dealt = self.deal(ratio, seed)
        methods = self.methods if ratio == max(self.ratios) or self.mild is None else self.mild
        cells = []
        for method in methods:
            run = self._train(method, dealt, seed)
            error = 1 - us.evaluate(run.student, dealt.test)["accuracy"]
            cells.append(Cell(method, column, seed, error, facts=facts_of(run)))
        return cells

    def _train(self, method: str, dealt: Dealt, seed: int) -> us.Run:
        build = net(self.student, tuple(dealt.gold.x.shape[1:]), 2)
        objective, options = METHODS[method](), self.training.options(self.rows) | {"seed": seed}
        if method == GOLD_ONLY:
            # As many steps as the others take.
            steps = options["epochs"] * -(-self.rows // self.training.batch_size)
            return us.train(build, dealt.gold, None, objective, **options | {"epochs": steps})
        if method == OURS:
            return us.train(build, dealt.gold, dealt.rest, objective, **options)
        return us.train(build, None, dealt.everything, objective, **options)

    def deal(self, ratio: int, seed: int) -> Dealt:
        data = load(self.data, side=self.side)
        kept, kept_test = ((labels == self.rare) | (labels == self.common) for labels in (data.y, data.y_test))
        x, y = data.x[kept], (data.y[kept] == self.common).long()
        drawn = imbalance(y, ratio, rare=[0], total=self.rows, seed=seed)
        drawn = drawn[torch.randperm(len(drawn), generator=torch.Generator().manual_seed(seed))]
        x, y = x[drawn], y[drawn]
        clean = torch.cat([(y == label).nonzero().squeeze(1)[: self.gold // 2] for label in (0, 1)])
        left = torch.ones(len(y), dtype=torch.bool)
        left[clean] = False
        return Dealt(
            gold=us.Gold(x[clean], y[clean]),
            rest=us.Pool(x[left], us.Hard(y[left], classes=2)),
            everything=us.Pool(x, us.Hard(y, classes=2)),
            test=us.Gold(data.x_test[kept_test], (data.y_test[kept_test] == self.common).long()),
        )

    def check(self) -> None:
        known(LOADERS, self.data)
        known(METHODS, *self.methods)
        known(self.methods, *(self.mild or ()))
