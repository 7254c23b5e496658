"""The page of an audit: complete in itself, prints on A4.

write_audit_report("audit.html", us.audit(gold, pool))
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from understudy.auditing.accuracy import ClassAccuracy
from understudy.auditing.result import Audit
from understudy.auditing.words import chance, interval
from understudy.maths.proportions import Share
from understudy.report.audit_figures import class_figure, curve_figure, flow_figure
from understudy.report.page import _template
from understudy.store.files import write_text

# A page of more classes is a page nobody reads; the most frequent are shown.
MOST_CLASSES = 30
MOST_LEANS = 5


def write_audit_report(
    path: str | Path,
    found: Audit,
    *,
    title: str = "How good are these labels?",
    settings: Mapping[str, Any] | None = None,
) -> None:
    """``settings``: what was asked for, shown among the facts."""
    curve, classes = curve_figure(found), _shown_classes(found)
    page = _template().environment.get_template("audit.html.jinja").render(
        title=title,
        lead=_lead(found),
        verdict=found.verdict,
        warnings=found.warnings,
        audit=found,
        classes=classes,
        more_classes=len(found.class_names) - len(classes),
        leans=found.confusion.leans[:MOST_LEANS],
        ids=any(one.id is not None for one in (found.suspects.top if found.suspects else ())),
        class_svg=Markup(class_figure(classes, found.accuracy.overall.estimate)),
        flow_svg=Markup(flow_figure(found)) if found.confusion.flows else None,
        curve_svg=None if curve is None else Markup(curve),
        facts=[*_facts(found), *((name, str(value)) for name, value in (settings or {}).items())],
        share=_share,
        interval=interval,
        chance=chance,
    )  # fmt: skip
    write_text(Path(path), page)


def _lead(found: Audit) -> str:
    pool = "" if found.pool_rows is None else f" and {found.pool_rows:,} pool rows"
    return f"{found.form.capitalize()} over {len(found.class_names)} classes, {found.gold_rows:,} gold rows{pool}."


def _shown_classes(found: Audit) -> Sequence[ClassAccuracy]:
    every = found.accuracy.per_class
    frequent = sorted(range(len(every)), key=lambda label: -every[label].gold_true)[:MOST_CLASSES]
    return [every[label] for label in sorted(frequent)]


def _facts(found: Audit) -> list[tuple[str, str]]:
    facts = [
        ("Gold rows that measure the teacher", f"{found.gold_rows:,}"),
        ("Gold rows wanted for a steady estimate", f"{found.size.wanted:,}"),
        (f"More gold rows for a noise interval of ±{100 * found.size.target:g} points", f"{found.size.more:,}"),
    ]
    if found.pool_rows is not None:
        facts += [
            ("Pool rows with a teacher label", f"{found.pool_rows:,}"),
            ("Pool rows without a label (left out)", f"{found.unlabelled:,}"),
        ]
    if found.shift is not None:
        facts.append(
            (
                "Distance between the teacher's answers on gold and pool",
                f"{found.shift.distance:.2f} ({chance(found.shift.p_value)})",
            )
        )
    return facts


def _share(share: Share) -> str:
    return f"{100 * share.estimate:.1f}" if share.known else "–"
