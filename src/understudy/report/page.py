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
from understudy.reconciling.reconcile import NUMBERS
from understudy.reconciling.words import HEADINGS, witness_table
from understudy.report.figures import Trust, measure_teacher, reliability_figure, run_curves
from understudy.store.files import write_text
from understudy.training.run import Run

FACT_NAMES = {
    "gold_rows": "Gold rows",
    "estimate_rows": "Gold rows that measure the teacher",
    "pool_rows": "Pool rows with a teacher label",
    "pool_rows_without_label": "Pool rows without a label (left out)",
    "slam.mean_alpha": "Teacher's accuracy on the pool, as estimated from gold (mean α)",
    "slam.mean_k": "Candidate classes kept per pool row (mean k)",
    "slam.share_at_lower_bound": "Share of pool rows at the lower bound of α",
    "estimate_only_rows": "Gold rows that measure and never train",
    "mean_weight": "Mean weight of a pool row",
    "share_weight_1": "Share of pool rows with weight exactly 1",
    "cross_fitted_folds": "Copies of the student pretrained to be asked about gold (cross-fitting)",
    "reconciled.log_loss": "Log-loss of the reconciled labels on gold rows that had no part in them",
    "reconciled.accuracy": "Gold rows on which reconciled labels are right, made without their truth",
    "reconciled.gold_rows": "Gold rows that weighed the witnesses",
    "prepare_seconds": "Seconds of preparation",
    "train_seconds": "Seconds in all",
}
SHARES = ("slam.mean_alpha", "slam.share_at_lower_bound", "share_weight_1", "reconciled.accuracy")

WITNESSES = tuple(f"reconciled.{number} of " for number in NUMBERS)


def write_page(path: str | Path, **parts: Any) -> None:
    """A file of its own; ``parts``: what ``page`` takes."""
    write_text(Path(path), page("page.html.jinja", **parts))


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


def trust_section(trust: Trust | None, note: str = "") -> dict[str, Any]:
    return {"trust": trust, "trust_svg": trust and reliability_figure(trust), "trust_note": note}


def write_run_report(
    path: str | Path,
    run: Run,
    *,
    gold: Gold | None = None,
    pool: Pool | None = None,
    lower_bound: float = 0.5,
    warnings: Sequence[str] = (),
    settings: Mapping[str, Any] | None = None,
) -> None:
    """The page of one training. ``settings``: what was asked for, shown among the facts.

    Trust in the teacher is shown as the training used it; of a loaded run it is fitted as ``us.slam()`` does.
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
    write_page(path, warnings=warnings, settings=settings, **run_parts(run), **trust_section(trust))


def run_parts(run: Run) -> dict[str, Any]:
    """What the page of a run says of the run itself."""
    config = run.config
    # What trained is in the facts; a pool that did not train may still be shown as evidence.
    rows = {name: int(run.facts.get(f"{name}_rows", 0)) for name in ("gold", "pool")}
    trained_on = " and ".join(f"{count:,} {name} rows" for name, count in rows.items() if count)
    alone = rows["gold"] and not rows["pool"]
    return {
        "title": "Training on gold alone" if alone else f"Training with {config.get('objective', 'training')}",
        "lead": f"{len(run.history)} epochs on {trained_on}." if trained_on else f"{len(run.history)} epochs.",
        # What is told of each witness has a table of its own.
        "facts": name_facts({name: value for name, value in run.facts.items() if not name.startswith(WITNESSES)}),
        "witnesses": witness_table(run.facts),
        "witness_headings": HEADINGS,
        "results": _run_results(run),
        "curves_svg": run_curves(run.history, run.selected_epoch) if run.history else None,
        "curves_note": "The training loss is the method's own: compare it over epochs, not between methods.",
    }


def name_facts(facts: Mapping[str, float]) -> list[tuple[str, str]]:
    """A run's numbers with names a reader understands; an unknown one keeps its own."""
    forms = {
        name: ".1%" if name in SHARES else ",.0f" if float(value).is_integer() else ".3g"
        for name, value in facts.items()
    }
    return [(FACT_NAMES.get(name, name.replace("_", " ")), format(value, forms[name])) for name, value in facts.items()]


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
