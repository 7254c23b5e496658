"""The reports' pictures, as SVG text to put into a page: no script, no outside reference, nothing random.

Here are the tools of every page, the pictures of a single run, and the teacher's accuracy on gold by its confidence.
The pictures of comparisons and audits are with their pages. Colours are Okabe and Ito's, which colour-blind readers can
tell apart; markers differ too, for print in black.
"""

import io
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np
import torch
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, MaxNLocator, PercentFormatter
from torch import Tensor

from understudy.data.examples import Gold, Pool, weigh_by_gold
from understudy.labels.reliability import Reliability
from understudy.maths.accuracy_curves import StepCurve
from understudy.maths.proportions import Share, exact, widen
from understudy.report.templates import shorten


class MeasuredTeacher(NamedTuple):
    """The teacher's estimated accuracy, and the gold rows it comes from."""

    estimate: Reliability
    #: Of each calibration row: the covariate of alpha, e.g. the margin or the given confidence.
    confidence: Tensor
    right: Tensor
    #: The teacher's class.
    predicted: Tensor
    pool_confidence: Tensor | None = None
    class_names: Sequence[str] | None = None

    @property
    def accuracy(self) -> float:
        return float(self.right.double().mean())


def measure_teacher(
    gold: Gold | None,
    pool: Pool | None = None,
    *,
    reliability: Reliability | None = None,
    lower_bound: float = 0.5,
    classes: int | None = None,
    class_names: Sequence[str] | None = None,
) -> MeasuredTeacher | None:
    """The teacher's accuracy on gold; None where fewer than two gold rows have a teacher label.

    ``reliability``: the estimate a training used (``run.fits``); by default it is fitted as ``us.slam()`` does.
    """
    gold, pool = weigh_by_gold(gold, pool)
    rows, labels = (torch.empty(0), None) if gold is None else gold.calibration()
    if gold is None or labels is None or len(rows) < 2:
        return None
    y, predicted = gold.y[rows], labels.top1()
    trust = reliability or Reliability.fit(labels, y, lower_bound, classes=classes)
    on_pool, theirs = None, None if pool is None else pool.teacher
    if theirs is not None and theirs.form == labels.form and trust.alpha_steps is not None:
        on_pool = trust.covariate_of(theirs.take(theirs.labelled().nonzero().squeeze(1)))
    return MeasuredTeacher(trust, trust.covariate_of(labels), predicted == y, predicted, on_pool, class_names)


COLOURS = ("#E69F00", "#0072B2", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#000000")
MARKERS = ("s", "o", "^", "D", "v", "P", "X")
GREY = "#666666"
RIGHT, WRONG = "#0072B2", "#D55E00"
#: In inches, of a page and of a phone's: letters are as large as the text around them.
WIDTH, NARROW = 7.2, 4.1
# More marks than this only blacken the picture, and more points of a curve only fill the page.
MOST_MARKS, MOST_POINTS = 2000, 120
CONFIDENCE_NAMES = {
    "margin": "margin: the teacher's highest probability minus its second highest",
    "entropy": "negative entropy of the teacher's probabilities",
    "confidence": "the teacher's confidence",
}
History = Sequence[dict[str, float]]

LOOK = matplotlib.rc_params_from_file(Path(__file__).with_name("look.mplstyle"), use_default_template=False)
_SETS = {"loss": "training", "test": "test", "select": "validation"}
_RUN_LOOK = {"loss": ("black", "-"), "test": (COLOURS[1], "-"), "select": (COLOURS[3], "--")}


@contextmanager
def drawing(name: str, height: float, *, legend: int = 0, **panels: Any) -> Iterator[tuple[Any, list[Markup]]]:
    """The axes of a figure to draw on; its SVG is the list's only entry when the block ends.

    There are two of it, for a wide page and for a phone's; the page's rules show the one that fits. ``legend``: the
    columns of one above the picture. ``panels``: of ``Figure.subplots``, where there are several axes.
    """
    result: list[Markup] = []
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    with matplotlib.rc_context(LOOK):
        yield figure.subplots(**panels), result
        if legend:
            figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside upper left", ncols=legend)
        wide = _svg(figure, name, "wide")
        _narrow(figure)
        result.append(wide + _svg(figure, f"{name}, narrow", "narrow"))


def _svg(figure: Figure, salt: str, kind: str) -> Markup:
    buffer = io.StringIO()
    # The salt makes ids the same every time, and different between the figures of a page.
    with matplotlib.rc_context({"svg.hashsalt": salt}):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return _inline(buffer.getvalue(), kind)


def _narrow(figure: Figure) -> None:
    """Lay the figure out anew for a phone: panels below each other, short lines of text, names of classes upright."""
    panels = [ax for ax in figure.axes if (place := ax.get_subplotspec()) and place.get_gridspec().ncols > 1]
    grid = figure.add_gridspec(max(len(panels), 1), 1)
    for number, ax in enumerate(panels):
        ax.set_subplotspec(grid[number])
    height = figure.get_size_inches()[1] * max(1.0, 0.8 * len(panels))
    # A matrix of squares gets no higher than it is wide.
    figure.set_size_inches(NARROW, min(height, NARROW) if any(ax.images for ax in figure.axes) else height)
    for legend in list(figure.legends):
        names = [text.get_text() for text in legend.get_texts()]
        columns = 1 if max(map(len, names)) > 25 else 2
        legend.remove()
        handles = [handle for handle in legend.legend_handles if handle is not None]
        figure.legend(handles, names, loc="outside upper left", ncols=columns)
    for ax in figure.axes:
        ax.set_xlabel(textwrap.fill(ax.get_xlabel(), 36))
        if not ax.images and isinstance(ax.yaxis.get_major_locator(), FixedLocator):
            names = [text.get_text().replace("→", "→\n") for text in ax.get_yticklabels()]
            ax.set_yticks(ax.get_yticks(), [name if "\n" in name else textwrap.fill(name, 24) for name in names])
        labels = ax.get_xticklabels()
        if isinstance(ax.xaxis.get_major_locator(), FixedLocator) and sum(len(x.get_text()) for x in labels) > 45:
            for label in labels:
                label.set(rotation=90, ha="center")


def _inline(svg: str, kind: str) -> Markup:
    """SVG as a part of an HTML page: without prolog, metadata, namespaces, fixed size and the ids nothing refers to."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", svg)
    svg = re.sub(r'<g id="[^"]*"', "<g", svg)
    head, _, body = svg.partition(">")
    view = re.search(r'viewBox="[^"]*"', head)
    assert view is not None
    return Markup(f'<svg class="{kind}" {view.group(0)} aria-hidden="true">{body.strip()}')


def interval_line(ax: Axes, y: float, share: Share, colour: str, *, marker: str = "o") -> None:
    """A share as a mark on its interval, in percent."""
    ax.plot([100 * share.low, 100 * share.high], [y, y], color=colour, lw=3, alpha=0.5, solid_capstyle="butt")
    ax.scatter([100 * share.estimate], [y], s=26, color=colour, marker=marker, zorder=3)


def name_lines(ax: Axes, names: Sequence[str], xlabel: str) -> None:
    """A line for each name, the first on top: number ``len(names) - 1 - i`` belongs to ``names[i]``."""
    ax.set_yticks(range(len(names)), list(reversed(names)))
    ax.set(ylim=(-0.6, len(names) - 0.35), xlabel=xlabel)
    ax.grid(axis="y", visible=False)


def accuracy_curve(
    ax: Axes, confidence: Any, right: Any, steps: tuple[Any, Any], *, measure: str, band: tuple[Any, Any] | None = None
) -> None:
    """Accuracy against confidence: every gold row as a mark, the estimate as steps, its 95% band where there is one.

    ``steps``: confidences and the accuracy that holds up to and including each.
    """
    knots, accuracy = steps
    if band is not None:
        ax.fill_between(knots, *band, step="pre", color=RIGHT, alpha=0.18, lw=0, label="95% band")
    # Each step is drawn backwards from its knot.
    ax.step(knots, accuracy, where="pre", color="black", lw=2, label="estimated accuracy")
    if len(knots) == 1:
        ax.scatter(knots, accuracy, color="black")
    for outcome, colour, marker, name in ((True, RIGHT, "o", "correct"), (False, WRONG, "x", "wrong")):
        at = confidence[right == outcome]
        shown = at[:: max(1, -(-len(at) // MOST_MARKS))]
        # A fixed small spread keeps marks apart; it carries no meaning.
        spread = np.random.default_rng(0).uniform(-0.025, 0.025, len(shown))
        label = f"gold row, {name} ({len(at)})"
        ax.scatter(shown, outcome + spread, s=14, c=colour, marker=marker, alpha=0.5, linewidths=1, label=label)
    ax.set(ylim=(-0.06, 1.06), ylabel="accuracy", xlabel=CONFIDENCE_NAMES[measure])
    ax.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))


def accuracy_bars(shares: Mapping[str, tuple[float, float, float]]) -> Markup:
    """Accuracies in percent with their 95% intervals, one line each: ``(estimate, low, high)``, the first in colour."""
    with drawing("accuracy", 0.62 + 0.36 * len(shares)) as (ax, result):
        for line, (estimate, low, high) in enumerate(reversed(list(shares.values()))):
            colour = RIGHT if line == len(shares) - 1 else "#b9b9b9"
            ax.barh(line, 100 * estimate, height=0.56, color=colour)
            if high > low:
                ax.plot([100 * low, 100 * high], [line, line], color="black", lw=1.6)
            ax.annotate(f"{100 * estimate:.1f}", (100 * max(estimate, high), line), xytext=(5, 0),
                        textcoords="offset points", va="center", fontsize=9)  # fmt: skip
        name_lines(ax, list(shares), "accuracy, %; lines: 95% CI")
        ax.set_xlim(0, 109 if max(high for _, _, high in shares.values()) > 0.92 else 100)
    return result[0]


def confidence_figure(parts: Sequence[Sequence[float]], effect: float) -> Markup:
    """Accuracy of parts of the rows against their mean confidence, with 95% intervals; on the line is calibrated."""
    with drawing("confidence", 3.0, legend=2) as (ax, result):
        ax.plot([0, 100], [0, 100], color=GREY, lw=1, ls=":", label="calibrated")
        for number, (confidence, correct, rows) in enumerate(parts):
            share = widen(exact(round(correct), round(rows)), effect)
            ax.plot([100 * confidence] * 2, [100 * share.low, 100 * share.high], color=RIGHT, lw=2, alpha=0.5)
            name = None if number else f"about {rows:.0f} rows each, 95% CI"
            ax.scatter(100 * confidence, 100 * share.estimate, s=26, color=RIGHT, zorder=3, label=name)
        least = 100 * min(part[0] for part in parts)
        ax.set(xlim=(max(0, least - 8), 101), ylim=(0, 103), xlabel="mean confidence, %", ylabel="accuracy, %")
    return result[0]


def confusion_matrix_figure(counts: Any, names: Sequence[str]) -> Markup:
    """Rows by true class (down) and predicted class (across), shaded by the share of the true class."""
    classes, few = len(counts), len(counts) <= 12
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    side = min(6.4, 1.3 + 0.42 * classes)
    with drawing("confusion", side) as (ax, result):
        ax.figure.set_layout_engine("compressed")
        ax.imshow(shares, cmap="Blues", vmin=0, vmax=1.25, interpolation="nearest")
        if few:
            for true, predicted in np.ndindex(classes, classes):
                if counts[true, predicted]:
                    ax.text(predicted, true, f"{counts[true, predicted]}", ha="center", va="center", fontsize=9,
                            color="white" if shares[true, predicted] > 0.75 else "black")  # fmt: skip
        at = range(0, classes, 1 if classes <= 40 else 10)
        ax.set_yticks(at, [shorten(names[each], 24) for each in at], fontsize=9 if few else 6)
        lean: Any = {} if max(map(len, names)) <= 7 else {"rotation": 35 if few else 90, "ha": "right"}
        ax.set_xticks(at, [shorten(names[each], 24) for each in at], fontsize=9 if few else 6, **lean)
        ax.set(xlabel="predicted", ylabel="true")
        ax.grid(visible=False)
    return result[0]


def reliability_figure(trust: MeasuredTeacher) -> Markup:
    """Accuracy against margin: raw gold points, isotonic steps; or one bar per class for bare hard labels."""
    curve = trust.estimate.alpha_steps
    return _class_bars(trust) if curve is None else _step_curve(trust, curve)


def teacher_section(teacher: MeasuredTeacher | None, note: str = "") -> dict[str, Any]:
    return {"trust": teacher, "trust_svg": teacher and reliability_figure(teacher), "trust_note": note}


def _step_curve(trust: MeasuredTeacher, curve: StepCurve) -> Markup:
    pool = None if trust.pool_confidence is None else trust.pool_confidence.numpy()
    confidence, values = trust.confidence.numpy(), curve.values.numpy()
    low, high = _range(confidence if pool is None else np.concatenate([confidence, pool]))
    knots = np.concatenate([[low], curve.knots.numpy().clip(low, high), [high]])
    steps = (knots, np.concatenate([values[:1], values, values[-1:]]))
    height, parts = (3.3, [4]) if pool is None else (3.9, [4, 1])
    grid: dict[str, Any] = {"nrows": len(parts), "height_ratios": parts, "sharex": True, "squeeze": False}
    with drawing("reliability", height, **grid) as (axes, result):
        ax, *below = axes[:, 0]
        accuracy_curve(ax, confidence, trust.right.numpy(), steps, measure=trust.estimate.covariate)
        ax.axhline(trust.accuracy, color=GREY, lw=1, ls=":", label=f"overall accuracy {trust.accuracy:.0%}")
        ax.set_xlim(1.02 * low - 0.02 * high, 1.02 * high - 0.02 * low)  # marks at the ends are seen whole
        ax.legend(loc="center left", bbox_to_anchor=(0.0, 0.34), ncols=1, labelspacing=0.3)
        for rows in below:
            rows.set(xlabel=ax.get_xlabel(), ylabel="pool rows")
            ax.set_xlabel("")
            rows.hist(pool, bins=np.linspace(low, high, 41).tolist(), color="#b9b9b9")
            rows.yaxis.set_major_locator(MaxNLocator(2, integer=True))
    return result[0]


def _range(values: Any) -> tuple[float, float]:
    low, high = float(values.min()), float(values.max())
    return (0.0, 1.0) if low >= 0 and high <= 1 else (low, high if high > low else low + 1.0)


def _class_bars(trust: MeasuredTeacher) -> Markup:
    assert trust.estimate.per_class is not None
    per_class, classes = trust.estimate.per_class.numpy(), trust.estimate.classes
    counts = np.bincount(trust.predicted.numpy(), minlength=classes)
    correct = np.bincount(trust.predicted.numpy(), weights=trust.right.numpy(), minlength=classes)
    shown = np.sort(np.argsort(-counts, kind="stable")[:40])
    at, raw = np.arange(len(shown))[::-1], 100 * correct[shown] / np.maximum(counts[shown], 1)
    names = [f"{number}" if trust.class_names is None else shorten(trust.class_names[number]) for number in shown]
    names = [f"{name} ({counts[number]})" for name, number in zip(names, shown, strict=True)]
    with drawing("reliability", 0.9 + 0.3 * len(shown), legend=3) as (ax, result):
        ax.barh(at, 100 * per_class[shown], color="#9ecae9", edgecolor=RIGHT, height=0.6, label="estimated precision")
        seen = counts[shown] > 0
        ax.scatter(raw[seen], at[seen], color="black", s=18, zorder=3, label="precision on gold rows")
        ax.axvline(100 * trust.accuracy, color=GREY, lw=1, ls=":", label=f"overall accuracy {trust.accuracy:.0%}")
        name_lines(ax, names, "precision, %, by the class that the teacher names (gold rows)")
        ax.set_xlim(0, 104)
    return result[0]


def run_curves(history: History, selected_epoch: int | None = None) -> Markup:
    """One run: accuracy on the test and validation sets where there are any, and the losses."""
    epochs = np.array([record["epoch"] for record in history])
    keep = thinned(len(epochs))
    accuracies, losses = ("test_accuracy", "select_accuracy"), ("loss", "test_loss", "select_loss")
    panels = [("accuracy, %", accuracies, 100.0), ("loss", losses, 1.0)]
    panels = [panel for panel in panels if any(name in history[0] for name in panel[1])]
    with drawing("curves", 2.9, ncols=len(panels), squeeze=False) as (axes, result):
        for ax, (title, names, scale) in zip(axes[0], panels, strict=True):
            for name in names:
                if name in history[0]:
                    rows = name.partition("_")[0]
                    colour, style = _RUN_LOOK[rows]
                    values = scale * np.array([record[name] for record in history])
                    mark = "o" if len(epochs) == 1 else None
                    ax.plot(epochs[keep], values[keep], c=colour, ls=style, lw=1.6, marker=mark, label=_SETS[rows])
            if selected_epoch is not None:
                ax.axvline(selected_epoch, color=GREY, lw=1, ls=":", label=f"selected epoch {selected_epoch}")
            ax.set(title=title, xlabel="epoch")
            ax.xaxis.set_major_locator(MaxNLocator(integer=True))
            ax.legend()
    return result[0]


def thinned(points: int) -> Any:
    """At most so many of them, first and last included: a page need not hold 10,000 epochs."""
    return np.unique(np.linspace(0, points - 1, min(points, MOST_POINTS)).round().astype(int))
