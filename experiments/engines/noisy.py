"""Training on flipped labels: methods × noise levels (or sizes of the clean set), as in the papers on noisy labels.

The noisy rows are the pool, a few clean rows per class are gold: they steer ``l2rw``, estimate confusions, fine-tune
(+FT) and are all that "Clean only" sees; otherwise they do not train. +ES is the epoch that ``watched`` held-out
*noisy* rows choose, as in Ren et al. (2018), 4.2. Reported is the last epoch, after fine-tuning where there is some.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

import understudy as us
from experiments.datasets import LOADERS, load, rows
from experiments.sweep import Cell, Training, curve_of, known, net
from understudy.data.noise import background_flip, symmetric, uniform_flip
from understudy.inference.passes import predict
from understudy.training.recipe import find_schedule


@dataclass(frozen=True)
class Flipped:
    """One seed's rows."""

    gold: us.Gold | None
    pool: us.Pool
    watched: us.Gold | None
    test: us.Gold
    truth: Tensor
    noise: float
    strength: float
    background: int
    classes: int

    @property
    def said(self) -> Tensor:
        assert self.pool.teacher is not None
        return self.pool.teacher.top1()

    @property
    def clean_share(self) -> Tensor:
        """Of each given class, the share of rows that are truly of it: what the paper's WEIGHTED is told."""
        right = torch.bincount(self.said[self.said == self.truth], minlength=self.classes)
        return right / torch.bincount(self.said, minlength=self.classes).clamp(min=1)

    @property
    def transition(self) -> Tensor:
        """P(given class | true class), as the rows have it."""
        counts = torch.zeros(self.classes, self.classes).index_put_(
            (self.truth, self.said), torch.ones(len(self.truth)), accumulate=True
        )
        return counts / counts.sum(1, keepdim=True).clamp(min=1)


METHODS: dict[str, Callable[[Flipped], us.Objective]] = {
    "Baseline": lambda data: us.vanilla(),
    "Reed hard": lambda data: us.bootstrap(),
    "Reed soft": lambda data: us.bootstrap(target="soft"),
    "S-Model": lambda data: us.s_model(),
    "S-Model +Conf": lambda data: us.s_model("confusion"),
    "Forward": lambda data: us.forward(data.transition),
    "Random": lambda data: us.random_weights(),
    "Weighted": lambda data: us.class_ratio(data.clean_share),
    "Learning to reweight": lambda data: us.l2rw(gold_rows=100),
    "Self-distillation": lambda data: us.self_distillation(data.strength),
    "Co-teaching": lambda data: us.co_teaching(data.noise, gradual_epochs=10),
    "GCE": lambda data: us.gce(),
    "Clean only": lambda data: us.vanilla(),
}


def plain(method: str) -> str:
    return method.removesuffix(" +FT").removesuffix(" +ES")


@dataclass(frozen=True)
class NoisyLabels:
    data: str
    student: str
    flip: str
    """uniform, background (to one class) or symmetric (redrawn from all classes)."""
    noise: tuple[float, ...]
    methods: tuple[str, ...]
    training: Training
    gold: tuple[int, ...] = (0,)
    """Clean rows per class; several are columns instead of the noise levels."""
    rows: int | None = None
    """Noisy rows that train; None: all that are left."""
    watched: int = 0
    finetune: int = 0
    """Steps of fine-tuning on gold."""
    strengths: tuple[float, ...] = (1.0,)
    """λ of self-distillation: one for all noise levels, or one each."""
    backgrounds: tuple[int, ...] = (0,)
    """The class that labels flip to, seed by seed."""
    confusion: bool = False
    """Whether to add, per method, the share of wrong test answers that took the background class or any wrong one."""
    test_rows: int | None = None
    side: int | None = None
    seeds: int = 3

    @property
    def columns(self) -> tuple[str, ...]:
        if len(self.gold) > 1:
            return tuple(f"{count} clean per class" for count in self.gold)
        return tuple(f"{level:.0%}" for level in self.noise)

    def measure(self, column: str, seed: int) -> list[Cell]:
        flipped = self.deal(self.columns.index(column), seed)
        cells = []
        for method in self.methods:
            run = self._train(method, flipped, seed)
            found = run.metrics()
            last = found["selected" if method.endswith("+ES") else "last"]["accuracy"]
            value = found["finetuned"]["accuracy"] if method.endswith("+FT") else last
            # An epoch of a few clean rows is over before the test rows are read: "Clean only" is tested once.
            curve = () if method == "Clean only" else curve_of(run)
            cells.append(Cell(method, column, seed, value, curve))
            if self.confusion:
                share = taken_for(predict(run.student, flipped.test.rows).argmax(1), flipped.test.y, flipped.background)
                cells.append(Cell(f"{method}: others taken for the background", column, seed, share))
        return cells

    def deal(self, place: int, seed: int) -> Flipped:
        data = load(self.data, side=self.side)
        per_class = self.gold[place if len(self.gold) > 1 else 0]
        level = self.noise[0 if len(self.gold) > 1 else place]
        order = torch.randperm(len(data.y), generator=torch.Generator().manual_seed(seed))
        clean = torch.cat([order[data.y[order] == label][:per_class] for label in range(data.classes)])
        left = torch.ones(len(order), dtype=torch.bool)
        left[clean] = False
        rest = order[left[order]]
        watched, pooled = rest[: self.watched], rest[self.watched :][: self.rows]
        background = self.backgrounds[seed % len(self.backgrounds)]
        given, _ = self._flip(data.y, level, background, data.classes, seed)
        said = us.Hard(given, classes=data.classes)
        tested = torch.arange(self.test_rows or len(data.y_test))
        return Flipped(
            gold=us.Gold(rows(data.x, clean), data.y[clean], said.take(clean)) if per_class else None,
            pool=us.Pool(rows(data.x, pooled), said.take(pooled)),
            watched=us.Gold(rows(data.x, watched), given[watched]) if self.watched else None,
            test=us.Gold(rows(data.x_test, tested), data.y_test[tested]),
            truth=data.y[pooled],
            noise=level,
            strength=self.strengths[place % len(self.strengths)],
            background=background,
            classes=data.classes,
        )

    def _flip(self, y: Tensor, level: float, background: int, classes: int, seed: int) -> tuple[Tensor, Tensor]:
        if self.flip == "background":
            return background_flip(y, level, background, classes, seed=seed)
        return {"uniform": uniform_flip, "symmetric": symmetric}[self.flip](y, level, classes, seed=seed)

    def _train(self, method: str, flipped: Flipped, seed: int) -> us.Run:
        data = load(self.data, side=self.side)
        build = net(self.student, data.shape, data.classes)
        options = self.training.options(len(flipped.pool)) | {"seed": seed, "test": flipped.test}
        if method == "Clean only":
            assert flipped.gold is not None
            # As many steps as the others take, on the few rows there are.
            steps = options["epochs"] * -(-len(flipped.pool) // self.training.batch_size)
            rounds = max(1, steps * self.training.batch_size // len(flipped.gold))
            run = us.train(build, flipped.gold, None, us.vanilla(), **options | {"epochs": rounds, "test": None})
            run.history[-1] |= {f"test_{name}": value for name, value in us.evaluate(run.student, flipped.test).items()}
            return run
        if "+ES" in method:
            # Patience beyond the end: nothing stops, but fine-tuning starts from the epoch that was chosen.
            options |= {"select": flipped.watched, "patience": options["epochs"]}
        if "+FT" in method:
            assert flipped.gold is not None
            options["finetune_epochs"] = max(1, self.finetune * self.training.batch_size // len(flipped.gold))
        return us.train(build, flipped.gold, flipped.pool, METHODS[plain(method)](flipped), gold_repeat=0, **options)

    def check(self) -> None:
        known(LOADERS, self.data)
        known(METHODS, *(plain(method) for method in self.methods))
        find_schedule(self.training.schedule)


def taken_for(predicted: Tensor, truth: Tensor, background: int) -> float:
    """Of the test rows of other classes, the share that was called the background class."""
    others = truth != background
    return float((predicted[others] == background).double().mean())
