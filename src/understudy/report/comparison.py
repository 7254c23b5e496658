"""The picture of a comparison: each method's difference to the reference, paired by seed, with its 95% interval.

svg = difference_figure(comparison)                      # for a page
write_difference_plot("differences.png", comparison)     # or .svg, .pdf: a file of its own
"""

import io
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from understudy.comparison.interval import Interval
from understudy.comparison.outcome import Comparison
from understudy.errors import UnderstudyError
from understudy.report.figures import GREY, LOOK, drawing, look_of
from understudy.store.files import write_bytes

LEVEL = 0.05
KINDS = (".png", ".svg", ".pdf")


def difference_figure(comparison: Comparison) -> str | None:
    """As SVG for a page; None where there is nothing to hold against the reference."""
    gaps = _gaps(comparison)
    if not gaps:
        return None
    with drawing("differences", 7.2, _height(gaps)) as (figure, result):
        _draw(figure.add_subplot(), comparison, gaps)
    return result[0]


def write_difference_plot(path: str | Path, comparison: Comparison) -> None:
    path, gaps = Path(path), _gaps(comparison)
    if path.suffix not in KINDS:
        raise UnderstudyError(f"{path}: a plot is written as {', '.join(KINDS)}; end the name in one of them")
    if not gaps:
        raise UnderstudyError(f"there is nothing to hold against {comparison.reference}; compare another method")
    with matplotlib.rc_context(LOOK):
        figure = Figure(figsize=(7.2, _height(gaps)), layout="constrained")
        _draw(figure.add_subplot(), comparison, gaps)
        buffer = io.BytesIO()
        figure.savefig(buffer, format=path.suffix[1:], dpi=200)
    write_bytes(path, buffer.getvalue())


def _gaps(comparison: Comparison) -> dict[str, Interval]:
    return {line.method: line.difference for line in comparison.lines() if line.difference is not None}


def _height(gaps: dict[str, Interval]) -> float:
    return 0.85 + 0.42 * len(gaps)


def _draw(ax: Axes, comparison: Comparison, gaps: dict[str, Interval]) -> None:
    """A full point: the difference holds after correction for the number of methods; a hollow one: it may be luck."""
    adjusted = {} if comparison.recommendation is None else comparison.recommendation.adjusted
    theirs = comparison.outcomes[comparison.reference]
    ax.axvline(0, color=GREY, lw=1.2)
    for place, (method, gap) in enumerate(reversed(gaps.items())):
        colour, _ = look_of(comparison, method)
        mine = comparison.outcomes[method]
        seeds = [100 * (mine[seed].last - theirs[seed].last) for seed in mine if seed in theirs]
        ax.scatter(seeds, [place + 0.22] * len(seeds), s=12, color=colour, alpha=0.45, linewidths=0)
        if gap.count > 1:
            ax.plot([100 * gap.low, 100 * gap.high], [place, place], color=colour, lw=3, solid_capstyle="butt")
        p = adjusted.get(method, gap.p_value)
        ax.scatter(
            [100 * gap.mean], [place], s=46, zorder=3, edgecolors=colour, linewidths=1.6,
            facecolors=colour if p < LEVEL else "white",
        )  # fmt: skip
    ax.set_yticks(range(len(gaps)), list(reversed(gaps)))
    ax.set(ylim=(-0.5, len(gaps) - 0.35), xlabel=f"test accuracy minus {comparison.reference}, points")
    ax.grid(axis="y", visible=False)
