"""Students of one teacher stopped at different epochs (Dong et al. 2019, Figure 1).

Teacher and student see the same rows: the student learns from the teacher's soft labels of the teacher's own training
rows. Every epoch of a training depends on the seed and its number only, but a schedule depends on its length, so the
teacher is trained once for each length, as in the paper.
"""

from dataclasses import dataclass, replace

import torch

import understudy as us
from experiments.datasets import LOADERS, load, rows
from experiments.sweep import Cell, Training, curve_of, known, net


@dataclass(frozen=True)
class TeacherEpochs:
    data: str
    teacher: str
    student: str
    epochs: tuple[int, ...]
    teacher_training: Training
    training: Training
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
        x, y = rows(data.x, order), data.y[order]
        tested = torch.arange(self.test_rows or len(data.y_test))
        test = us.Gold(rows(data.x_test, tested), data.y_test[tested])
        training = replace(self.teacher_training, epochs=self.epochs[self.columns.index(column)])
        build, build_student = (net(text, data.shape, data.classes) for text in (self.teacher, self.student))
        teacher = us.train(build, us.Gold(x, y), None, us.vanilla(), seed=seed, **training.options(len(y))).student
        pool = us.Pool(x, us.teach(teacher, x))
        objective = us.vanilla(temperature=self.temperature)
        options = self.training.options(len(y))
        run = us.train(build_student, None, pool, objective, seed=seed, test=test, **options)
        curve = curve_of(run)
        return [
            Cell("Teacher", column, seed, us.evaluate(teacher, test)["accuracy"]),
            Cell("Student", column, seed, curve[-1], curve),
        ]

    def check(self) -> None:
        known(LOADERS, self.data)
