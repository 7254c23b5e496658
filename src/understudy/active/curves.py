"""Learning curves of several strategies, with 95% intervals over seeds."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from understudy.comparison.interval import Interval

# Okabe and Ito's colours, which stay apart for colour-blind readers, and a marker each for print in black.
_LOOKS = {
    "random": ("#666666", "o"),
    "confidence": ("#D55E00", "v"),
    "margin": ("#E69F00", "^"),
    "entropy": ("#CC79A7", "s"),
    "coreset": ("#56B4E9", "P"),
    "badge": ("#0072B2", "D"),
    "s_badge": ("#009E73", "*"),
    "lhd": ("#000000", "X"),
}

Curves = dict[str, dict[str, tuple[Sequence[int], list[list[float]], list[list[float]]]]]
"""kind -> strategy -> labels, accuracies per seed, clean shares per seed."""


def plot_curves(path: Path, curves: Curves) -> None:
    """A column per kind: test accuracy above, clean share of each batch below."""
    figure = Figure(figsize=(0.8 + 3.6 * len(curves), 6.6), layout="constrained")
    axes = figure.subplots(2, len(curves), sharex="col", sharey="row", squeeze=False)
    for column, (kind, strategies) in enumerate(curves.items()):
        for name, (labels, accuracy, clean) in strategies.items():
            _band(axes[0, column], name, labels, accuracy)
            # A share belongs to the labels it was bought with; its first batch follows the random start.
            _band(axes[1, column], name, labels[1:], clean)
        axes[0, column].set_title(kind.replace("_", "-"), loc="left", fontweight="bold", fontsize=11)
        axes[1, column].set_xlabel("labels asked for")
    axes[0, 0].set_ylabel("test accuracy, %")
    axes[1, 0].set_ylabel("clean share of the batch, %")
    axes[1, 0].set_ylim(-4, 104)
    handles = {line.get_label(): line for ax in axes.flat for line in ax.get_lines()}
    figure.legend(
        handles.values(), handles.keys(), loc="outside lower center", ncols=min(8, len(handles)), frameon=False
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def _band(ax: Axes, name: str, at: Sequence[int], per_seed: list[list[float]]) -> None:
    colour, marker = _LOOKS.get(name, ("#666666", "."))
    intervals = [Interval.of(values) for values in zip(*per_seed, strict=True)]
    mean = 100 * np.array([interval.mean for interval in intervals])
    ax.plot(at, mean, color=colour, marker=marker, markersize=4, linewidth=1.4, label=name)
    if len(per_seed) > 1:
        low, high = (100 * np.array([getattr(interval, end) for interval in intervals]) for end in ("low", "high"))
        ax.fill_between(at, low, high, color=colour, alpha=0.12, linewidth=0)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(color="#e4e4e4", linewidth=0.7)
