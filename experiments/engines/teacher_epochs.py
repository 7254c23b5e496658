"""Students of one teacher stopped at different epochs (Dong et al. 2019, Figure 1).

Teacher and student see the same rows: the student learns from the teacher's soft labels of the teacher's own training
rows. The teacher is one training, stopped: its learning rate follows the schedule of the whole length, and every epoch
depends on the seed and its number alone, so that a shorter training is the beginning of a longer one. In the longest
column a student of the labels themselves stands beside.
"""

from dataclasses import dataclass
from typing import Any

import torch

import understudy as us
from experiments.datasets import LOADERS, load, rows
from experiments.sweep import Cell, Training, curve_of, known, net
from understudy.data.noise import symmetric
from understudy.training.options import find_schedule

HARD = "Student of the labels themselves"


@dataclass(frozen=True)
class TeacherEpochs:
    data: str
    teacher: str
    student: str
    epochs: tuple[int, ...]
    """After how many the teacher is stopped."""
    teacher_training: Training
    training: Training
    noise: float = 0.0
    """Share of the labels that are redrawn."""
    temperature: float = 1.0
    rows: int | None = None
    test_rows: int | None = None
    side: int | None = None
    seeds: int = 3

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(f"{epochs} epochs" for epochs in self.epochs)

    def measure(self, column: str, seed: int) -> list[Cell]:
        data = load(self.data, side=self.side)
        order = torch.randperm(len(data.y), generator=torch.Generator().manual_seed(seed))[: self.rows]
        x = rows(data.x, order)
        y, _ = symmetric(data.y[order], self.noise, data.classes, seed=seed)
        tested = torch.arange(self.test_rows or len(data.y_test))
        test = us.Gold(rows(data.x_test, tested), data.y_test[tested])
        length = self.epochs[self.columns.index(column)]
        build = net(self.teacher, data.shape, data.classes)
        options = self._stopped(len(y), length)
        teacher = us.train(build, us.Gold(x, y), None, us.vanilla(), seed=seed, **options).student
        cells = [Cell("Teacher", column, seed, us.evaluate(teacher, test)["accuracy"])]
        pools = {"Student": us.Pool(x, us.teach(teacher, x))}
        if length == max(self.epochs):
            pools[HARD] = us.Pool(x, us.Hard(y, classes=data.classes))
        for row, pool in pools.items():
            curve = curve_of(self._student(pool, test, data.shape, data.classes, seed))
            cells.append(Cell(row, column, seed, curve[-1], curve))
        return cells

    def _stopped(self, count: int, length: int) -> dict[str, Any]:
        """Options of the teacher's training, of which only the first epochs are made."""
        whole, schedule = self.teacher_training.epochs, find_schedule(self.teacher_training.schedule)
        stopped = {"epochs": length, "schedule": lambda progress: schedule(progress * length / whole)}
        return self.teacher_training.options(count) | stopped

    def _student(self, pool: us.Pool, test: us.Gold, shape: tuple[int, ...], classes: int, seed: int) -> us.Run:
        build = net(self.student, shape, classes)
        objective, options = us.vanilla(temperature=self.temperature), self.training.options(len(pool))
        return us.train(build, None, pool, objective, seed=seed, test=test, **options)

    def check(self) -> None:
        known(LOADERS, self.data)
        find_schedule(self.teacher_training.schedule)
