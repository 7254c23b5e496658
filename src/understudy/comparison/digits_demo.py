"""The experiment of ``understudy demo``: a student of 2,410 parameters, 60 gold labels, a teacher of 90% accuracy.

The built-in digits (1,797 images of 8×8). Per seed, rows are split anew: 100 train a bigger teacher and nothing else
(users of a third party's model never see its training data), 60 others are gold, 1,100 are the pool, labelled by the
teacher only, and the remaining 537 are the test set. Compared are training on gold alone, vanilla distillation,
Weighted Distillation and SLaM; the three last start from one student pretrained on gold. Gold alone gets 300 epochs,
not 60: its epochs are a single batch. On one core it takes about a minute; expect SLaM near 91%, the teacher near 90%.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import nn

from understudy.comparison.candidates import GOLD_ONLY, TEACHER, VANILLA
from understudy.comparison.outcome import Comparison, Outcome, run_cells
from understudy.data.examples import Gold, Pool
from understudy.inference.passes import metrics
from understudy.inference.teacher import teach
from understudy.methods import METHODS
from understudy.models import mlp
from understudy.samples import digits
from understudy.store.console import collected_warnings
from understudy.training.run import Run
from understudy.training.train import train

WEIGHTED, SLAM = "weighted", "SLaM"


@dataclass(frozen=True)
class DemoSetting:
    seeds: int = 10
    teacher_rows: int = 100
    gold_rows: int = 60
    pool_rows: int = 1100
    epochs: int = 60
    gold_only_epochs: int = 300


class DemoData(NamedTuple):
    """The rows of one seed."""

    gold: Gold
    pool: Pool
    test: Gold
    teacher_accuracy: float


class DemoResult(NamedTuple):
    setting: DemoSetting
    comparison: Comparison
    first: DemoData
    warnings: list[str]


def run_demo(
    setting: DemoSetting, *, on_done: Callable[[str, int, Outcome], None] = lambda method, seed, outcome: None
) -> DemoResult:
    """Train every method under every seed."""
    data: list[DemoData] = []

    def trainings(seed: int) -> Mapping[str, Callable[[], Run | float]]:
        data.append(split_digits(seed, setting))
        return demo_methods(data[-1], seed, setting)

    with collected_warnings() as warnings:
        comparison = run_cells(trainings, range(setting.seeds), reference=VANILLA, on_done=on_done)
    return DemoResult(setting, comparison, data[0], warnings)


def split_digits(seed: int, setting: DemoSetting) -> DemoData:
    """Split the digits for this seed, train its teacher on rows of its own, and let it label the rest."""
    x, y = digits()
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
    sizes = [setting.teacher_rows, setting.gold_rows, setting.pool_rows]
    private, gold, pool, test = order.split([*sizes, len(x) - sum(sizes)])
    teacher = _train(_net(256, 256), Gold(x[private], y[private]), None, "vanilla", seed, setting.epochs, lr=1e-3)
    probs = teach(teacher.student, x)
    accuracy = metrics(probs[test], y[test])["accuracy"]
    gold_set = Gold(x[gold], y[gold], teacher=probs[gold])
    return DemoData(gold_set, Pool(x[pool], probs[pool]), Gold(x[test], y[test]), accuracy)


def demo_methods(data: DemoData, seed: int, setting: DemoSetting) -> dict[str, Callable[[], Run | float]]:
    """The compared trainings, in the order of the table."""
    gold, pool, test = data.gold, data.pool, data.test
    pretrained = _train(_net(32), gold, None, "vanilla", seed, setting.epochs).student

    def distil(method: str) -> Callable[[], Run]:
        return lambda: _train(pretrained, gold, pool, method, seed, setting.epochs, test=test)

    return {
        TEACHER: lambda: data.teacher_accuracy,
        GOLD_ONLY: lambda: _train(_net(32), gold, None, "vanilla", seed, setting.gold_only_epochs, test=test),
        VANILLA: distil("vanilla"),
        WEIGHTED: distil("weighted"),
        SLAM: distil("slam"),
    }


def _net(*hidden: int) -> Callable[[], nn.Module]:
    return lambda: mlp(inputs=64, classes=10, hidden=hidden)


def _train(
    student: nn.Module | Callable[[], nn.Module], gold: Gold, pool: Pool | None, method: str, seed: int, epochs: int, *,
    lr: float = 3e-3, test: Gold | None = None,
) -> Run:  # fmt: skip
    return train(
        student, gold, pool, METHODS[method](), epochs=epochs, lr=lr, batch_size=64, schedule="cosine", seed=seed,
        test=test, progress=False,
    )  # fmt: skip
