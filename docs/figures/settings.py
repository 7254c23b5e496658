"""The picture of "choosing a method": `auto` beside the best that one would do instead, setting by setting.

    python docs/figures/settings.py       # settings-light.svg and settings-dark.svg beside this file

Nothing is measured here: the numbers are those of the table in docs/results/alternatives.md.
"""

import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib import pyplot as plt

HERE = Path(__file__).parent
PAGE = HERE.parent / "results" / "alternatives.md"
LOOKS = {"light": ("#1d1d1f", "#ffffff", "#8a97a3"), "dark": ("#e8e8ea", "#131416", "#7d8a96")}
OURS, OTHERS = "#2a9d4e", "#e8871a"


class Setting(NamedTuple):
    name: str
    teacher: float
    alternative: float
    auto: float


def settings(text: str) -> list[Setting]:
    """The rows of the first table that has a column for each."""
    row = r"^\| ([^|]+) \| ([\d.]+) \| [\d.–]+ \| [^|]*? ([\d.]+) \| [^|]* \| ([\d.]+) \| [+-][\d.]+ \(.*\|$"
    rows = re.findall(row, text, flags=re.MULTILINE)
    return [Setting(name, float(teacher), float(other), float(auto)) for name, teacher, other, auto in rows]


def draw(path: Path, found: list[Setting], ink: str, paper: str, faint: str) -> None:
    style = {
        "svg.fonttype": "none", "svg.hashsalt": "understudy", "font.size": 11, "text.color": ink, "ytick.color": ink,
        "xtick.color": ink, "font.family": "sans-serif", "font.sans-serif": ["Arial", "Helvetica", "DejaVu Sans"],
    }  # fmt: skip
    found = sorted(found, key=lambda setting: setting.auto - setting.alternative)
    places = np.arange(len(found))
    with plt.rc_context(style):
        figure, axis = plt.subplots(figsize=(7.6, 0.27 * len(found) + 1))
        axis.hlines(
            places, [s.alternative for s in found], [s.auto for s in found], color=faint, linewidth=1.5, zorder=1
        )
        axis.scatter([s.teacher for s in found], places, marker="|", s=60, color=faint, label="teacher")
        axis.scatter([s.alternative for s in found], places, s=34, color=OTHERS, label="best alternative")
        axis.scatter([s.auto for s in found], places, s=34, color=OURS, label="auto")
        axis.set_yticks(places, [s.name for s in found])
        axis.tick_params(length=0)
        axis.spines[:].set_visible(False)
        axis.grid(axis="x", color=faint, alpha=0.25)
        axis.set(facecolor=paper, axisbelow=True, ylim=(-0.8, len(found) - 0.2))
        figure.legend(loc="upper right", ncols=3, frameon=False, handletextpad=0.2, labelcolor=ink)
        figure.suptitle("accuracy, %", x=0.01, ha="left", y=0.985, fontweight="bold", fontsize=11)
        figure.tight_layout(rect=(0, 0, 1, 0.975))
        figure.savefig(path, facecolor=paper, metadata={"Date": None, "Creator": None})
        plt.close(figure)


def main() -> None:
    found = settings(PAGE.read_text(encoding="utf-8"))
    for name, colours in LOOKS.items():
        draw(HERE / f"settings-{name}.svg", found, *colours)
    print(f"{len(found)} settings")


if __name__ == "__main__":
    main()
