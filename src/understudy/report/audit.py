"""The page of an audit, and its pictures.

write_audit_report("audit.html", us.audit(gold, pool))
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup
from matplotlib.ticker import MaxNLocator

from understudy.auditing.measures import ClassAccuracy
from understudy.auditing.result import Audit
from understudy.auditing.words import added, chance, interval
from understudy.maths.proportions import Share
from understudy.report.figures import GREY, RIGHT, WRONG, accuracy_curve, drawing, name_lines, short
from understudy.report.page import write_page

# A page of more classes is a page nobody reads; the most frequent are shown.
MOST_CLASSES = 30
MOST_LEANS = 5
# The others are folded.
MOST_SOURCES = 20


def write_audit_report(
    path: str | Path,
    audit: Audit,
    *,
    title: str = "How good are these labels?",
    settings: Mapping[str, Any] | None = None,
) -> None:
    """``settings``: what was asked for, shown among the facts."""
    write_page(path, title=title, settings=settings, **audit_parts(audit))


def audit_parts(audit: Audit) -> dict[str, Any]:
    """What the page of an audit shows."""
    classes, form = _shown_classes(audit), audit.form.capitalize()
    pool = "" if audit.pool_rows is None else f" and {audit.pool_rows:,} pool rows"
    return {
        "template": "audit.html.jinja",
        "lead": f"{form} over {len(audit.class_names)} classes, {audit.gold_rows:,} gold rows{pool}.",
        "verdict": audit.verdict,
        "warnings": audit.warnings,
        "audit": audit,
        "classes": classes,
        "more_classes": len(audit.class_names) - len(classes),
        "leans": audit.confusion.leans[:MOST_LEANS],
        "ids": any(one.id is not None for one in (audit.suspects.top if audit.suspects else ())),
        "class_svg": class_figure(classes, audit.accuracy.overall.estimate),
        "flow_svg": flow_figure(audit) if audit.confusion.flows else None,
        "curve_svg": curve_figure(audit),
        "facts": _facts(audit),
        "share": _share,
        "interval": interval,
        "chance": chance,
        "added": added,
        "most_sources": MOST_SOURCES,
    }


def _shown_classes(audit: Audit) -> Sequence[ClassAccuracy]:
    every = audit.accuracy.per_class
    frequent = sorted(range(len(every)), key=lambda label: -every[label].gold_true)[:MOST_CLASSES]
    return [every[label] for label in sorted(frequent)]


def _facts(audit: Audit) -> list[tuple[str, str]]:
    facts = [
        ("Gold rows that measure the teacher", f"{audit.gold_rows:,}"),
        ("Gold rows wanted for a steady estimate", f"{audit.size.wanted:,}"),
        (f"More gold rows for a noise interval of ±{100 * audit.size.target:g} points", f"{audit.size.more:,}"),
    ]
    if audit.pool_rows is not None:
        facts += [
            ("Pool rows with a teacher label", f"{audit.pool_rows:,}"),
            ("Pool rows without a label (left out)", f"{audit.unlabelled:,}"),
        ]
    if audit.shift is not None:
        distance = f"{audit.shift.distance:.2f} ({chance(audit.shift.p_value)})"
        facts.append(("Distance between the teacher's answers on gold and pool", distance))
    return facts


def _share(share: Share) -> str:
    return f"{100 * share.estimate:.1f}" if share.known else "–"


def class_figure(classes: Sequence[ClassAccuracy], overall: float) -> Markup:
    """Precision and recall per class, with their intervals."""
    with drawing("classes", 0.9 + 0.42 * len(classes)) as (figure, result):
        ax = figure.add_subplot()
        looks = ((0.13, RIGHT, "o", "right when it says so"), (-0.13, WRONG, "s", "found when it is so"))
        for offset, colour, marker, label in looks:
            for line, one in enumerate(reversed(classes)):
                share = one.precision if marker == "o" else one.recall
                if share.known:
                    y, ends = line + offset, [100 * share.low, 100 * share.high]
                    ax.plot(ends, [y, y], color=colour, lw=2.5, alpha=0.5, solid_capstyle="butt")
                    ax.scatter([100 * share.estimate], [y], s=26, color=colour, marker=marker, zorder=3)
            ax.scatter([], [], color=colour, marker=marker, label=label)
        ax.axvline(100 * overall, color=GREY, lw=1, ls=":", label=f"all rows {overall:.1%}")
        name_lines(ax, [short(one.name) for one in classes], "gold rows, %")
        ax.set_xlim(right=101)
        figure.legend(loc="outside upper left", ncols=3)
    return result[0]


def flow_figure(audit: Audit) -> Markup:
    """The largest confusions as rows of the pool (of gold, without one)."""
    flows, names = audit.confusion.flows, [short(name) for name in audit.class_names]
    with drawing("flows", 0.8 + 0.36 * len(flows)) as (figure, result):
        ax = figure.add_subplot()
        for y, flow in enumerate(reversed(flows)):
            wrong = flow.pool_wrong
            ax.barh(y, flow.gold_rows if wrong is None else wrong[0], color="#e8b08a", edgecolor=WRONG, height=0.6)
            if wrong is not None:
                ax.plot(wrong[1:], [y, y], color="black", lw=1.3)
        rows = "gold rows" if audit.pool_rows is None else "estimated rows of the pool, with 95% interval"
        name_lines(ax, [f"{names[flow.truth]}→{names[flow.named]}" for flow in flows], rows)
        ax.set_xlim(0, None)
        ax.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    return result[0]


def curve_figure(audit: Audit) -> Markup | None:
    """Estimated accuracy against confidence, with its band; None for labels without a confidence."""
    curve = audit.curve
    if curve is None:
        return None
    with drawing("curve", 3.4) as (figure, result):
        accuracy_curve(
            figure.add_subplot(), curve.marks, ~curve.wrong, (curve.confidence, curve.accuracy),
            band=(curve.low, curve.high), measure="confidence" if audit.form.startswith("hard") else "margin",
        )  # fmt: skip
        figure.legend(loc="outside upper left", ncols=4)
    return result[0]
