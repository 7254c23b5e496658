"""The pictures of an audit, as SVG text for its page."""

from collections.abc import Sequence

import matplotlib.ticker
import numpy as np

from understudy.auditing.accuracy import ClassAccuracy
from understudy.auditing.result import Audit
from understudy.report.figures import GREY, RIGHT, WRONG, drawing, short

# More marks than this only blacken the picture.
_MOST_MARKS = 2000


def class_figure(classes: Sequence[ClassAccuracy], overall: float) -> str:
    """Precision and recall per class, with their intervals."""
    with drawing("classes", 7.2, 0.9 + 0.42 * len(classes)) as (figure, result):
        ax = figure.add_subplot()
        looks = ((0.13, RIGHT, "o", "right when it says so"), (-0.13, WRONG, "s", "found when it is so"))
        for offset, colour, marker, label in looks:
            shares = [one.precision if marker == "o" else one.recall for one in classes]
            for place, share in enumerate(reversed(shares)):
                if share.known:
                    ends = [100 * share.low, 100 * share.high]
                    ax.plot(ends, [place + offset] * 2, color=colour, lw=2.5, alpha=0.5, solid_capstyle="butt")
                    ax.scatter([100 * share.estimate], [place + offset], s=26, color=colour, marker=marker, zorder=3)
            ax.scatter([], [], color=colour, marker=marker, label=label)
        ax.axvline(100 * overall, color=GREY, lw=1, ls=":", label=f"all rows {overall:.1%}")
        ax.set_yticks(range(len(classes)), [short(one.name) for one in reversed(classes)])
        ax.set(ylim=(-0.6, len(classes) - 0.4), xlabel="gold rows, %")
        ax.set_xlim(right=101)
        ax.grid(axis="y", visible=False)
        figure.legend(loc="outside upper left", ncols=3)
    return result[0]


def flow_figure(found: Audit) -> str:
    """The largest confusions as rows of the pool (of gold, without one)."""
    flows = found.confusion.flows
    with drawing("flows", 7.2, 0.8 + 0.36 * len(flows)) as (figure, result):
        ax = figure.add_subplot()
        for place, flow in enumerate(reversed(flows)):
            wrong = flow.pool_wrong
            ax.barh(place, flow.gold_rows if wrong is None else wrong[0], color="#e8b08a", edgecolor=WRONG, height=0.6)
            if wrong is not None:
                ax.plot(wrong[1:], [place, place], color="black", lw=1.3)
        names = [f"{short(found.class_names[f.truth])}→{short(found.class_names[f.named])}" for f in reversed(flows)]
        ax.set_yticks(range(len(flows)), names)
        ax.set(ylim=(-0.6, len(flows) - 0.4), xlim=(0, None))
        ax.set_xlabel("gold rows" if found.pool_rows is None else "estimated rows of the pool, with 95% interval")
        ax.xaxis.set_major_locator(matplotlib.ticker.MaxNLocator(8, integer=True))
        ax.grid(axis="y", visible=False)
    return result[0]


def curve_figure(found: Audit) -> str | None:
    """Estimated accuracy against confidence, with its band; None for labels without a confidence."""
    curve = found.curve
    if curve is None:
        return None
    with drawing("curve", 7.2, 3.4) as (figure, result):
        ax = figure.add_subplot()
        # A value holds up to and including its confidence, so each step is drawn backwards.
        ax.fill_between(
            curve.confidence, 100 * curve.low, 100 * curve.high, step="pre", color=RIGHT, alpha=0.18, lw=0,
            label="95% band",
        )  # fmt: skip
        ax.step(curve.confidence, 100 * curve.accuracy, where="pre", color="black", lw=2, label="estimated accuracy")
        if len(curve.confidence) == 1:
            ax.scatter(curve.confidence, 100 * curve.accuracy, color="black")
        for wrong, colour, marker, label in ((False, RIGHT, "o", "right"), (True, WRONG, "x", "wrong")):
            at = curve.marks[curve.wrong == wrong]
            shown = at[:: max(1, -(-len(at) // _MOST_MARKS))]
            # A fixed small spread keeps marks apart; it carries no meaning.
            spread = np.random.default_rng(0).uniform(-2, 2, len(shown))
            ax.scatter(shown, (0 if wrong else 100) + spread, s=12, c=colour, marker=marker, alpha=0.4, linewidths=1,
                       label=f"gold row, {label} ({len(at)})")  # fmt: skip
        ax.set(ylim=(-5, 105), ylabel="right, %")
        ax.set_xlabel(
            "the confidence the teacher gave" if found.form.startswith("hard") else
            "margin: the teacher's best probability minus its second best"
        )  # fmt: skip
        figure.legend(loc="outside upper left", ncols=4)
    return result[0]
