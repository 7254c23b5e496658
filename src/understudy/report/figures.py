"""The report's pictures, as SVG text to put into a page: no script, no outside reference, nothing random.

Colours are Okabe and Ito's, which stay apart for colour-blind readers; markers differ too, for print in black.
"""

import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib
import matplotlib.ticker
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from understudy.comparison.outcome import Comparison
from understudy.report.trust import Trust

COLOURS = ("#E69F00", "#0072B2", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#000000")
MARKERS = ("s", "o", "^", "D", "v", "P", "X")
GREY = "#666666"
RIGHT, WRONG = "#0072B2", "#D55E00"
History = Sequence[dict[str, float]]

LOOK: Any = {
    # A method or class named "$x$" is a name, not a formula.
    "text.parse_math": False,
    "font.family": "sans-serif",
    "font.size": 10,
    "svg.fonttype": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "axes.titlesize": 10.5,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.grid": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.7,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "legend.fontsize": 9,
}


def reliability_figure(trust: Trust) -> str:
    """Accuracy against margin: raw gold points, isotonic steps; or one bar per class for bare hard labels."""
    return _class_bars(trust) if trust.curve is None else _step_curve(trust)


def _step_curve(trust: Trust) -> str:
    assert trust.curve is not None
    pool = trust.pool_confidence
    with drawing("reliability", 7.2, 3.9 if pool is not None else 3.3) as (figure, result):
        grid = figure.add_gridspec(
            2 if pool is not None else 1, 1, height_ratios=[4, 1][: 2 if pool is not None else 1]
        )
        ax = figure.add_subplot(grid[0])
        at, right = trust.confidence.numpy(), trust.right.numpy()
        # A fixed small spread keeps points of equal outcome apart; it carries no meaning.
        spread = np.random.default_rng(0).uniform(-0.025, 0.025, len(at))
        for outcome, colour, marker, name in ((True, RIGHT, "o", "right"), (False, WRONG, "x", "wrong")):
            mine = right == outcome
            ax.scatter(
                at[mine], right[mine] + spread[mine], s=16, c=colour, marker=marker, alpha=0.55, linewidths=1,
                label=f"gold row, teacher {name} ({int(mine.sum())})",
            )  # fmt: skip
        low, high = _range(at, pool)
        grid_x = np.concatenate([[low], trust.curve.knots.numpy().clip(low, high), [high]])
        values = trust.curve.values.numpy()
        # values[j] holds up to and including knots[j], so each step is drawn backwards from its knot.
        ax.step(grid_x, np.concatenate([values[:1], values, values[-1:]]), where="pre", color="black", lw=2,
                label="estimated accuracy")  # fmt: skip
        ax.axhline(trust.accuracy, color=GREY, lw=1, ls=":", label=f"overall accuracy {trust.accuracy:.0%}")
        ax.set(xlim=(low, high), ylim=(-0.06, 1.06), ylabel="share right")
        ax.yaxis.set_major_formatter(matplotlib.ticker.PercentFormatter(1.0, decimals=0))
        ax.legend(loc="center left", bbox_to_anchor=(0.0, 0.34), ncols=1, labelspacing=0.3)
        last = ax
        if pool is not None:
            last = figure.add_subplot(grid[1], sharex=ax)
            ax.tick_params(labelbottom=False)
            last.hist(pool.numpy(), bins=np.linspace(low, high, 41).tolist(), color="#b9b9b9")
            last.set_ylabel("pool rows")
            last.yaxis.set_major_locator(matplotlib.ticker.MaxNLocator(2, integer=True))
        last.set_xlabel(
            "margin: the teacher's best probability minus its second best"
            if trust.measure == "margin"
            else "the confidence the teacher gave"
        )
    return result[0]


def _range(at: Any, pool: Any) -> tuple[float, float]:
    every = at if pool is None else np.concatenate([at, pool.numpy()])
    low, high = float(every.min()), float(every.max())
    if low >= 0 and high <= 1:
        return 0.0, 1.0
    return low, high if high > low else low + 1.0


def _class_bars(trust: Trust) -> str:
    assert trust.per_class is not None
    estimate = trust.per_class.numpy()
    counts = np.bincount(trust.named.numpy(), minlength=trust.classes)
    correct = np.bincount(trust.named.numpy(), weights=trust.right.numpy(), minlength=trust.classes)
    shown = np.argsort(-counts, kind="stable")[:40]
    shown.sort()
    with drawing("reliability", 7.2, 3.2) as (figure, result):
        ax = figure.add_subplot()
        place = np.arange(len(shown))
        ax.bar(place, estimate[shown], color="#9ecae9", edgecolor=RIGHT, width=0.7, label="estimated accuracy")
        raw = correct[shown] / np.maximum(counts[shown], 1)
        seen = counts[shown] > 0
        ax.scatter(place[seen], raw[seen], color="black", s=18, zorder=3, label="share right among gold rows")
        ax.axhline(trust.accuracy, color=GREY, lw=1, ls=":", label=f"overall accuracy {trust.accuracy:.0%}")
        names = [f"{number}" if trust.class_names is None else short(trust.class_names[number]) for number in shown]
        if len(shown) <= 20:
            names = [f"{name}\n({counts[number]})" for name, number in zip(names, shown, strict=True)]
        leaning: Any = {"rotation": 35, "ha": "right"} if max(map(len, names)) * len(names) > 90 else {}
        ax.set_xticks(place, names, fontsize=9 if len(shown) <= 20 else 7, **leaning)
        ax.set(ylim=(0, 1.04), xlabel="class the teacher named (gold rows)", ylabel="share right")
        ax.yaxis.set_major_formatter(matplotlib.ticker.PercentFormatter(1.0, decimals=0))
        ax.grid(axis="x", visible=False)
        figure.legend(loc="outside upper left", ncols=3)
    return result[0]


def interval_figure(comparison: Comparison) -> str:
    """Per method: every seed as a point, the mean and its 95% interval."""
    lines = comparison.lines()
    with drawing("intervals", 7.2, 0.75 + 0.42 * len(lines)) as (figure, result):
        ax = figure.add_subplot()
        for place, line in enumerate(reversed(lines)):
            colour, _ = look_of(comparison, line.method)
            seeds = [100 * outcome.last for outcome in comparison.outcomes[line.method].values()]
            ax.scatter(seeds, [place + 0.2] * len(seeds), s=12, color=colour, alpha=0.45, linewidths=0)
            if line.last.count > 1:
                ends = [100 * line.last.low, 100 * line.last.high]
                ax.plot(ends, [place, place], color=colour, lw=3, solid_capstyle="butt")
            ax.scatter([100 * line.last.mean], [place], s=42, color=colour, zorder=3)
        ax.set_yticks(range(len(lines)), [line.method for line in reversed(lines)])
        ax.set(ylim=(-0.5, len(lines) - 0.4), xlabel="test accuracy, %")
        ax.grid(axis="y", visible=False)
    return result[0]


def look_of(comparison: Comparison, method: str) -> tuple[str, str]:
    """A method's colour and marker: grey without marker for what was not trained, else by its place."""
    trained = [name for name, by_seed in comparison.outcomes.items() if any(o.history for o in by_seed.values())]
    if method not in trained:
        return GREY, ""
    place = trained.index(method)
    return COLOURS[place % len(COLOURS)], MARKERS[place % len(MARKERS)]


def comparison_curves(comparison: Comparison) -> str:
    """Test accuracy and test loss over training, the mean of the seeds, with the range over seeds as a shade."""
    with drawing("curves", 7.2, 3.6) as (figure, result):
        axes = figure.subplots(1, 2)
        for method, by_seed in comparison.outcomes.items():
            colour, marker = look_of(comparison, method)
            histories = [outcome.history for outcome in by_seed.values() if outcome.history]
            if not histories:
                mean = 100 * float(np.mean([outcome.last for outcome in by_seed.values()]))
                axes[0].axhline(mean, color=colour, ls="--", lw=1.2, label=method)
                continue
            # A seed that stopped early stays where it was.
            longest = max(map(len, histories))
            histories = [history + [history[-1]] * (longest - len(history)) for history in histories]
            for ax, name, scale in ((axes[0], "test_accuracy", 100), (axes[1], "test_loss", 1)):
                stack = scale * np.array([[record[name] for record in history] for history in histories])
                done = 100 * np.arange(1, stack.shape[1] + 1) / stack.shape[1]
                keep = _thinned(len(done))
                ax.fill_between(done[keep], stack.min(0)[keep], stack.max(0)[keep], color=colour, alpha=0.09, lw=0)
                ax.plot(
                    done[keep], stack.mean(0)[keep], color=colour, lw=1.5, label=method,
                    marker=marker, markersize=4, markevery=max(1, len(keep) // 8),
                )  # fmt: skip
        axes[0].set(title="test accuracy, %", xlabel="share of training done, %")
        axes[1].set(title="test loss", xlabel="share of training done, %")
        _fit_second_half(axes[0])
        _fit_second_half(axes[1])
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=6)
    return result[0]


def run_curves(history: History, selected_epoch: int | None = None) -> str:
    """One run: accuracy on test and select rows where there are any, and the losses."""
    epochs = np.array([record["epoch"] for record in history])
    keep = _thinned(len(epochs))
    accuracies = [name for name in ("test_accuracy", "select_accuracy") if name in history[0]]
    losses = [name for name in ("loss", "test_loss", "select_loss") if name in history[0]]
    panels = [("loss", losses, 1.0)] + ([("accuracy, %", accuracies, 100.0)] if accuracies else [])
    with drawing("curves", 7.2, 2.9) as (figure, result):
        axes = figure.subplots(1, len(panels), squeeze=False)[0]
        for ax, (title, names, scale) in zip(axes, reversed(panels), strict=True):
            for name in names:
                colour, style = _RUN_LOOK[name.partition("_")[0]]
                values = scale * np.array([record[name] for record in history])
                marker = "o" if len(epochs) == 1 else None
                label = {"loss": "training"}.get(name, name.partition("_")[0])
                ax.plot(epochs[keep], values[keep], color=colour, ls=style, lw=1.6, marker=marker, label=label)
            if selected_epoch is not None:
                ax.axvline(selected_epoch, color=GREY, lw=1, ls=":", label=f"chosen epoch {selected_epoch}")
            ax.set(title=title, xlabel="epoch")
            ax.xaxis.set_major_locator(matplotlib.ticker.MaxNLocator(integer=True))
            ax.legend()
    return result[0]


_RUN_LOOK: dict[str, tuple[str, Any]] = {
    "loss": ("black", "-"),
    "test": (COLOURS[1], "-"),
    "select": (COLOURS[3], "--"),
}


def _fit_second_half(ax: Axes) -> None:
    """Limits by the second half of training: the first rise or fall would flatten what tells methods apart."""
    ends = [np.asarray(line.get_ydata(), dtype=float) for line in ax.lines]
    late = np.concatenate([end if len(end) <= 2 else end[len(end) // 2 :] for end in ends])
    margin = 0.12 * (late.max() - late.min() or 1.0)
    ax.set_ylim(late.min() - margin, late.max() + margin)
    ax.set_xlim(0, 100)


def _thinned(points: int, most: int = 120) -> Any:
    """At most so many places, first and last included: a page need not hold 10,000 epochs."""
    return np.unique(np.linspace(0, points - 1, min(points, most)).round().astype(int))


@contextmanager
def drawing(name: str, width: float, height: float) -> Iterator[tuple[Figure, list[str]]]:
    """A figure to draw on; its SVG is the list's only entry when the block ends."""
    result: list[str] = []
    # The salt makes ids the same every time, and different between the figures of a page.
    with matplotlib.rc_context({**LOOK, "svg.hashsalt": name}):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure, result
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    result.append(_inline(buffer.getvalue()))


def _inline(svg: str) -> str:
    """SVG as a part of an HTML page: without prolog, metadata, namespaces, fixed size and the ids nothing refers to."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", svg)
    svg = re.sub(r'<g id="[^"]*"', "<g", svg)
    head, _, body = svg.partition(">")
    view = re.search(r'viewBox="[^"]*"', head)
    assert view is not None
    return f'<svg {view.group(0)} aria-hidden="true">{body.strip()}'


def short(name: str, longest: int = 24) -> str:
    return name if len(name) <= longest else name[: longest - 1] + "…"
