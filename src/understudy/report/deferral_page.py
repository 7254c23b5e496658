"""A deferral rule in sentences and tables, on a terminal and as a page with the curve of accuracy against the share
deferred."""

from pathlib import Path

import numpy as np
from markupsafe import Markup

from understudy.auditing.deferral import Deferral
from understudy.report import templates
from understudy.report.figures import COLOURS, GREY, drawing

NAMES = {"combined": "student and teacher together", "teacher": "teacher's label", "abstain": "answered rows"}
#: Shares of the table; the picture has all.
SHOWN = (0.0, 0.02, 0.06, 0.1, 0.16, 0.24, 0.34, 0.5, 0.7, 1.0)


def print_deferral(found: Deferral) -> None:
    out = templates.wide_console()
    for table in _tables(found):
        templates.print_table(out, *table)
    templates.print_lines(out, deferral_lines(found))


def deferral_lines(found: Deferral) -> list[str]:
    return templates.sentences("deferral", "verdict", found)


def write_deferral_page(path: Path, found: Deferral) -> None:
    templates.write_page(
        path, template="deferral.html.jinja", title="Which rows to defer", verdict=deferral_lines(found),
        lead=f"Measured on {found.rows:,} rows with a true label that did not train the student.",
        tables=_tables(found), figure=_figure(found),
    )  # fmt: skip


def _tables(found: Deferral) -> list[tuple[str, list[str], list[list[str]]]]:
    """Title, headings and rows: student and teacher alone, the curve, and the classes where each has a threshold."""
    alone = {"student": found.student, "teacher": found.teacher, "together": found.combined}
    shares = [[name, templates.percent_range(share)] for name, share in alone.items() if share is not None]
    curves, share = found.curves.values(), next(iter(found.curves.values())).share
    places = {min(range(len(share)), key=lambda at: abs(share[at] - wanted)) for wanted in SHOWN}
    rows = []
    for at in sorted(places, reverse=True):
        if found.answer != "abstain" or share[at] < 1:
            cells = [f"{each.accuracy[at]:.1%} ({100 * each.low[at]:.1f}–{100 * each.high[at]:.1f})" for each in curves]
            rows.append([f"{share[at]:.1%}", *cells, f"{1000 * share[at] * (found.price or 0):,.4g}"])
    headings = ["deferred", *(NAMES[name] for name in found.curves), "cost per 1,000 rows"]
    if found.price is None:
        headings, *rows = (row[:-1] for row in (headings, *rows))
    band = f"Accuracy by the share deferred ({100 * (1 - found.delta):.3g}% band, at all shares at once)"
    tables = [(f"Each on all {found.rows:,} rows (95% CI)", ["", "accuracy"], shares), (band, headings, rows)]
    if found.classes:
        names = found.class_names or list(map(str, range(len(found.classes))))
        lines: list[list[str]] = []
        for name, one in zip(names, found.classes, strict=True):
            accuracy = templates.UNKNOWN if one.share == 1 and found.answer == "abstain" else f"{one.accuracy:.1%}"
            lines.append([name, f"{one.rows:,}", "yes" if one.promised else "no", f"{one.share:.0%}", accuracy])
        headings = ["class", "rows", "promised", "deferred", "accuracy"]
        tables.append(("By the class that the student predicts", headings, lines))
    return tables


def _figure(found: Deferral) -> Markup:
    with drawing("deferral", 3.8, legend=2) as (ax, result):
        for place, (name, curve) in enumerate(found.curves.items()):
            # A student that never answers has no accuracy.
            shown = [at for at, share in enumerate(curve.share) if name != "abstain" or share < 1]
            share, accuracy, low, high = (100 * np.array(each)[shown] for each in vars(curve).values())
            colour, label = COLOURS[1 + place], NAMES[name] if name == "abstain" else f"deferred rows: {NAMES[name]}"
            ax.plot(share, accuracy, color=colour, lw=2, ls=("-", "--")[place], label=label)
            if place == 0:
                ax.fill_between(share, low, high, color=colour, alpha=0.18, lw=0)
        levels = [("student alone", found.student, ":"), ("teacher alone", found.teacher, "-.")]
        for label, alone, style in levels:
            if alone is not None:
                ax.axhline(100 * alone.estimate, color=GREY, lw=1.2, ls=style, label=label)
        if found.target is not None:
            ax.axhline(100 * found.target, color=COLOURS[3], lw=1.2, label="target")
        if found.share is not None and found.accuracy is not None:
            ax.scatter([100 * found.share], [100 * found.accuracy], s=46, color=COLOURS[3], zorder=4, label="the rule")
        ax.set(xlabel="rows deferred, %", ylabel="accuracy, %", xlim=(0, 100))
    return result[0]
