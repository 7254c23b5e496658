"""The page of a deferral rule: the curve of accuracy against the share deferred, and its table."""

from pathlib import Path

import numpy as np
from markupsafe import Markup

from understudy.auditing.deferral import Deferral
from understudy.report.deferral_text import deferral_lines, deferral_tables
from understudy.report.figures import COLOURS, GREY, drawing
from understudy.report.templates import write_page

_LABELS = {
    "combined": "deferred rows by student and teacher together",
    "teacher": "deferred rows by the teacher alone",
    "abstain": "answered rows",
}


def write_deferral_page(path: str | Path, found: Deferral) -> None:
    write_page(
        path, template="deferral.html.jinja", title="Which rows to defer", verdict=deferral_lines(found),
        lead=f"Measured on {found.rows:,} rows with a true label that did not train the student.",
        tables=deferral_tables(found), figure=deferral_figure(found),
    )  # fmt: skip


def deferral_figure(found: Deferral) -> Markup:
    with drawing("deferral", 3.8) as (figure, result):
        ax = figure.add_subplot()
        for place, (name, curve) in enumerate(found.curves.items()):
            # Without rows there is no accuracy: a student that never answers.
            shown = [at for at, share in enumerate(curve.share) if name != "abstain" or share < 1]
            share, accuracy, low, high = (
                100 * np.array(each)[shown] for each in (curve.share, curve.accuracy, curve.low, curve.high)
            )
            colour = COLOURS[1 + place]
            ax.plot(share, accuracy, color=colour, lw=2, ls="-" if place == 0 else "--", label=_LABELS[name])
            if place == 0:
                ax.fill_between(share, low, high, color=colour, alpha=0.18, lw=0)
        levels = {"student alone": (found.student, ":"), "teacher alone": (found.teacher, "-.")}
        for label, (alone, style) in levels.items():
            if alone is not None:
                ax.axhline(100 * alone.estimate, color=GREY, lw=1.2, ls=style, label=label)
        if found.target is not None:
            ax.axhline(100 * found.target, color=COLOURS[3], lw=1.2, label="target")
        if found.share is not None and found.accuracy is not None:
            ax.scatter([100 * found.share], [100 * found.accuracy], s=46, color=COLOURS[3], zorder=4, label="the rule")
        ax.set_xlabel("rows deferred, %")
        ax.set_ylabel("accuracy, %")
        ax.set_xlim(0, 100)
        figure.legend(loc="outside upper left", ncols=2)
    return result[0]
