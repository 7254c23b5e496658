"""Training on flipped labels: methods × noise levels (or sizes of the clean set), as in the papers on noisy labels.

The noisy rows are the pool, a few clean rows per class are gold: they steer ``l2rw``, fine-tune (+FT) and are all that
"Clean only" sees; otherwise they do not train. +ES is the epoch that ``watched`` held-out *noisy* rows choose, as in
Ren et al. (2018), 4.2. Reported is the last epoch, after fine-tuning where there is some.

A method is trained once: +ES takes one of its epochs, and +FT goes on from there on gold alone at the small constant
``finetune_lr``, which is what ``us.train(finetune_epochs=…, finetune_lr=…)`` does in one call. "S-Model +Conf" starts
from the confusion of the pre-trained baseline, as the paper has it: the classes it predicts for the ``watched`` rows
against the labels they were given. On its training rows a baseline that has memorised them confuses nothing.
"""

from collections.abc import Callable, Container
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

import understudy as us
from experiments.datasets import LOADERS, load, rows
from experiments.needs import REPEATED
from experiments.sweep import Cell, Training, curve_of, facts_of, known, net
from understudy.data.noise import background_flip, symmetric, uniform_flip
from understudy.inference.passes import predict
from understudy.methods.s_model import SModelLink, TransitionLayer
from understudy.objective import Context, Objective, TeacherTarget
from understudy.training.options import find_schedule


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
    baseline: Tensor | None = None
    """What the pre-trained baseline predicts for the watched rows, where a method starts from it."""

    @property
    def given_labels(self) -> Tensor:
        assert self.pool.teacher is not None
        return self.pool.teacher.top1()

    @property
    def clean_share(self) -> Tensor:
        """Of each given class, the share of rows that are truly of it: as given to the paper's WEIGHTED."""
        right = torch.bincount(self.given_labels[self.given_labels == self.truth], minlength=self.classes)
        return right / torch.bincount(self.given_labels, minlength=self.classes).clamp(min=1)

    @property
    def transition(self) -> Tensor:
        """P(given class | true class), as the rows have it."""
        return shares(self.truth, self.given_labels, self.classes)


def shares(rows: Tensor, columns: Tensor, classes: int) -> Tensor:
    """P(column class | row class) as counted; a class that does not occur keeps to itself."""
    counts = torch.zeros(classes, classes).index_put_((rows, columns), torch.ones(len(rows)), accumulate=True)
    empty = counts.sum(1) == 0
    counts[empty] = torch.eye(classes)[empty]
    return counts / counts.sum(1, keepdim=True)


@dataclass(frozen=True, kw_only=True, eq=False)
class FromBaseline(SModelLink):
    """The S-model's layer, started from a given confusion."""

    confusion: Tensor

    def module(self, context: Context) -> nn.Module:
        return TransitionLayer((1 - self.smoothing) * self.confusion + self.smoothing / context.classes)


def s_model_from_baseline(data: Flipped) -> Objective:
    assert data.baseline is not None and data.watched is not None
    link = FromBaseline(confusion=shares(data.baseline, data.watched.y, data.classes))
    return Objective(name="s_model", target=TeacherTarget(), link=link)


GUESSED_RATE = 0.2

METHODS: dict[str, Callable[[Flipped], us.Objective]] = {
    "Baseline": lambda data: us.vanilla(),
    "Reed hard": lambda data: us.bootstrap(),
    "Reed soft": lambda data: us.bootstrap(target="soft"),
    "S-Model": lambda data: us.s_model(),
    "S-Model +Conf": s_model_from_baseline,
    "Forward": lambda data: us.forward(data.transition),
    "Random": lambda data: us.random_weights(),
    "Weighted": lambda data: us.class_ratio(data.clean_share),
    "Learning to reweight": lambda data: us.l2rw(gold_rows=100),
    "Learning to reweight, gold in the pool": lambda data: us.l2rw(gold_rows=100, gold_in_pool=True),
    "Self-distillation": lambda data: us.self_distillation(data.strength),
    "Self-distillation, T = 0.5": lambda data: us.self_distillation(
        data.strength, target="soft", target_temperature=0.5
    ),
    "Co-teaching": lambda data: us.co_teaching(data.noise, gradual_epochs=10),
    # The rate that most users would guess, whatever the noise is.
    "Co-teaching, rate guessed": lambda data: us.co_teaching(GUESSED_RATE, gradual_epochs=10),
    "ELR": lambda data: us.elr(),
    "SOP": lambda data: us.sop(),
    "GCE": lambda data: us.gce(),
    "GCE, truncated": lambda data: us.gce(truncated=True),
    "Clean only": lambda data: us.vanilla(),
}


def plain(method: str) -> str:
    return method.removesuffix(" +FT").removesuffix(" +ES")


def taken_for(predicted: Tensor, truth: Tensor, background: int) -> float:
    """Of the test rows of other classes, the share that was called the background class."""
    others = truth != background
    return float((predicted[others] == background).double().mean())


def worst_recall(predicted: Tensor, truth: Tensor) -> float:
    """Of the class that is found least often, the share of test rows that are."""
    return min(float((predicted[truth == label] == label).double().mean()) for label in truth.unique())


# Measures of a student beside its accuracy.
EXTRAS: dict[str, Callable[[nn.Module, Flipped], float]] = {
    "others taken for the background": lambda student, data: taken_for(
        predict(student, data.test.rows).argmax(1), data.test.y, data.background
    ),
    "recall of the worst class": lambda student, data: worst_recall(
        predict(student, data.test.rows).argmax(1), data.test.y
    ),
    REPEATED: lambda student, data: float(
        (predict(student, data.pool.rows).argmax(1) == data.given_labels).double().mean()
    ),
}


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
    finetune_lr: float = 1e-4
    strengths: tuple[float, ...] = (1.0,)
    """λ of self-distillation: one for all noise levels, or one each."""
    backgrounds: tuple[int, ...] = (0,)
    """The class that labels flip to, seed by seed."""
    extras: tuple[str, ...] = ()
    """What else is reported of each method, as rows "method: what"."""
    curves: bool = True
    """Whether the test rows are looked at after every epoch, or once."""
    without_noise: tuple[str, ...] | None = None
    """The methods of the column in which nothing is flipped; None: all."""
    test_rows: int | None = None
    side: int | None = None
    seeds: int = 3

    @property
    def columns(self) -> tuple[str, ...]:
        if len(self.gold) > 1:
            return tuple(f"{count} clean per class" for count in self.gold)
        return tuple(f"{level:.0%}" for level in self.noise)

    def measure(self, column: str, seed: int, known: Container[str] = ()) -> list[Cell]:
        """``known``: rows that need not be measured."""
        flipped = self.deal(self.columns.index(column), seed)
        runs: dict[str, us.Run] = {}
        cells = []
        for method in self.methods if flipped.noise or self.without_noise is None else self.without_noise:
            if all(row in known for row in (method, *(f"{method}: {what}" for what in self.extras))):
                continue
            run = self._run(plain(method), flipped, runs, seed)
            student = run.selected() if "+ES" in method else run.student
            if "+FT" in method:
                student = self._finetuned(student, flipped, seed)
            value = us.evaluate(student, flipped.test)["accuracy"]
            # +ES and +FT are ends of the plain training, whose curve stands in its own row.
            curve = curve_of(run) if method == plain(method) else ()
            cells.append(Cell(method, column, seed, value, curve, facts=facts_of(run)))
            cells += [Cell(f"{method}: {what}", column, seed, EXTRAS[what](student, flipped)) for what in self.extras]
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
        given_labels = us.Hard(given, classes=data.classes)
        tested = torch.arange(self.test_rows or len(data.y_test))
        return Flipped(
            gold=us.Gold(rows(data.x, clean), data.y[clean], given_labels.take(clean)) if per_class else None,
            pool=us.Pool(rows(data.x, pooled), given_labels.take(pooled)),
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

    def _run(self, method: str, flipped: Flipped, runs: dict[str, us.Run], seed: int) -> us.Run:
        """A method's training, made once."""
        if method == "S-Model +Conf":
            assert flipped.watched is not None
            baseline = self._run("Baseline", flipped, runs, seed).student
            flipped = replace(flipped, baseline=predict(baseline, flipped.watched.rows).argmax(1))
        if method not in runs:
            runs[method] = self._train(method, flipped, seed)
        return runs[method]

    def _train(self, method: str, flipped: Flipped, seed: int) -> us.Run:
        options = self.training.options(len(flipped.pool)) | {"seed": seed}
        if method == "Clean only":
            assert flipped.gold is not None
            # As many steps as the others take, on the few rows there are.
            steps = options["epochs"] * -(-len(flipped.pool) // self.training.batch_size)
            options["epochs"] = self._gold_epochs(steps, flipped.gold)
            return us.train(self._build(), flipped.gold, None, us.vanilla(), **options)
        options |= {"test": flipped.test if self.curves else None, "select": flipped.watched}
        objective = METHODS[method](flipped)
        return us.train(self._build(), flipped.gold, flipped.pool, objective, gold_repeat=0, **options)

    def _finetuned(self, student: nn.Module, flipped: Flipped, seed: int) -> nn.Module:
        assert flipped.gold is not None
        options = self.training.options(len(flipped.gold)) | {"lr": self.finetune_lr, "schedule": "constant"}
        options["epochs"] = self._gold_epochs(self.finetune, flipped.gold)
        return us.train(student, flipped.gold, None, us.vanilla(), seed=seed, **options).student

    def _gold_epochs(self, steps: int, gold: us.Gold) -> int:
        return max(1, steps // -(-len(gold) // self.training.batch_size))

    def _build(self) -> Callable[[], nn.Module]:
        data = load(self.data, side=self.side)
        return net(self.student, data.shape, data.classes)

    def check(self) -> None:
        known(LOADERS, self.data)
        known(METHODS, *(plain(method) for method in self.methods))
        known(EXTRAS, *self.extras)
        known(self.methods, *(self.without_noise or ()))
        find_schedule(self.training.schedule)
