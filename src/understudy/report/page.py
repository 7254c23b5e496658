"""One self-contained HTML page per run, comparison or audit: no script, no outside reference, prints on A4.

write_run_report("runs/first/report.html", run, gold=gold, pool=pool)
"""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from understudy.comparison.interval import percent
from understudy.data.examples import Gold, Pool
from understudy.reconciling.label_sources import NUMBERS
from understudy.report.answers import Standing, answers, standing
from understudy.report.figures import MeasuredTeacher, measure_teacher, reliability_figure, run_curves
from understudy.report.label_sources_table import HEADINGS, source_table
from understudy.store.copies import local_path
from understudy.store.files import write_text
from understudy.training.options import LBFGS
from understudy.training.run import Run

FACT_NAMES = {
    "gold_rows": "Gold rows",
    "calibration_rows": "Gold rows that measure the teacher",
    "pool_rows": "Pool rows with a teacher label",
    "pool_rows_without_label": "Pool rows without a label (left out)",
    "slam.mean_alpha": "Teacher's accuracy on the pool, as estimated from gold (mean α)",
    "slam.mean_k": "Candidate classes kept per pool row (mean k)",
    "slam.share_at_lower_bound": "Share of pool rows at the lower bound of α",
    "estimate_only_rows": "Gold rows that measure and never train",
    "mean_weight": "Mean weight of a pool row",
    "share_weight_1": "Share of pool rows with weight exactly 1",
    "cross_fitted_folds": "Copies of the student pretrained to be asked about gold (cross-fitting)",
    "asked_of_memory": "Whether the student seemed to know gold by heart when it was asked (1: yes)",
    "class_shift": "Share of rows by which the teacher's classes differ between gold and pool",
    "class_shift_p": "Chance of so large a difference by luck",
    "ups.share_selected": "Share of pool rows with a class that is sure enough",
    "oracle.share_right": "Share of pool labels that are right",
    "confident.kept_rows": "Pool rows sure enough to be kept",
    "co_teaching.forget_rate": "Share of a batch left out for its large loss",
    "transition.mean_accuracy": "Teacher's accuracy in the mean of the classes, from gold",
    "reconciled.log_loss": "Log-loss of the reconciled labels on gold, cross-validated",
    "reconciled.accuracy": "Accuracy of the reconciled labels on gold, cross-validated",
    "reconciled.gold_rows": "Gold rows that the label sources were weighted on",
    "prepare_seconds": "Seconds of preparation",
    "train_seconds": "Seconds in all",
}
SHARES = (
    "slam.mean_alpha", "slam.share_at_lower_bound", "share_weight_1", "reconciled.accuracy", "class_shift",
    "class_shift_p", "ups.share_selected", "oracle.share_right", "co_teaching.forget_rate", "transition.mean_accuracy",
)  # fmt: skip
OF_SLOTS = {
    "mean_weight": "Mean weight of a pool row by {}",
    "share_weight_1": "Share of pool rows with weight exactly 1 by {}",
    "largest_weight": "Largest weight of a pool row by {}",
    "mean_alpha": "Teacher's accuracy on the pool, as estimated by {}",
    "mean_k": "Candidate classes kept per pool row by {}",
}
"""What several slots tell, each of itself: ``debias.mean_weight``."""
TOLD_ELSEWHERE = ("mean_alpha", "mean_k", "finetuned_")
"""The method's own figure again, and what the table of results has."""

OF_SOURCES = tuple(f"reconciled.{number} of " for number in NUMBERS)


def write_page(path: str | Path, **parts: Any) -> None:
    """A file of its own; ``parts``: what ``page`` takes."""
    write_text(local_path(path), page("page.html.jinja", **parts))


def page(
    frame: str,
    *,
    template: str | None = None,
    title: str,
    lead: str = "",
    verdict: Sequence[str] = (),
    warnings: Sequence[str] = (),
    facts: Sequence[tuple[str, str]] = (),
    settings: Mapping[str, Any] | None = None,
    **sections: Any,
) -> str:
    """What every page has, and what is shown in its own ``template`` or in sections that several pages have.

    ``settings``: what was asked for, shown after the facts. All text is escaped; pictures come as ``Markup``.
    """
    own = "" if template is None else _templates().get_template(template).render(**sections)
    every = {"title": title, "lead": lead, "verdict": verdict, "warnings": warnings, "content": Markup(own)}
    shown = [*facts, *((name, str(value)) for name, value in (settings or {}).items())]
    return _templates().get_template(frame).render(**every, facts=shown, **sections)


@cache
def _templates() -> jinja2.Environment:
    # Autoescape for every name: what users call their files and classes ends up on the page.
    return jinja2.Environment(
        loader=jinja2.PackageLoader("understudy", "report"), autoescape=True, undefined=jinja2.StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip


def teacher_section(trust: MeasuredTeacher | None, note: str = "") -> dict[str, Any]:
    return {"trust": trust, "trust_svg": trust and reliability_figure(trust), "trust_note": note}


def write_run_report(
    path: str | Path,
    run: Run,
    *,
    gold: Gold | None = None,
    pool: Pool | None = None,
    found: Standing | None = None,
    lower_bound: float = 0.5,
    warnings: Sequence[str] = (),
    settings: Mapping[str, Any] | None = None,
) -> None:
    """The page of one training. ``found``: how it stands (``report/answers.py``), which comes first; ``settings``: what
    was asked for, shown among the facts.

    MeasuredTeacher in the teacher is shown as the training used it; of a loaded run it is fitted as ``us.slam()`` does.
    """
    config = run.config
    trust = measure_teacher(
        gold,
        pool,
        reliability=next(iter(run.fits.values()), None),
        lower_bound=lower_bound,
        classes=config.get("classes"),
        class_names=config.get("class_names"),
    )
    first = answers(run, found or standing(run, gold=gold), warnings)
    write_page(path, warnings=warnings, settings=settings, answers=first, **run_parts(run), **teacher_section(trust))


def run_parts(run: Run) -> dict[str, Any]:
    """What the page of a run says of the run itself."""
    config = run.config
    # What trained is in the facts; a pool that did not train may still be shown as evidence.
    rows = {name: int(run.facts.get(f"{name}_rows", 0)) for name in ("gold", "pool")}
    trained_on = " and ".join(f"{count:,} {name} rows" for name, count in rows.items() if count)
    alone = rows["gold"] and not rows["pool"]
    converged = config.get("optimizer") == LBFGS
    how = "Trained to convergence" if converged else f"{len(run.history)} epochs"
    return {
        "title": "Training on gold alone" if alone else f"Training with {config.get('objective', 'training')}",
        "lead": f"{how} on {trained_on}." if trained_on else f"{how}.",
        # Label sources have a table of their own.
        "facts": name_facts({name: value for name, value in run.facts.items() if not name.startswith(OF_SOURCES)}),
        "sources": source_table(run.facts),
        "source_headings": HEADINGS,
        "results": _run_results(run),
        # To convergence it is a few points, whose loss leaves out the penalty and may rise: nothing to learn from.
        "curves_svg": run_curves(run.history, run.selected_epoch) if run.history and not converged else None,
        "curves_read": curves_read(run.history),
        "curves_note": "The training loss is the method's own: compare it over epochs, not between methods.",
    }


def curves_read(history: Sequence[Mapping[str, float]]) -> str:
    """How to read the curves that are there."""
    texts = ["A training loss that still falls at the end says that more epochs would fit these labels better"]
    if any("test_accuracy" in record or "select_accuracy" in record for record in history[:1]):
        texts.append("an accuracy that still rises, that they would help")
        texts.append("a test loss that climbs while the accuracy stays is growing overconfidence")
    else:
        texts.append("whether that would help, only labelled rows that do not train can tell")
    return "; ".join(texts) + "."


def name_facts(facts: Mapping[str, float]) -> list[tuple[str, str]]:
    """A run's numbers with names a reader understands; an unknown one keeps its own."""
    told = {name: value for name, value in facts.items() if not name.startswith(TOLD_ELSEWHERE)}
    # A single weight is the whole of it, and was told as such; and where all are 1, nothing is weighed.
    again = {name for name in told if "." in name and told[name] == told.get(name.partition(".")[2])}
    if told.get("mean_weight") == told.get("share_weight_1") == 1:
        again |= {"mean_weight", "share_weight_1"}
    return [(_fact_name(name), _fact(name, value)) for name, value in told.items() if name not in again]


def _fact_name(name: str) -> str:
    slot, _, what = name.partition(".")
    if name in FACT_NAMES:
        return FACT_NAMES[name]
    return OF_SLOTS[what].format(slot.replace("_", " ")) if what in OF_SLOTS else name.replace("_", " ")


def _fact(name: str, value: float) -> str:
    if name in SHARES or name.endswith("share_weight_1"):
        return "under 0.1%" if 0 < value < 0.001 else f"{value:.1%}"
    if name.endswith("_seconds"):
        return f"{value:,.1f}"
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:.3g}"


def _run_results(run: Run) -> list[list[str]]:
    moments = {
        "last": f"last epoch ({len(run.history)})",
        "selected": f"chosen epoch ({run.selected_epoch})",
        "finetuned": "after fine-tuning",
    }
    units = {"accuracy": "%", "worst_class": "%", "ece": " points"}
    return [
        [f"{prefix} rows, {moments[when]}", *(percent(measured[name]) + unit for name, unit in units.items())]
        for prefix in ("test", "select")
        for when, measured in run.metrics(prefix).items()
        if "accuracy" in measured
    ]
