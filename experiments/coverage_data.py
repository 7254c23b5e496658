"""Data sets whose truth is known, for ``experiments.coverage``: classes, features and a teacher of a known quality.

    world = world_of("weak", classes=2)
    world.data(gold_rows=50, seed=0)             # gold, pool, and what the pool's true classes are
    world.population                             # 400,000 rows: what a measure of the teacher really is

A row of class c has Gaussian features around the c-th unit vector times ``features``, and the teacher's logits are
``teacher`` at c plus unit noise, less for the later classes; its probabilities are 1.5 times too sure. Without a signal
both say nothing about the class.
"""

from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

import understudy as us
from understudy.inference.cascade import Combination

Array = NDArray[Any]
POOL_ROWS, FRESH_ROWS, POPULATION_ROWS = 600, 20_000, 400_000
DIMENSIONS, OVERCONFIDENT = 5, 1.5
#: Classes that are not equally frequent, nor equally well known to the teacher.
SHARES = {2: (0.5, 0.5), 3: (0.5, 0.3, 0.2)}
SKILL = {2: (1.0, 1.0), 3: (1.2, 1.0, 0.8)}
#: How far apart features and the teacher hold the classes. Of two classes the best student knows 50, 66 and 92%, the
#: teacher 50, 71 and 92%.
SIGNALS = {"noise": (0.0, 0.0), "weak": (0.6, 0.8), "strong": (2.0, 2.0)}


class Draw(NamedTuple):
    x: Array
    y: Array
    #: The teacher's probabilities.
    probs: Array

    @property
    def right(self) -> Array:
        return np.asarray(self.probs.argmax(1) == self.y)


class DataSet(NamedTuple):
    gold: us.Gold
    pool: us.Pool
    #: Gold and pool as drawn.
    on_gold: Draw
    on_pool: Draw


@dataclass(frozen=True)
class World:
    classes: int
    features: float
    teacher: float

    def draw(self, rows: int, rng: np.random.Generator) -> Draw:
        y = rng.choice(self.classes, rows, p=SHARES[self.classes])
        unit = np.eye(self.classes, DIMENSIONS)
        x = self.features * unit[y] + rng.normal(size=(rows, DIMENSIONS))
        logits = self.teacher * np.diag(SKILL[self.classes])[y] + rng.normal(size=(rows, self.classes))
        odds = np.exp(OVERCONFIDENT * logits)
        return Draw(x.astype(np.float32), y, odds / odds.sum(1, keepdims=True))

    def data(self, gold_rows: int, seed: int, pool_rows: int = POOL_ROWS) -> DataSet:
        rng = np.random.default_rng([seed, gold_rows, round(10 * self.teacher)])
        gold, pool = self.draw(gold_rows, rng), self.draw(pool_rows, rng)
        return DataSet(us.Gold(gold.x, gold.y, teacher=gold.probs), us.Pool(pool.x, pool.probs), gold, pool)

    @cached_property
    def population(self) -> Draw:
        return self.draw(POPULATION_ROWS, np.random.default_rng(1 << 40))

    @cached_property
    def fresh(self) -> Draw:
        """New rows, on which a student's accuracy is its true one (± 0.7 points)."""
        return self.draw(FRESH_ROWS, np.random.default_rng(1 << 41))

    def accuracy(self, student: torch.nn.Module) -> float:
        return float((self._logits(student).argmax(1).numpy() == self.fresh.y).mean())

    def gap(self, student: torch.nn.Module, temperature: float) -> float:
        """Mean confidence minus accuracy."""
        confidence = (self._logits(student) / temperature).softmax(1).amax(1)
        return float(confidence.mean()) - self.accuracy(student)

    def together(self, student: torch.nn.Module, temperature: float, both: Combination) -> float:
        """The accuracy of student and teacher combined."""
        probs = (self._logits(student).double() / temperature).softmax(1).numpy()
        return float((both(probs, self.fresh.probs).argmax(1) == self.fresh.y).mean())

    def _logits(self, student: torch.nn.Module) -> torch.Tensor:
        with torch.no_grad():
            return torch.as_tensor(student(torch.from_numpy(self.fresh.x)))


@cache
def world_of(signal: str, classes: int) -> World:
    return World(classes, *SIGNALS[signal])
