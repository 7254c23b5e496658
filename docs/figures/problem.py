"""The start page's picture: the labels one has, and what three ways of training make of them.

    python docs/figures/problem.py        # problem-light.svg and problem-dark.svg beside this file, half a minute

The data are those of ``understudy example``, the students the defaults of ``understudy train``; every number is
what came out, at one seed.
"""

import csv
import tempfile
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

import understudy as us
from understudy.features.featuriser import FeatureOptions
from understudy.samples import CLASSES, make_tickets, write_tickets

ACROSS = 50
"""Squares in a row of the picture."""
LOOKS = {"light": ("#1d1d1f", "#ffffff", "#c9d3dc"), "dark": ("#e8e8ea", "#131416", "#3f4a54")}
GOLD, WRONG, OURS = "#2a78b8", "#e8871a", "#2a9d4e"
UNLABELLED, CORRECT, INCORRECT, CHECKED = range(4)


class Found(NamedTuple):
    squares: np.ndarray[Any, Any]
    """For every message: no label, a right one, a wrong one, or one that was checked."""
    accuracies: dict[str, float]


def measure(**options: Any) -> Found:
    """``options``: of every training, beside the defaults for the features."""
    with tempfile.TemporaryDirectory() as name:
        files = {path.stem: path for path in write_tickets(Path(name))}
        answers = us.read_answers(files["answers"], list(CLASSES))
        truth, _ = make_tickets(Random(0))
        examples = us.read_examples(
            gold=files["gold"], pool=_with_labels(files["messages"], answers), test=files["test"], classes=CLASSES,
            features=FeatureOptions(text="message"),
        )  # fmt: skip
    assert examples.gold is not None and examples.pool is not None and examples.test is not None
    build, defaults = us.default_student(examples.pool, len(CLASSES))
    settings: dict[str, Any] = {**defaults, "progress": False, **options}
    alone = us.Gold(examples.gold.x, examples.gold.y)
    students = {
        "trained on your labels": us.train(build, alone, None, us.vanilla(), **settings),
        "trained on all as they are": us.train(build, examples.gold, examples.pool, us.vanilla(), **settings),
        "trained by Understudy": us.auto(build, examples.gold, examples.pool, workers=1, **settings),
    }
    squares = np.full(len(truth), UNLABELLED)
    checked = set(examples.gold.ids.tolist() if examples.gold.ids is not None else [])
    labels = dict(zip(answers.ids.tolist(), answers.labels.top1().tolist(), strict=True))
    for row, ticket in enumerate(truth):
        if ticket.id in checked:
            squares[row] = CHECKED
        elif ticket.id in labels:
            squares[row] = CORRECT if CLASSES[labels[ticket.id]] == ticket.label else INCORRECT
    llm = float(np.mean(squares[np.isin(squares, (CORRECT, INCORRECT))] == CORRECT))
    tested = {name: us.evaluate(run.student, examples.test)["accuracy"] for name, run in students.items()}
    return Found(squares, {"the LLM itself": llm, **tested})


def _with_labels(messages: Path, answers: Any) -> dict[str, Any]:
    with messages.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    ids = [row["id"] for row in rows]
    labels = answers.aligned(np.array(ids, dtype=object)).to_columns()
    return {"id": ids, "message": [row["message"] for row in rows], **labels}


def draw(path: Path, found: Found, ink: str, paper: str, faint: str) -> None:
    style = {
        "svg.fonttype": "none", "svg.hashsalt": "understudy", "font.size": 12, "text.color": ink,
        "font.family": "sans-serif", "font.sans-serif": ["Arial", "Helvetica", "DejaVu Sans"],
    }  # fmt: skip
    with plt.rc_context(style):
        figure, (left, right) = plt.subplots(1, 2, figsize=(7.6, 3.6), width_ratios=[1.1, 1])
        _draw_squares(left, found.squares, {UNLABELLED: paper, CORRECT: faint, INCORRECT: WRONG, CHECKED: GOLD})
        _draw_bars(right, found.accuracies, ink, faint)
        figure.tight_layout(w_pad=2)
        figure.savefig(path, facecolor=paper, metadata={"Date": None, "Creator": None})
        plt.close(figure)


def _draw_squares(axis: Axes, squares: np.ndarray[Any, Any], colours: dict[int, str]) -> None:
    counts = {kind: int((squares == kind).sum()) for kind in colours}
    where = np.arange(len(squares))
    for kind, colour in colours.items():
        rows = where[squares == kind]
        axis.scatter(rows % ACROSS, -(rows // ACROSS), s=11, marker="s", color=colour, linewidth=0)
    given = counts[CORRECT] + counts[INCORRECT]
    axis.set_title(f"{counts[CHECKED]} labels you checked,\n{given:,} that an LLM gave", loc="left", fontweight="bold")
    legend = ((GOLD, "checked"), (colours[CORRECT], "right"), (WRONG, "wrong (unknown which)"))
    for place, (colour, text) in zip((0.0, 0.25, 0.43), legend, strict=True):
        axis.text(place, -0.03, "■", color=colour, transform=axis.transAxes, va="top")
        axis.text(place + 0.045, -0.03, text, transform=axis.transAxes, va="top")
    axis.margins(x=0.01, y=0.02)
    axis.set_axis_off()


def _draw_bars(axis: Axes, accuracies: dict[str, float], ink: str, faint: str) -> None:
    places = -np.arange(len(accuracies))
    colours = [OURS if name.endswith("Understudy") else faint for name in accuracies]
    axis.barh(places, list(accuracies.values()), height=0.5, color=colours)
    for place, (name, accuracy) in zip(places, accuracies.items(), strict=True):
        axis.text(0, place + 0.31, name, va="bottom")
        axis.text(accuracy + 0.015, place, f"{accuracy:.0%}", va="center", fontweight="bold")
    axis.set_title("accuracy on messages\nwithout a label", loc="left", fontweight="bold")
    axis.set(xlim=(0, 1.12), ylim=(-len(accuracies) + 0.6, 0.85))
    axis.set_axis_off()


def main() -> None:
    found = measure()
    for name, colours in LOOKS.items():
        draw(Path(__file__).with_name(f"problem-{name}.svg"), found, *colours)
    print(*(f"{name}: {accuracy:.1%}" for name, accuracy in found.accuracies.items()), sep="\n")


if __name__ == "__main__":
    main()
