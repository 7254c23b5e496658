"""One self-contained HTML page per run, comparison or audit: no script, no outside reference, prints on A4.

write_run_report("runs/first/report.html", run, gold=gold, pool=pool)
"""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from understudy.data.examples import Gold, Pool
from understudy.reconciling.label_sources import NUMBERS
from understudy.report.figures import MeasuredTeacher, measure_teacher, reliability_figure, run_curves
from understudy.report.label_sources_table import HEADINGS, source_table
from understudy.report.run_text import curves_text, name_facts, result_table, summary
from understudy.store.files import local_path, write_text
from understudy.training.options import LBFGS
from understudy.training.run import Run

OF_SOURCES = tuple(f"reconciled.{number} of " for number in NUMBERS)


def write_page(path: str | Path, **parts: Any) -> None:
    """A page as a file; ``parts``: the arguments of ``page``."""
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
    """The HTML of a page: the parts that every page has, its own ``template``, and sections that several pages share.

    ``settings``: options, shown after the facts. All text is escaped; pictures come as ``Markup``.
    """
    shown = [*facts, *((name, str(value)) for name, value in (settings or {}).items())]
    content = "" if template is None else _render(template, **sections)
    every = {"title": title, "lead": lead, "verdict": verdict, "warnings": warnings, "facts": shown}
    return _render(frame, title=title, body=_render("body.html.jinja", content=content, **every, **sections))


def _render(template: str, **values: Any) -> Markup:
    return Markup(_templates().get_template(template).render(**values))


@cache
def _templates() -> jinja2.Environment:
    # Autoescape for every template: names of files and classes are the user's.
    return jinja2.Environment(
        loader=jinja2.PackageLoader("understudy", "report"), autoescape=True, undefined=jinja2.StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip


def teacher_section(teacher: MeasuredTeacher | None, note: str = "") -> dict[str, Any]:
    return {"trust": teacher, "trust_svg": teacher and reliability_figure(teacher), "trust_note": note}


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
    """The page of one training. ``settings``: its options, shown among the facts.

    The reliability of the teacher is shown as the training used it; of a loaded run it is fitted as ``us.slam()`` does.
    """
    config = run.config
    teacher = measure_teacher(
        gold, pool, reliability=next(iter(run.fits.values()), None), lower_bound=lower_bound,
        classes=config.get("classes"), class_names=config.get("class_names"),
    )  # fmt: skip
    parts = run_parts(run) | {"summary": summary(run, warnings)}
    write_page(path, warnings=warnings, settings=settings, **parts, **teacher_section(teacher))


def run_parts(run: Run) -> dict[str, Any]:
    """The parts of the page about the run itself."""
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
        "results": result_table(run),
        # To convergence it is a few points, whose loss leaves out the penalty and may rise: nothing to learn from.
        "curves_svg": run_curves(run.history, run.selected_epoch) if run.history and not converged else None,
        "curves_text": f"{curves_text(run.history)} The training loss is the method's own: comparable over epochs, not "
        "between methods.",
    }
