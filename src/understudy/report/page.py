"""One self-contained HTML page per run or comparison: no script, no outside reference, prints on A4.

write_run_report("runs/first/report.html", run, gold=gold, pool=pool)
write_comparison_report("report.html", comparison, title="…", verdict=[…])
"""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from understudy.comparison.interval import percent, signed, span
from understudy.comparison.outcome import Comparison
from understudy.data.examples import Gold, Pool
from understudy.report import figures
from understudy.report.comparison import difference_figure
from understudy.report.trust import Trust, measure_teacher
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
    "debias.mean_weight": "Mean weight of a pool row",
    "prepare_seconds": "Seconds of preparation",
    "train_seconds": "Seconds in all",
}
SHARES = ("slam.mean_alpha", "slam.share_at_lower_bound")


def write_report(
    path: str | Path,
    *,
    title: str,
    lead: str = "",
    verdict: Sequence[str] = (),
    comparison: Comparison | None = None,
    results: Sequence[Mapping[str, str]] = (),
    trust: Trust | None = None,
    trust_note: str = "",
    curves: str | None = None,
    curves_note: str = "",
    facts: Sequence[tuple[str, str]] = (),
    warnings: Sequence[str] = (),
) -> None:
    """The page itself. ``curves`` is SVG from ``report.figures``; everything else is plain text and is escaped."""
    differences = None if comparison is None else difference_figure(comparison)
    page = _template().render(
        title=title,
        lead=lead,
        verdict=verdict,
        lines=[] if comparison is None else _table(comparison),
        reference=comparison.reference if comparison else "",
        seeds=len(comparison.seeds) if comparison else 0,
        interval_svg=None if comparison is None else Markup(figures.interval_figure(comparison)),
        difference_svg=None if differences is None else Markup(differences),
        results=results,
        trust=trust,
        trust_note=trust_note,
        trust_svg=None if trust is None else Markup(figures.reliability_figure(trust)),
        curves_svg=None if curves is None else Markup(curves),
        curves_note=curves_note,
        facts=facts,
        warnings=warnings,
    )
    write_text(Path(path), page)


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
    """The page of one training. ``settings``: what was asked for, shown among the facts."""
    config = run.config
    # What trained is in the facts; a pool that did not train may still be shown as evidence.
    rows = {name: int(run.facts.get(f"{name}_rows", 0)) for name in ("gold", "pool")}
    trained_on = " and ".join(f"{count:,} {name} rows" for name, count in rows.items() if count)
    alone = rows["gold"] and not rows["pool"]
    title = "Training on gold alone" if alone else f"Training with {config.get('objective', 'training')}"
    write_report(
        path,
        title=title,
        lead=f"{len(run.history)} epochs on {trained_on}." if trained_on else f"{len(run.history)} epochs.",
        results=_run_results(run),
        trust=measure_teacher(
            gold, pool, lower_bound=lower_bound, classes=config.get("classes"), class_names=config.get("class_names")
        ),
        curves=figures.run_curves(run.history, run.selected_epoch) if run.history else None,
        curves_note="The training loss is the method's own: compare it over epochs, not between methods.",
        facts=[*name_facts(run.facts), *((name, str(value)) for name, value in (settings or {}).items())],
        warnings=warnings,
    )


def write_comparison_report(
    path: str | Path,
    comparison: Comparison,
    *,
    title: str,
    lead: str = "",
    verdict: Sequence[str] = (),
    trust: Trust | None = None,
    trust_note: str = "",
    facts: Sequence[tuple[str, str]] = (),
    warnings: Sequence[str] = (),
) -> None:
    trained = any(outcome.history for by_seed in comparison.outcomes.values() for outcome in by_seed.values())
    write_report(
        path,
        title=title,
        lead=lead,
        verdict=verdict,
        comparison=comparison,
        trust=trust,
        trust_note=trust_note,
        curves=figures.comparison_curves(comparison) if trained else None,
        curves_note="Lines are means over the seeds, shades run from the lowest to the highest seed. "
        "The axes fit the second half of training; the beginning may leave the picture.",
        facts=facts,
        warnings=warnings,
    )


def name_facts(facts: Mapping[str, float]) -> list[tuple[str, str]]:
    """A run's numbers with names a reader understands; an unknown one keeps its own."""
    named = []
    for name, value in facts.items():
        if name in SHARES:
            shown = f"{value:.1%}"
        elif float(value).is_integer():
            shown = f"{int(value):,}"
        else:
            shown = f"{value:.3g}"
        named.append((FACT_NAMES.get(name, name.replace("_", " ")), shown))
    return named


def _table(comparison: Comparison) -> list[dict[str, str]]:
    return [
        {
            "method": line.method,
            "colour": figures.look_of(comparison, line.method)[0],
            "last": percent(line.last.mean),
            "last_span": span(line.last, percent),
            "selected": "" if line.selected is None else percent(line.selected.mean),
            "selected_span": "" if line.selected is None else span(line.selected, percent),
            "difference": "" if line.difference is None else signed(line.difference.mean),
            "difference_span": "" if line.difference is None else span(line.difference, signed),
        }
        for line in comparison.lines()
    ]


def _run_results(run: Run) -> list[dict[str, str]]:
    moments = {
        "last": f"last epoch ({len(run.history)})",
        "selected": f"chosen epoch ({run.selected_epoch})",
        "finetuned": "after fine-tuning",
    }
    rows = []
    for prefix in ("test", "select"):
        for when, found in run.metrics(prefix).items():
            if "accuracy" in found:
                rows.append(
                    {
                        "name": f"{prefix} rows, {moments[when]}",
                        "accuracy": f"{percent(found['accuracy'])}%",
                        "worst_class": f"{percent(found['worst_class'])}%",
                        "ece": f"{percent(found['ece'])} points",
                    }
                )
    return rows


@cache
def _template() -> jinja2.Template:
    # Autoescape for every name: what users call their files and classes ends up on the page.
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("understudy", "report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.html.jinja")
