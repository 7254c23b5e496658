"""The page of estimates: a table, and a picture of the intervals beside those of gold alone.

write_estimates_report("shares.html", us.estimate(gold, pool), (len(gold), len(pool)))
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from understudy.auditing.pool_estimates import Estimate
from understudy.report.estimates_text import estimate_tables
from understudy.report.figures import GREY, RIGHT, drawing, interval_line, name_lines
from understudy.report.templates import shorten, write_page

# More lines than this are in the table alone.
MOST_LINES = 60


def write_estimates_report(
    path: str | Path, found: Sequence[Estimate], rows: tuple[int, int], width: float | None = None, *,
    settings: Mapping[str, Any] | None = None,
) -> None:  # fmt: skip
    """``rows``: of gold and pool. ``width``: that gold rows are counted for, from end to end."""
    drawn = [
        (what, group)
        for what in dict.fromkeys(one.what for one in found)
        if (group := [one for one in found if one.what == what and one.value.known and not one.difference])
    ]
    write_page(
        path, template="estimates.html.jinja", title="What the pool is made of", settings=settings,
        lead=f"Estimated from {rows[0]:,} gold rows and the labels of {rows[1]:,} pool rows.",
        tables=estimate_tables(found, width), names=3 if any(one.group for one in found) else 2, drawn=drawn,
        figures={what: estimates_figure(what, group[:MOST_LINES]) for what, group in drawn},
    )  # fmt: skip


def estimates_figure(what: str, found: Sequence[Estimate]) -> Markup:
    """A line for each estimate, above that of gold alone."""
    with drawing(f"estimates {what}", 0.9 + 0.34 * len(found), legend=2) as (ax, result):
        for line, one in enumerate(reversed(found)):
            if one.gold_only is not None:
                ends = [100 * one.gold_only.low, 100 * one.gold_only.high]
                ax.plot(ends, [line - 0.16] * 2, color=GREY, lw=1.5, alpha=0.7, solid_capstyle="butt")
            interval_line(ax, line + 0.1, one.value, RIGHT)
        ax.plot([], [], color=RIGHT, lw=3, alpha=0.5, marker="o", label="gold and pool, 95% CI")
        ax.plot([], [], color=GREY, lw=1.5, label="gold alone")
        full = [", ".join(part for part in (one.name, one.group) if part) or "all" for one in found]
        named = ["→".join(map(shorten, name.split("→"))) for name in full]
        name_lines(ax, named, f"{what.replace('f1', 'F1')}, %")
    return result[0]
