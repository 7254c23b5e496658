"""What ``understudy demo`` shows: 2,410 parameters, 60 trusted labels, a teacher that is right nine times in ten.

The built-in digits (1,797 images of 8×8). Per seed, rows are dealt anew: 100 train a bigger teacher and stay its own
(a user of somebody else's model never sees them), 60 others are gold, 1,100 are labelled by the teacher only, and the
remaining 537 test. Compared are training on gold alone, vanilla distillation, Weighted Distillation and SLaM; the
three last start from one student pretrained on gold. Gold alone gets 300 epochs, not 60: its epochs are a single batch.
On one core it takes about a minute; expect SLaM near 91% and the teacher near 90%.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from understudy.comparison.interval import Interval, percent, signed
from understudy.comparison.outcome import Comparison, Outcome, run_cells
from understudy.data.builtin import digits
from understudy.data.examples import Gold, Pool
from understudy.inference.passes import metrics
from understudy.inference.teacher import teach
from understudy.methods import METHODS
from understudy.models import mlp
from understudy.store.console import collected_warnings
from understudy.training.run import Run
from understudy.training.train import train

TEACHER, GOLD_ONLY, VANILLA, WEIGHTED, SLAM = "teacher", "gold only", "vanilla", "weighted", "SLaM"


@dataclass(frozen=True)
class Setting:
    seeds: int = 10
    teacher_rows: int = 100
    gold_rows: int = 60
    pool_rows: int = 1100
    epochs: int = 60
    gold_only_epochs: int = 300


@dataclass(frozen=True)
class DemoResult:
    comparison: Comparison
    verdict: list[str]
    report: Path
    warnings: list[str]


@dataclass(frozen=True)
class Situation:
    """What one seed deals."""

    gold: Gold
    pool: Pool
    test: Gold
    teacher_accuracy: float


def run_demo(
    out: str | Path = "understudy-demo",
    setting: Setting | None = None,
    *,
    on_done: Callable[[str, int, Outcome], None] = lambda method, seed, outcome: None,
) -> DemoResult:
    """Train everything, judge it, write ``report.html`` into ``out``."""
    setting = setting or Setting()
    situations: list[Situation] = []

    def trainings(seed: int) -> Mapping[str, Callable[[], Run | float]]:
        situation = deal(seed, setting)
        situations.append(situation)
        return methods(situation, seed, setting)

    with collected_warnings() as warnings:
        comparison = run_cells(trainings, range(setting.seeds), reference=VANILLA, on_done=on_done)
    verdict = judge(comparison)
    report = Path(out) / "report.html"
    _write(report, comparison, verdict, setting, situations[0], warnings)
    return DemoResult(comparison, verdict, report, warnings)


def deal(seed: int, setting: Setting) -> Situation:
    """Split the digits for this seed, train its teacher on rows of its own, let it label the rest."""
    x, y = digits()
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
    sizes = [setting.teacher_rows, setting.gold_rows, setting.pool_rows]
    private, gold, pool, test = order.split([*sizes, len(x) - sum(sizes)])
    teacher = _train(_net(256, 256), Gold(x[private], y[private]), None, "vanilla", seed, setting.epochs, lr=1e-3)
    probs = teach(teacher.student, x)
    return Situation(
        gold=Gold(x[gold], y[gold], teacher=probs[gold]),
        pool=Pool(x[pool], probs[pool]),
        test=Gold(x[test], y[test]),
        teacher_accuracy=metrics(probs[test], y[test])["accuracy"],
    )


def methods(situation: Situation, seed: int, setting: Setting) -> dict[str, Callable[[], Run | float]]:
    """Everything that is compared, in the order of the table."""
    gold, pool, test = situation.gold, situation.pool, situation.test
    pretrained = _train(_net(32), gold, None, "vanilla", seed, setting.epochs).student

    def distil(method: str) -> Callable[[], Run]:
        return lambda: _train(pretrained, gold, pool, method, seed, setting.epochs, test=test)

    return {
        TEACHER: lambda: situation.teacher_accuracy,
        GOLD_ONLY: lambda: _train(_net(32), gold, None, "vanilla", seed, setting.gold_only_epochs, test=test),
        VANILLA: distil("vanilla"),
        WEIGHTED: distil("weighted"),
        SLAM: distil("slam"),
    }


def _net(*hidden: int) -> Callable[[], nn.Module]:
    return lambda: mlp(inputs=64, classes=10, hidden=hidden)


def _train(
    student: nn.Module | Callable[[], nn.Module],
    gold: Gold,
    pool: Pool | None,
    method: str,
    seed: int,
    epochs: int,
    *,
    lr: float = 3e-3,
    test: Gold | None = None,
) -> Run:
    return train(
        student, gold, pool, METHODS[method](), epochs=epochs, lr=lr, batch_size=64, schedule="cosine", seed=seed,
        test=test, progress=False,
    )  # fmt: skip


def judge(comparison: Comparison) -> list[str]:
    """What the numbers say, in words, whichever way they point."""
    teacher, gold, vanilla = (comparison.difference(SLAM, other) for other in (TEACHER, GOLD_ONLY, VANILLA))
    sentences = [
        _sentence(teacher, "The SLaM student beats its teacher", "The SLaM student stays behind its teacher",
                  "The SLaM student and its teacher cannot be told apart"),
        _sentence(gold, "It beats training on the gold rows alone", "Training on the gold rows alone wins over SLaM",
                  "It cannot be told apart from training on the gold rows alone"),
        _sentence(vanilla, "SLaM is ahead of vanilla distillation", "SLaM is behind vanilla distillation",
                  "SLaM cannot be told apart from vanilla distillation"),
    ]  # fmt: skip
    if gold.excludes_zero and gold.mean < 0:
        sentences.append("In this setting the pool does not pay: train on gold alone.")
    best = max(comparison.rows(), key=lambda line: line.last.mean)
    sentences.append(f"The highest mean is that of {best.method}: {percent(best.last.mean)}%.")
    return sentences


def _sentence(difference: Interval, ahead: str, behind: str, unclear: str) -> str:
    if difference.count < 2:
        return f"{unclear} by a single seed ({signed(difference.mean)} points)."
    numbers = (
        f"{signed(difference.mean)} points over {difference.count} seeds, 95% interval {signed(difference.low)} to "
        f"{signed(difference.high)}"
    )
    if not difference.excludes_zero:
        return f"{unclear}: {numbers}, which includes 0."
    return f"{ahead if difference.mean > 0 else behind}: {numbers}."


def _write(
    path: Path, comparison: Comparison, verdict: list[str], setting: Setting, first: Situation, warnings: list[str]
) -> None:
    from understudy.report.comparison import write_comparison_report
    from understudy.report.figures import measure_teacher

    write_comparison_report(
        path,
        comparison,
        title="Demo: a student that learns from an imperfect teacher",
        lead=f"Handwritten digits, 8×8 pixels. A teacher (64-256-256-10) learnt from {setting.teacher_rows} labels of "
        f"its own and labelled {setting.pool_rows:,} rows. A smaller student (64-32-10) learns from these labels and "
        f"from {setting.gold_rows} trusted ones. Every seed deals the rows anew and trains another teacher.",
        verdict=verdict,
        trust=measure_teacher(first.gold, first.pool),
        trust_note="Shown is the first seed, as SLaM saw it.",
        facts=_facts(comparison, setting, len(first.test)),
        warnings=warnings,
    )


def _facts(comparison: Comparison, setting: Setting, tested: int) -> list[tuple[str, str]]:
    def mean(method: str, fact: str) -> Any:
        return np.mean([outcome.facts.get(fact, np.nan) for outcome in comparison.outcomes[method].values()])

    return [
        ("Rows that trained the teacher and nobody else", f"{setting.teacher_rows}"),
        ("Gold rows (train the student, measure the teacher)", f"{setting.gold_rows}"),
        ("Pool rows, labelled by the teacher", f"{setting.pool_rows:,}"),
        ("Test rows", f"{tested}"),
        ("Teacher's accuracy on the pool, as SLaM estimates it (mean α)", f"{mean(SLAM, 'slam.mean_alpha'):.1%}"),
        ("Share of pool rows at the lower bound of α", f"{mean(SLAM, 'slam.share_at_lower_bound'):.1%}"),
        ("Mean weight of a pool row in Weighted Distillation", f"{mean(WEIGHTED, 'debias.mean_weight'):.3f}"),
        ("Epochs: distillation, gold only", f"{setting.epochs}, {setting.gold_only_epochs}"),
        ("Optimizer", "Adam, 0.003 (teacher 0.001), cosine, batches of 64"),
    ]
