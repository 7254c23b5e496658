"""A reproduced figure as a picture: mean trajectories where the paper draws such, else a value per column.

Intervals of single methods are drawn beside the latter only: seeds move all methods together, so that bands around
trajectories hide what the paired intervals of the page show.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from experiments.claims import WITHOUT_CURVE
from experiments.experiment import Part, stand_in
from experiments.runner import Finished
from experiments.sweep import Cell
from understudy.comparison.interval import Interval
from understudy.report.figures import COLOURS, GREY, MARKERS
from understudy.store.files import appearing_whole

Looks = dict[str, tuple[str, str]]
"""row -> colour, marker."""
# Level lines, not contestants.
LEVELS = {"Teacher"}
MOST_ROWS = 8


def is_drawn(finished: Finished) -> bool:
    """What the paper prints as a table stays one."""
    return finished.experiment.shows.startswith("Figure")


def draw(path: Path, finished: Finished) -> None:
    every = zip(finished.experiment.parts, finished.cells, strict=True)
    parts = [(part, _drawn(part, cells)) for part, cells in every]
    widest = max(len(_panels(part, cells)) for part, cells in parts)
    figure = Figure(figsize=(1.4 + 4.0 * widest, 0.4 + 3.4 * len(parts)), layout="constrained")
    axes = figure.subplots(len(parts), widest, squeeze=False)
    for line, (part, cells) in zip(axes, parts, strict=True):
        panels = _panels(part, cells)
        for ax in line[len(panels) :]:
            ax.set_visible(False)
        for ax, title in zip(line, panels, strict=False):
            if _along_training(part):
                _trajectories(ax, [cell for cell in cells if cell.column == title], _looks(cells))
            else:
                _by_column(ax, cells, _looks(cells))
            titles = (part.title if len(parts) > 1 else "", stand_in(part), title)
            ax.set_title("\n".join(dict.fromkeys(text for text in titles if text)), fontsize=9, loc="left")
            ax.spines[["top", "right"]].set_visible(False)
            ax.grid(color="#e4e4e4", linewidth=0.7)
        line[0].set_ylabel("%")
        line[len(panels) - 1].legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    with appearing_whole(path) as temporary:
        figure.savefig(temporary, dpi=90, metadata={"Software": None})


def _drawn(part: Part, cells: Sequence[Cell]) -> list[Cell]:
    """All rows, or of many those that the claims speak of: the others stand in the table."""
    rows = {cell.row for cell in cells}
    named = {name.partition("@")[0] for claim in part.claims for name in (*claim.higher, *claim.lower)}
    kept = rows if len(rows) <= MOST_ROWS else rows & (named | LEVELS)
    return [cell for cell in cells if cell.row in kept]


def _along_training(part: Part) -> bool:
    return any(claim.measure not in WITHOUT_CURVE for claim in part.claims)


def _panels(part: Part, cells: Sequence[Cell]) -> list[str]:
    """Their titles: a panel per column for trajectories, one for all columns otherwise."""
    return list(dict.fromkeys(cell.column for cell in cells)) if _along_training(part) else [""]


def _looks(cells: Sequence[Cell]) -> Looks:
    """The same in every panel of a part."""
    rows = dict.fromkeys(cell.row for cell in cells)
    return {
        row: (GREY if row in LEVELS else COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)])
        for number, row in enumerate(rows)
    }


def _trajectories(ax: Axes, cells: Sequence[Cell], looks: Looks) -> None:
    for row in dict.fromkeys(cell.row for cell in cells):
        colour, curves = looks[row][0], [cell.curve for cell in cells if cell.row == row and cell.curve]
        if not curves:
            ax.axhline(
                100 * np.mean([cell.value for cell in cells if cell.row == row]), color=colour, ls="--", label=row
            )
            continue
        means = 100 * np.mean([curve[: min(map(len, curves))] for curve in curves], axis=0)
        ax.plot(np.arange(1, len(means) + 1), means, color=colour, linewidth=1.6, label=row)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_xlabel("epoch")


def _by_column(ax: Axes, cells: Sequence[Cell], looks: Looks) -> None:
    columns = list(dict.fromkeys(cell.column for cell in cells))
    for number, (row, (colour, marker)) in enumerate(looks.items()):
        shift = 0.06 * (number - (len(looks) - 1) / 2)
        found = {column: [c.value for c in cells if (c.row, c.column) == (row, column)] for column in columns}
        at = [place + shift for place, column in enumerate(columns) if found[column]]
        intervals = [Interval.of(values) for values in found.values() if values]
        means = [100 * one.mean for one in intervals]
        spread = [[100 * (one.mean - one.low) for one in intervals], [100 * (one.high - one.mean) for one in intervals]]
        bars = None if any(np.isnan(spread[0])) else spread
        ax.errorbar(
            at, means, yerr=bars, color=colour, marker=marker, markersize=5, linewidth=1.0, label=row, capsize=2
        )
    ax.set_xticks(range(len(columns)), columns, fontsize=8)
