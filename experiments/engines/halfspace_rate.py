"""The error of SLaM's iteration for halfspaces against the margin γ and the number of examples (SLaM, Theorem 5.1).

Rows on the unit sphere outside the slab |w*·x| < γ; positives alone are flipped, with the two probabilities of
``flip`` on the two sides of a direction. One pass, so that T is the number of rows. Beside it the backward correction
of Bylander (1994). "Bound" is error · β γ √T, which the theorem says no γ and T let exceed a constant.
"""

from dataclasses import dataclass

import numpy as np

from experiments.sweep import Cell
from experiments.theory import BackwardHalfspace, SlamHalfspace, noisy_halfspace

SLAM, BACKWARD = "SLaM", "backward correction"


@dataclass(frozen=True)
class HalfspaceRate:
    margins: tuple[float, ...]
    rows: tuple[int, ...]
    data: str = "made"
    flip: tuple[float, float] = (0.3, 0.3)
    dimensions: int = 20
    fresh: int = 20_000
    seeds: int = 5

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(f"γ = {margin:g}" for margin in self.margins)

    def measure(self, column: str, seed: int) -> list[Cell]:
        margin, rng = self.margins[self.columns.index(column)], np.random.default_rng(seed)
        given = {"dimensions": self.dimensions, "margin": margin, "flip": self.flip}
        data, fresh = (noisy_halfspace(count, rng=rng, **given) for count in (max(self.rows), self.fresh))
        cells = []
        for name, model in ((SLAM, SlamHalfspace), (BACKWARD, BackwardHalfspace)):
            for count in self.rows:
                fitted = model(epochs=1, random_state=seed).fit(
                    data.x[:count], data.y[:count], alpha=data.alpha[:count]
                )
                error = float((fitted.predict(fresh.x) != fresh.clean).mean())
                cells.append(Cell(f"{name}, T = {count:,}", column, seed, error))
                if name == SLAM:
                    scale = (0.5 - max(self.flip)) * margin * count**0.5
                    cells.append(Cell(f"bound, T = {count:,}", column, seed, error * scale))
        return cells

    def check(self) -> None:
        pass
