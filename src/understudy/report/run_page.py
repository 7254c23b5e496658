"""The page of a run: self-contained HTML without script or outside reference, prints on A4.

write_run_report("runs/first/report.html", run, gold=gold, pool=pool)
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from understudy.data.examples import Gold, Pool
from understudy.maths.classification_metrics import by_class
from understudy.maths.proportions import widen
from understudy.report import figures, run_text
from understudy.report.templates import percent_range, sentences, write_page
from understudy.training.evaluation import Evaluation
from understudy.training.job import TrainedJob
from understudy.training.options import LBFGS
from understudy.training.run import Run

#: A matrix of more is a grey square.
MOST_CLASSES = 100


def write_run_report(
    path: str | Path,
    run: Run,
    *,
    gold: Gold | None = None,
    pool: Pool | None = None,
    lower_bound: float = 0.5,
    warnings: Sequence[str] = (),
    settings: Mapping[str, Any] | None = None,
) -> list[tuple[str, list[str]]]:
    """Write the page of one training; returns its summary. ``settings``: its options, shown among the facts.

    The reliability of the teacher is shown as the training used it; of a loaded run it is fitted as ``us.slam()`` does.
    """
    config = run.config
    teacher = figures.measure_teacher(
        gold, pool, reliability=next(iter(run.fits.values()), None), lower_bound=lower_bound,
        classes=config.get("classes"), class_names=config.get("class_names"),
    )  # fmt: skip
    parts = run_parts(run) | {"summary": (lines := run_text.summary(run, warnings))}
    if settings is not None:  # which have the seconds of the whole run
        others = {name: value for name, value in run.facts.items() if not name.endswith("_seconds")}
        parts["facts"] = run_text.name_facts(others)
    write_page(path, warnings=warnings, settings=settings, **parts, **figures.teacher_section(teacher))
    return lines


def write_job_report(path: str | Path, job: TrainedJob) -> list[tuple[str, list[str]]]:
    """Write the page of a training from tables; returns its summary."""
    return write_run_report(
        path, job.run, gold=job.examples.gold, pool=job.examples.pool, lower_bound=job.options.get("lower_bound", 0.5),
        warnings=job.warnings, settings=run_text.job_facts(job),
    )  # fmt: skip


def compared_accuracies(found: Evaluation) -> dict[str, tuple[float, float, float]]:
    """The student's accuracy and its baselines', each with the ends of its interval."""
    # Shown only where it helps, the accuracy of both would be that of the lucky draws.
    shares = {"student": found.accuracy, "student and teacher": found.combined, "teacher": found.teacher}
    shares |= {"gold only": found.gold_only}
    known = {name: (share.estimate, share.low, share.high) for name, share in shares.items() if share is not None}
    return known | {"majority class": (found.majority,) * 3}


def _by_class(found: Evaluation | None, class_names: Sequence[str] | None, first: str | None) -> dict[str, Any]:
    """The metrics, the confusion matrix and a line for each class, where predictions of single rows are known."""
    if found is None or found.confusion is None:
        return {}
    counts, shares = np.array(found.confusion), {"accuracy": found.accuracy, **found.metrics}
    every, classes = list(class_names or map(str, range(len(counts)))), by_class(counts)
    # An LLM may name classes that no row here has.
    occur = np.flatnonzero(counts.sum(0) + counts.sum(1))
    names, matrix = [every[label] for label in occur], counts[np.ix_(occur, occur)]
    lines = [
        [every[label], f"{(one := classes[label]).rows:,}"]
        + [percent_range(widen(share, found.effect)) for share in (one.precision, one.recall, one.f1)]
        for label in occur
    ]
    return {
        "metrics": [
            (run_text.capitalised(run_text.NAMES["metrics"][name]), run_text.metric_text(name, share))
            for name, share in sorted(shares.items(), key=lambda one: one[0] != first)
        ],
        "class_metrics": lines,
        "classes_without_rows": len(every) - len(names),
        "confidence_svg": figures.confidence_figure(found.confidence, found.effect) if found.confidence[1:] else None,
        "confusion_svg": figures.confusion_matrix_figure(matrix, names) if len(names) <= MOST_CLASSES else None,
    }


def run_parts(run: Run) -> dict[str, Any]:
    """The parts of the page about the run itself."""
    config = run.config
    # What trained is in the facts; a pool that did not train may still be shown as evidence.
    rows = {name: int(run.facts.get(f"{name}_rows", 0)) for name in ("gold", "pool")}
    trained_on = " and ".join(f"{count:,} {name} rows" for name, count in rows.items() if count)
    alone = rows["gold"] and not rows["pool"]
    converged = config.get("optimizer") == LBFGS
    how = "Trained to convergence" if converged else f"{len(run.history)} epochs"
    is_tested = any(f"{name}_accuracy" in record for record in run.history[:1] for name in run_text.SET_NAMES)
    return {
        "accuracy_svg": None if run.evaluation is None else figures.accuracy_bars(compared_accuracies(run.evaluation)),
        **_by_class(run.evaluation, config.get("class_names"), config.get("metric")),
        "title": "Training on gold alone" if alone else f"Training with {config.get('objective', 'training')}",
        "lead": f"{how} on {trained_on}." if trained_on else f"{how}.",
        "facts": run_text.name_facts(run.facts),
        "sources": run_text.source_table(run.facts),
        "source_headings": run_text.SOURCE_HEADINGS,
        "results": run_text.result_table(run),
        # To convergence it is a few points, whose loss leaves out the penalty and may rise: nothing to learn from.
        "curves_svg": figures.run_curves(run.history, run.selected_epoch) if run.history and not converged else None,
        "curves_text": sentences("run", "curves", is_tested)[0],
    }
