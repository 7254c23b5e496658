"""Distillation with unlabelled rows: methods × sizes of the labelled set (or temperatures), in the papers' protocol.

Split the training rows into labelled rows A, a small validation set V and unlabelled rows U; train the teacher and
pretrain the student on A; let the teacher label U; train the student on A, V and U with each method, always from the
same start. V estimates how far the teacher can be trusted, and also trains (SLaM, 4.1; Weighted Distillation, Remark
2.1), for all methods alike. Where a method has a grid, the option is chosen on ``select`` further rows; the papers take
the best test accuracy, and the best test epoch, which is never done here.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

import understudy as us
from experiments.datasets import LOADERS, Data, load, rows
from experiments.sweep import Cell, Training, curve_of, known, net
from understudy.errors import UnderstudyError
from understudy.training.recipe import find_schedule


@dataclass(frozen=True)
class Method:
    label: str
    """Its row in the table."""
    kind: str
    """Its key in KINDS."""
    options: tuple[Any, ...] = (None,)


@dataclass(frozen=True)
class Dealt:
    """One seed's rows, its teacher's labels, and the student all methods start from."""

    gold: us.Gold
    pool: us.Pool
    select: us.Gold | None
    test: us.Gold
    truth: Tensor
    teacher: nn.Module
    start: nn.Module | Callable[[], nn.Module]
    teacher_accuracy: float

    @cached_property
    def features(self) -> Tensor:
        """What VID matches: the teacher's penultimate features, each with mean 0 and spread 1."""
        found = us.teacher_features(self.teacher, self.pool.rows)
        return (found - found.mean(0)) / found.std(0).clamp(min=1e-3)

    @cached_property
    def passes(self) -> us.Passes:
        """Ten looks at randomly cropped and resized images (SLaM, D.4)."""
        return us.stochastic_passes(self.teacher, self.pool.rows, passes=10, augment=us.augment.crop_resize)


Factory = Callable[[Dealt, Any, dict[str, Any]], us.Objective]
"""(dealt, option, what every method is told: hard, temperature) -> objective."""

KINDS: dict[str, Factory] = {
    "vanilla": lambda dealt, option, common: us.vanilla(**common),
    "oracle": lambda dealt, option, common: us.oracle(dealt.truth, **common),
    # One estimate of the weights, from margins (Weighted Distillation, 3.1).
    "weighted_margin": lambda dealt, option, common: us.weighted(confidence="margin", **common),
    # From entropies; the option is every how many epochs they are estimated anew (3.2).
    "weighted": lambda dealt, option, common: us.weighted(refresh_every=option, **common),
    "vid": lambda dealt, option, common: us.vid(dealt.features, option, **common),
    "weighted_vid": lambda dealt, option, common: us.weighted(
        confidence="margin", terms=(us.vid_term(dealt.features, option),), **common
    ),
    "fidelity": lambda dealt, option, common: us.fidelity(1.0, **common),
    "weighted_fidelity": lambda dealt, option, common: us.weighted(
        refresh_every=option, weight=us.fidelity_weight(1.0), **common
    ),
    "taylor": lambda dealt, option, common: us.taylor(option or 2, **common),
    "poly": lambda dealt, option, common: us.poly(option or 2.0, **common),
    "ups": lambda dealt, option, common: us.ups(std=dealt.passes.std, **common),
    "slam": lambda dealt, option, common: us.slam(option or 0.5, **common),
    "slam_k5": lambda dealt, option, common: us.slam(option or 0.5, k=min(5, _classes(dealt)), **common),
    "slam_taylor": lambda dealt, option, common: us.slam(loss=us.taylor_loss(2), **common),
    "slam_poly": lambda dealt, option, common: us.slam(loss=us.poly_loss(2.0), **common),
    "fidelity_passes": lambda dealt, option, common: us.fidelity(option, dealt.passes.variance, **common),
    "slam_fidelity": lambda dealt, option, common: us.slam(
        weight=us.fidelity_weight(option, dealt.passes.variance), **common
    ),
    # The option is a pair of temperatures, for the labelled and for the unlabelled rows (SLaM, D.5).
    "vanilla_temperature": lambda dealt, option, common: us.vanilla(**common | {"temperature": option}),
    "slam_temperature": lambda dealt, option, common: us.slam(**common | {"temperature": option}),
}


def _classes(dealt: Dealt) -> int:
    assert dealt.pool.teacher is not None and dealt.pool.teacher.classes is not None
    return dealt.pool.teacher.classes


@dataclass(frozen=True)
class Distillation:
    data: str
    teacher: str
    student: str
    labelled: tuple[int, ...]
    validation: int
    methods: tuple[Method, ...]
    training: Training
    teacher_training: Training
    pretraining: Training | None
    unlabelled: int | None = None
    """None: all that is left."""
    rows: int | None = None
    """Training rows that are dealt from at all, the first ones; None: all."""
    drawn: bool = False
    """Whether the labelled rows are drawn anew for each seed; the papers take the first ones."""
    hard: bool = False
    temperatures: tuple[float, ...] = ()
    """Columns instead of the label counts."""
    select: int = 0
    test_rows: int | None = None
    side: int | None = None
    tokenizer: str = ""
    """For text: a Hugging Face tokenizer, or "words:4000" for the commonest words of the training texts."""
    length: int = 0
    """Tokens of a text that are read."""
    seeds: int = 3

    @property
    def columns(self) -> tuple[str, ...]:
        if self.temperatures:
            return tuple(f"T = {value:g}" for value in self.temperatures)
        return tuple(f"{count:,}" for count in self.labelled)

    def load(self) -> Data:
        if self.data == "imdb":
            from experiments.engines.text import tokens

            return tokens(self.tokenizer, self.length, self.rows, self.test_rows)
        return load(self.data, side=self.side)

    def measure(self, column: str, seed: int) -> list[Cell]:
        place = self.columns.index(column)
        dealt = deal(self, self.labelled[0 if self.temperatures else place], seed)
        common = {"hard": self.hard, "temperature": self.temperatures[place] if self.temperatures else 1.0}
        cells = [Cell("Teacher", column, seed, dealt.teacher_accuracy)]
        for method in self.methods:
            runs = [self._train(KINDS[method.kind](dealt, option, common), dealt, seed) for option in method.options]
            best = runs[0] if len(runs) == 1 else max(runs, key=lambda run: run.history[-1]["select_accuracy"])
            curve = curve_of(best)
            cells.append(Cell(method.label, column, seed, curve[-1], curve))
        return cells

    def _train(self, objective: us.Objective, dealt: Dealt, seed: int) -> us.Run:
        options = self.training.options(len(dealt.gold) + len(dealt.pool))
        return us.train(
            dealt.start, dealt.gold, dealt.pool, objective, seed=seed, select=dealt.select, test=dealt.test, **options
        )

    def check(self) -> None:
        known([*LOADERS, "imdb"], self.data)
        for method in self.methods:
            known(KINDS, method.kind)
            if len(method.options) > 1 and not self.select:
                raise UnderstudyError(f"{method.label} has a grid, but select=0 leaves no rows to choose on")
        find_schedule(self.training.schedule)


def deal(setting: Distillation, labelled: int, seed: int) -> Dealt:
    data = setting.load()
    order = torch.randperm(setting.rows or len(data.y), generator=torch.Generator().manual_seed(seed))
    if not setting.drawn:
        order = torch.cat([torch.arange(labelled), order[order >= labelled]])
    sizes = [labelled, setting.validation, setting.select]
    pooled = setting.unlabelled or len(order) - sum(sizes)
    if sum(sizes) + pooled > len(order):
        raise UnderstudyError(f"{setting.data} has {len(order)} rows, the setting asks for {sum(sizes) + pooled}")
    own, validation, select, unlabelled = order[: sum(sizes) + pooled].split([*sizes, pooled])
    teacher_net, student_net = (net(text, data.shape, data.classes) for text in (setting.teacher, setting.student))
    own_gold = us.Gold(rows(data.x, own), data.y[own])
    teacher = _fit(teacher_net, own_gold, setting.teacher_training, seed)
    x_validation, x_pool = rows(data.x, validation), rows(data.x, unlabelled)
    tested = torch.arange(setting.test_rows or len(data.y_test))
    test = us.Gold(rows(data.x_test, tested), data.y_test[tested])
    return Dealt(
        gold=own_gold + us.Gold(x_validation, data.y[validation], teacher=us.teach(teacher, x_validation)),
        pool=us.Pool(x_pool, us.teach(teacher, x_pool)),
        select=us.Gold(rows(data.x, select), data.y[select]) if setting.select else None,
        test=test,
        truth=data.y[unlabelled],
        teacher=teacher,
        start=_fit(student_net, own_gold, setting.pretraining, seed) if setting.pretraining else student_net,
        teacher_accuracy=us.evaluate(teacher, test)["accuracy"],
    )


def _fit(build: Callable[[], nn.Module], gold: us.Gold, training: Training, seed: int) -> nn.Module:
    return us.train(build, gold, None, us.vanilla(), seed=seed, **training.options(len(gold))).student
