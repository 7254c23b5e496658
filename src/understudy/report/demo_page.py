"""The page of ``understudy demo``, and its findings as sentences."""

from pathlib import Path

import numpy as np

from understudy.comparison.digits_demo import GOLD_ONLY, SLAM, TEACHER, VANILLA, WEIGHTED, DemoResult
from understudy.comparison.interval import percent, signed
from understudy.comparison.outcome import Comparison
from understudy.report.comparison import write_comparison_report
from understudy.report.figures import measure_teacher

BASELINES = {TEACHER: "its teacher", GOLD_ONLY: "training on gold alone", VANILLA: "vanilla distillation"}


def demo_verdict(comparison: Comparison) -> list[str]:
    """SLaM against each baseline, and the method with the highest mean."""
    sentences = []
    for method, name in BASELINES.items():
        difference = comparison.difference(SLAM, method)
        verdict = "better" if difference.mean > 0 else "worse"
        if difference.count < 2:
            numbers, verdict = "a single seed", "significance unknown"
        else:
            numbers = f"95% CI {signed(difference.low)} to {signed(difference.high)}, {difference.count} seeds"
            verdict = f"significantly {verdict}" if difference.excludes_zero else "not significant"
        sentences.append(f"SLaM vs {name}: {signed(difference.mean)} points ({numbers}), {verdict}.")
    best = max(comparison.rows(), key=lambda row: row.last.mean)
    return [*sentences, f"Highest mean accuracy: {best.method}, {percent(best.last.mean)}%."]


def write_demo_report(path: str | Path, result: DemoResult) -> None:
    setting, first = result.setting, result.first
    write_comparison_report(
        path,
        result.comparison,
        title="Demo: a student that learns from an imperfect teacher",
        lead=f"Handwritten digits, 8×8 pixels. A teacher (64-256-256-10) was trained on {setting.teacher_rows} labels "
        f"of its own and labelled {setting.pool_rows:,} rows. A smaller student (64-32-10) is trained on these and on "
        f"{setting.gold_rows} gold labels. Every seed has another split and another teacher.",
        verdict=demo_verdict(result.comparison),
        trust=measure_teacher(first.gold, first.pool),
        trust_note="Shown is the first seed, as SLaM used it.",
        facts=_facts(result),
        warnings=result.warnings,
    )


def _facts(result: DemoResult) -> list[tuple[str, str]]:
    setting = result.setting

    def mean(method: str, fact: str) -> float:
        by_seed = result.comparison.outcomes[method].values()
        return float(np.mean([outcome.facts.get(fact, np.nan) for outcome in by_seed]))

    return [
        ("Rows that train the teacher only", f"{setting.teacher_rows}"),
        ("Gold rows (train the student, measure the teacher)", f"{setting.gold_rows}"),
        ("Pool rows, labelled by the teacher", f"{setting.pool_rows:,}"),
        ("Test rows", f"{len(result.first.test)}"),
        ("Estimated teacher accuracy on the pool (mean α of SLaM)", f"{mean(SLAM, 'slam.mean_alpha'):.1%}"),
        ("Share of pool rows at the lower bound of α", f"{mean(SLAM, 'slam.share_at_lower_bound'):.1%}"),
        ("Mean weight of a pool row in Weighted Distillation", f"{mean(WEIGHTED, 'debias.mean_weight'):.3f}"),
        ("Epochs: distillation, gold only", f"{setting.epochs}, {setting.gold_only_epochs}"),
        ("Optimizer", "Adam, 0.003 (teacher 0.001), cosine, batches of 64"),
    ]
