"""The start page's picture: what gold shows, what the teacher says, and what three students make of it.

    python docs/figures/problem.py        # problem-light.svg and problem-dark.svg beside this file, half a minute

Two half-moons; 30 rows are gold. The teacher labels 1,000 others: it cuts straight through, and one of its labels in
eight is turned around. The numbers are shares of rows that are right, one seed, as they came out; students are tested
on 5,000 rows of their own.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from torch import Tensor

import understudy as us

GOLD, POOL, TEST = 30, 1000, 5000
COLOURS = ("#2a78b8", "#e07b00")
LOOKS = {"light": ("#1d1d1f", "#ffffff"), "dark": ("#e8e8ea", "#131416")}
ACROSS, UP = np.linspace(-1.7, 2.7, 140), np.linspace(-1.25, 1.65, 100)
Panel = tuple[str, Tensor, Tensor, torch.nn.Module | None]


def half_moons(count: int, generator: np.random.Generator) -> tuple[Tensor, Tensor]:
    angle, y = np.pi * generator.random(count), generator.integers(2, size=count)
    x = np.stack([np.cos(angle) * (1 - 2 * y) + y, np.sin(angle) * (1 - 2 * y) + 0.4 * y], axis=1)
    return torch.from_numpy(x + 0.13 * generator.standard_normal(x.shape)).float(), torch.from_numpy(y)


def teacher_says(x: Tensor, generator: np.random.Generator) -> Tensor:
    straight = (x[:, 1] < 0.2 + 0.15 * (x[:, 0] - 0.5)).long()
    return torch.where(torch.from_numpy(generator.random(len(x)) < 0.125), 1 - straight, straight)


def net() -> torch.nn.Module:
    return us.models.mlp(2, 2, hidden=(32, 32))


def panels(epochs: int = 30, seed: int = 7) -> list[Panel]:
    """Title, dots and their classes, and the student whose borders are drawn."""
    generator = np.random.default_rng(seed)
    (x, y), (pool_x, truth), test = (half_moons(count, generator) for count in (GOLD, POOL, TEST))
    said = teacher_says(pool_x, generator)
    gold = us.Gold(x, y, teacher=us.Hard(teacher_says(x, generator)))
    pool = us.Pool(pool_x, us.Hard(said))
    options: dict[str, Any] = {"batch_size": 64, "lr": 3e-3, "schedule": "cosine", "progress": False}
    students = {
        "gold alone": us.train(net, us.Gold(x, y), None, us.vanilla(), epochs=10 * epochs, **options).student,
        "the teacher copied": us.train(net, gold, pool, us.vanilla(), epochs=epochs, **options).student,
        "Understudy": us.auto(net, gold, pool, epochs=epochs, workers=1, **options).student,
    }
    right = (said == truth).float().mean()
    return [
        (f"{GOLD} labels you trust", x, y, None),
        (f"{POOL:,} of a teacher: {right:.0%} right", pool_x, said, None),
        ("the truth", pool_x, truth, None),
        *(
            (f"{name}: {us.evaluate(student, us.Gold(*test))['accuracy']:.0%}", x, y, student)
            for name, student in students.items()
        ),
    ]


def draw(path: Path, found: list[Panel], ink: str, paper: str) -> None:
    style = {
        "svg.fonttype": "none", "svg.hashsalt": "understudy", "font.size": 10.5, "text.color": ink,
        "font.family": "sans-serif", "font.sans-serif": ["Arial", "Helvetica", "DejaVu Sans"],
    }  # fmt: skip
    with plt.rc_context(style):
        figure, axes = plt.subplots(2, 3, figsize=(8, 4.6), sharex=True, sharey=True)
        for axis, panel in zip(axes.flat, found, strict=True):
            _draw_panel(axis, panel, ink)
        figure.tight_layout(w_pad=0.6, h_pad=0.8)
        figure.savefig(path, facecolor=paper, metadata={"Date": None, "Creator": None})
        plt.close(figure)


def _draw_panel(axis: Axes, panel: Panel, ink: str) -> None:
    title, x, y, student = panel
    few = len(x) <= GOLD
    if student is not None:
        grid = torch.cartesian_prod(torch.from_numpy(UP), torch.from_numpy(ACROSS)).flip(1).float()
        with torch.no_grad():
            chance = student(grid).softmax(1)[:, 1].reshape(len(UP), len(ACROSS))
        axis.contourf(ACROSS, UP, chance, levels=[0, 0.5, 1], colors=COLOURS, alpha=0.35)
    for number, colour in enumerate(COLOURS):
        rows = x[y == number]
        axis.scatter(*rows.T, s=26 if few else 4, color=colour, edgecolor=ink if few else "none", linewidth=0.8)
    axis.set_title(title, loc="left", fontsize=10.5, fontweight="bold")
    axis.set(xticks=[], yticks=[], facecolor="none")
    axis.spines[:].set(edgecolor=ink, alpha=0.3)


def main() -> None:
    found = panels()
    for name, (ink, paper) in LOOKS.items():
        draw(Path(__file__).with_name(f"problem-{name}.svg"), found, ink, paper)
    print(*(title for title, *_ in found), sep="\n")


if __name__ == "__main__":
    main()
