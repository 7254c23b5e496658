"""The page of an audit, and its pictures.

write_audit_report("audit.html", us.audit(gold, pool))
"""

import base64
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from markupsafe import Markup
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from understudy.auditing.audit import Audit
from understudy.auditing.measures import ClassAccuracy
from understudy.data.examples import Pool
from understudy.io.write import write_columns
from understudy.report.figures import GREY, RIGHT, WRONG, accuracy_curve, drawing, interval_line, name_lines
from understudy.report.templates import facts, sentences, shorten, write_page
from understudy.web.cards import picture

# A page of more classes is a page without readers; the most frequent are shown.
MOST_CLASSES = 30
MOST_PAIRS = 5
# The others are folded.
MOST_SOURCES = 20
TITLE = "Label quality"


def write_audit_report(
    path: str | Path, audit: Audit, *, settings: Mapping[str, Any] | None = None,
    pool: Pool | None = None, file: Path | None = None,
) -> None:  # fmt: skip
    """``settings``: the options of the audit, shown among the facts. ``pool``: whose images are shown, if its rows are
    such; ``file``: where it was read from."""
    top = [] if audit.suspects is None or pool is None else audit.suspects.top
    pictures = {one.row: image for one in top if pool is not None and (image := thumbnail(pool, one.row))}
    write_page(path, title=TITLE, settings=settings, **audit_parts(audit) | {"pictures": pictures, "file": file})


def thumbnail(pool: Pool, row: int) -> str | None:
    """A row that is an image, as the address of a picture; None for any other."""
    (x,) = batch if isinstance(batch := pool.rows.take(torch.tensor([row])), Tensor) else [torch.empty(0)]
    if x.ndim < 2 or (x.ndim == 3 and x.shape[0] not in (1, 3)) or x.ndim > 3:
        return None
    content, kind = picture(x.numpy(), None, f"pool row {row}")
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def write_scores(path: Path, audit: Audit, pool: Pool, line: Callable[[int], int] | None) -> None:
    """A table of all pool rows: label, suggested label, the probability that the label is wrong."""
    found, names = audit.suspects, [*audit.class_names, ""]
    assert found is not None
    rows = range(len(pool))
    columns: dict[str, list[Any]] = {
        "row": list(rows),
        "line": [] if line is None else [line(row) for row in rows],
        "id": [] if pool.ids is None else pool.ids.tolist(),
        "label": [names[label] for label in found.labels],
        "suggested": [names[label] for label in found.suggestions] if found.by_features else [],
        "p_wrong": [None if value != value else round(float(value), 4) for value in found.probability],
    }
    write_columns(path, {name: cells for name, cells in columns.items() if cells})


def audit_parts(audit: Audit) -> dict[str, Any]:
    """The parts of an audit's page."""
    every = audit.accuracy.per_class
    # Of a class that gold does not have, and the teacher gave no gold row, nothing is known.
    known = [label for label, one in enumerate(every) if one.actual or one.predicted]
    frequent = sorted(known, key=lambda label: -every[label].actual)[:MOST_CLASSES]
    classes = [every[label] for label in sorted(frequent)]
    pool = "" if audit.pool_rows is None else f" and {audit.pool_rows:,} pool rows"
    return {
        "template": "audit.html.jinja",
        "lead": f"{audit.form.capitalize()} over {len(every)} classes, {audit.gold_rows:,} gold rows{pool}.",
        "verdict": audit.verdict,
        "warnings": audit.warnings,
        "audit": audit,
        "expectations": audit.expectations,
        "classes": classes,
        "more_classes": len(known) - len(classes),
        "unknown_classes": [one for one in every if not one.actual and not one.predicted],
        "asymmetries": audit.confusion.asymmetries[:MOST_PAIRS],
        "ids": any(row.id is not None for row in (audit.suspects.top if audit.suspects else ())),
        "class_svg": class_figure(classes, audit.accuracy.overall.estimate),
        "confusion_svg": confusion_figure(audit) if audit.confusion.pairs else None,
        "curve_svg": curve_figure(audit),
        "suspects_text": "".join(sentences("audit", "suspects", audit.suspects)) if audit.suspects else "",
        "facts": facts("audit", audit),
        "most_sources": MOST_SOURCES,
        "pictures": {},
        "file": None,
    }


def class_figure(classes: Sequence[ClassAccuracy], overall: float) -> Markup:
    """Precision and recall per class, with their intervals."""
    with drawing("classes", 0.9 + 0.42 * len(classes), legend=3) as (ax, result):
        for offset, colour, marker, measure in ((0.13, RIGHT, "o", "precision"), (-0.13, WRONG, "s", "recall")):
            for line, one in enumerate(reversed(classes)):
                if (share := getattr(one, measure)).known:
                    interval_line(ax, line + offset, share, colour, marker=marker)
            ax.scatter([], [], color=colour, marker=marker, label=measure)
        ax.axvline(100 * overall, color=GREY, lw=1, ls=":", label=f"accuracy {overall:.1%}")
        name_lines(ax, [shorten(one.name) for one in classes], "%")
        ax.set_xlim(right=101)
    return result[0]


def confusion_figure(audit: Audit) -> Markup:
    """The most frequent confusions as rows of the pool (of gold, without one)."""
    pairs, names = audit.confusion.pairs, [shorten(name) for name in audit.class_names]
    with drawing("confusions", 0.8 + 0.36 * len(pairs)) as (ax, result):
        for y, pair in enumerate(reversed(pairs)):
            wrong = pair.pool_wrong
            ax.barh(y, pair.size, color="#e8b08a", edgecolor=WRONG, height=0.6)
            if wrong is not None:
                ax.plot([wrong.low, wrong.high], [y, y], color="black", lw=1.2)
        labels = [f"{names[pair.truth]}→{names[pair.predicted]}" for pair in pairs]
        name_lines(ax, labels, "gold rows" if audit.pool_rows is None else "pool rows, estimated")
        ax.set_xlim(left=0)
        ax.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=7))
    return result[0]


def curve_figure(audit: Audit) -> Markup | None:
    """Estimated accuracy against confidence, with its band; None for labels without a confidence."""
    curve = audit.curve
    if curve is None:
        return None
    with drawing("curve", 3.4, legend=4) as (ax, result):
        accuracy_curve(
            ax, curve.gold_confidence, ~curve.wrong, (curve.confidence, curve.accuracy),
            band=(curve.low, curve.high), measure="confidence" if audit.form.startswith("hard") else "margin",
        )  # fmt: skip
    return result[0]
