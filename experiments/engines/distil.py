"""Distillation with unlabelled rows: methods × sizes of the labelled set (or temperatures), in the papers' protocol.

Split the training rows into labelled rows A, a small validation set V and unlabelled rows U; train the teacher and
pretrain the student on A, from different seeds; let the teacher label U; train the student on A and U with each method,
always from the same start. V estimates how far the teacher can be trusted. It also trains, for all methods alike, where
a paper has it so (SLaM, 4.1; Weighted Distillation, C.3); with ``estimate_only`` it does not (Weighted Distillation,
3.1). "Gold only" is the same student, trained as many steps on its trusted rows alone. Where a method has a grid, the
option is chosen on ``select`` further rows; the papers take the best test accuracy of both options and epochs, which is
never done here.
"""

from collections.abc import Container
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import nn

import understudy as us
from experiments.datasets import LOADERS, Data, load, rows
from experiments.engines.distil_methods import FROM_SCRATCH, KINDS, Dealt, Method
from experiments.kept import kept
from experiments.sweep import Cell, Training, curve_of, facts_of, known, net
from understudy.errors import UnderstudyError
from understudy.training.options import find_schedule

__all__ = ["Dealt", "Distillation", "Method", "deal"]

# Teacher and student differ in their first weights and in the order of their batches, as two nets in use do.
TEACHER_SEED = 1_000


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
    estimate_only: bool = False
    """Whether the validation rows estimate and never train."""
    rows: int | None = None
    """Training rows that are dealt from at all, the first ones; None: all."""
    drawn: bool = False
    """Whether the labelled rows are drawn anew for each seed; the papers take the first ones."""
    hard: bool = False
    temperatures: tuple[float, ...] = ()
    """Columns instead of the label counts."""
    select: int = 0
    passes: int = 10
    """Looks of the teacher at augmented images, for UPS and for fidelity weights of passes."""
    test_rows: int | None = None
    curve_rows: int | None = None
    """Test rows that are also looked at after every epoch; None: all of them, 0: none, which saves their time."""
    side: int | None = None
    tokenizer: str = ""
    """For text: a Hugging Face tokenizer."""
    length: int = 0
    """Tokens of a text that are read."""
    seeds: int = 3

    @property
    def columns(self) -> tuple[str, ...]:
        if self.temperatures:
            return tuple(f"T = {value:g}" for value in self.temperatures)
        return tuple(f"{count:,}" for count in self.labelled)

    @property
    def rows_of(self) -> tuple[Any, ...]:
        """What the rows are, whatever they are dealt to."""
        return self.data, self.side, self.tokenizer, self.length, self.rows, self.drawn

    def build_student(self) -> nn.Module:
        data = self.load()
        return net(self.student, data.shape, data.classes)()

    def load(self) -> Data:
        if self.data == "imdb":
            from experiments.engines.text import tokens

            return tokens(self.tokenizer, self.length, self.rows, self.test_rows)
        return load(self.data, side=self.side)

    def measure(self, column: str, seed: int, known: Container[str] = ()) -> list[Cell]:
        """``known``: rows that need not be measured."""
        place = self.columns.index(column)
        dealt = deal(self, self.labelled[0 if self.temperatures else place], seed)
        common = {"hard": self.hard, "temperature": self.temperatures[place] if self.temperatures else 1.0}
        cells = []
        if "Gold only" not in known:
            cells.append(Cell("Teacher", column, seed, _accuracy(dealt.teacher, dealt.test)))
            cells.append(Cell("Gold only", column, seed, _accuracy(self.on_gold_alone(dealt, seed), dealt.test)))
        for method in self.methods:
            if method.label in known:
                continue
            given = common | dict(method.fixed)
            own = replace(dealt, start=self.build_student) if method.kind in FROM_SCRATCH else dealt
            runs = [self.train(KINDS[method.kind](dealt, option, given), own, seed) for option in method.options]
            best = runs[0] if len(runs) == 1 else max(runs, key=lambda run: _accuracy(run.student, dealt.select))
            value = _accuracy(best.student, dealt.test)
            cells.append(Cell(method.label, column, seed, value, curve_of(best), facts=facts_of(best)))
        return cells

    def train(self, objective: us.Objective, dealt: Dealt, seed: int) -> us.Run:
        options = self.training.options(_training_rows(dealt.gold) + len(dealt.pool))
        return us.train(dealt.start, dealt.gold, dealt.pool, objective, seed=seed, test=dealt.followed, **options)

    def on_gold_alone(self, dealt: Dealt, seed: int) -> nn.Module:
        """As many steps as a distillation has."""
        gold, of_both = _training_rows(dealt.gold), _training_rows(dealt.gold) + len(dealt.pool)
        steps = self.training.epochs_for(of_both) * -(-of_both // self.training.batch_size)
        alone = replace(self.training, epochs=0, steps=steps)

        def train() -> nn.Module:
            return us.train(dealt.start, dealt.gold, None, us.vanilla(), seed=seed, **alone.options(gold)).student

        pretraining = asdict(self.pretraining) if self.pretraining else None
        rows_of = (len(dealt.gold), self.validation, self.estimate_only, *self.rows_of)
        return kept(self.build_student, train, self.student, asdict(alone), pretraining, seed, *rows_of)

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
    own_gold = us.Gold(rows(data.x, own), data.y[own])

    def fitted(text: str, training: Training, seed: int) -> nn.Module:
        build = net(text, data.shape, data.classes)

        def train() -> nn.Module:
            return us.train(build, own_gold, None, us.vanilla(), seed=seed, **training.options(len(own_gold))).student

        return kept(build, train, text, asdict(training), seed, labelled, *setting.rows_of)

    teacher = fitted(setting.teacher, setting.teacher_training, seed + TEACHER_SEED)
    x_validation, x_pool = rows(data.x, validation), rows(data.x, unlabelled)
    estimating = us.Gold(
        x_validation, data.y[validation], us.teach(teacher, x_validation), estimate_only=setting.estimate_only
    )
    tested = torch.arange(setting.test_rows or len(data.y_test))
    followed = tested if setting.curve_rows is None else tested[: setting.curve_rows]
    return Dealt(
        gold=own_gold + estimating,
        pool=us.Pool(x_pool, us.teach(teacher, x_pool)),
        select=us.Gold(rows(data.x, select), data.y[select]) if setting.select else None,
        test=us.Gold(rows(data.x_test, tested), data.y_test[tested]),
        followed=us.Gold(rows(data.x_test, followed), data.y_test[followed]) if len(followed) else None,
        truth=data.y[unlabelled],
        teacher=teacher,
        start=fitted(setting.student, setting.pretraining, seed) if setting.pretraining else setting.build_student,
        looks=setting.passes,
    )


def _training_rows(gold: us.Gold) -> int:
    return len(gold.training_rows())


def _accuracy(net: nn.Module, rows: us.Gold | None) -> float:
    assert rows is not None
    return round(us.evaluate(net, rows)["accuracy"], 5)
