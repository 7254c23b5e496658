"""Who can testify about rows it has not seen: students trained on a part of the data, and the rows' neighbours.

A member is given a fold: the gold and the pool rows it may learn from. It answers for the gold rows held out and for
every pool row, in class probabilities:

    Trained(us.gce()).testify(fold)                 # the user's own student, by a method
    Trained(us.vanilla(), alone=True)               # on gold only
    Neighbours(10)                                  # nothing is trained: what are the ten most similar rows labelled?

``flat_members`` adds those that need rows of numbers: a linear student errs otherwise than a net does.
"""

import copy
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

import numpy as np
import torch
from scipy import sparse
from torch import Tensor, nn

from understudy import models
from understudy.data.examples import Gold, Pool
from understudy.data.rows import Rows, is_mapped, is_sparse, take_sparse
from understudy.errors import UnderstudyWarning
from understudy.labels.base import Labels
from understudy.labels.forms import Soft
from understudy.maths.nearest import unit_rows, votes_of_neighbours
from understudy.maths.source_confusion import fit_votes
from understudy.objective import Objective
from understudy.training.l2 import l2_of_c, mean_square
from understudy.training.options import AUTO, TrainingOptions
from understudy.training.train import train

Student = nn.Module | Callable[[], nn.Module]
# Of more columns a linear student has too many numbers, and of more rows neighbours take too long to find.
MOST_COLUMNS, MOST_REFERENCES = 50_000, 20_000
# scikit-learn's C for rows of length 1; longer rows need less of it for the same predictions.
C = 10.0


@dataclass(frozen=True)
class Fold:
    """What a member may learn from, and what it is asked about."""

    number: int
    student: Student
    recipe: TrainingOptions
    gold: Gold
    """Without the rows held out."""
    held_out: Gold
    pool: Pool
    """Every row; a member learns from ``learned`` alone."""
    learned: Tensor
    classes: int
    c: tuple[float, float] | None = None
    """scikit-learn's C for a linear student on gold alone and with the pool, where the recipe leaves it open."""

    @property
    def learned_pool(self) -> Pool:
        return self.pool.take(self.learned)


class Member(Protocol):
    def testify(self, fold: Fold) -> Tensor:
        """Probabilities ``(held-out gold rows + pool rows, C)``."""
        ...


@dataclass(frozen=True)
class Trained:
    """A student of its own for every fold."""

    objective: Objective
    alone: bool = False
    """On gold only."""
    student: Student | None = None
    """None: the user's own."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """What is told otherwise than in the user's recipe."""
    c: float | None = None
    """scikit-learn's C where the penalty is left open; None: the fold's."""

    def testify(self, fold: Fold) -> Tensor:
        recipe = replace(fold.recipe, seed=fold.recipe.seed + fold.number, **self.options)
        pool = fold.learned_pool
        if recipe.weight_decay == AUTO:
            rows = len(fold.gold) + (0 if self.alone else len(pool))
            recipe = replace(recipe, weight_decay=l2_of_c(self._c(fold), rows, fold.classes))
        if self.alone:
            recipe = alone(recipe, fold.gold, pool)
        student = copy.deepcopy(fold.student) if self.student is None else self.student
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnderstudyWarning)  # the training in full says it again
            run = train(
                student, fold.gold, None if self.alone else pool, self.objective, progress=False, **recipe.arguments()
            )
        return torch.cat([run.predict(part.rows) for part in (fold.held_out, fold.pool)])

    def _c(self, fold: Fold) -> float:
        if self.c is not None:
            return self.c
        assert fold.c is not None
        return fold.c[0] if self.alone else fold.c[1]


@dataclass(frozen=True, eq=False)
class TrainedOn:
    """The user's student on labels made for each fold, ``(N, C)`` each."""

    objective: Objective
    labels: list[Tensor]
    c: float | None = None
    """As ``Trained.c``."""

    def testify(self, fold: Fold) -> Tensor:
        pool = Pool.of(fold.pool.rows, Soft(self.labels[fold.number]), fold.pool.ids)
        return Trained(self.objective, c=self.c).testify(replace(fold, gold=fold.gold.without_teacher(), pool=pool))


@dataclass(frozen=True)
class Neighbours:
    """The mean label of the ``k`` most similar rows; a hard label counts as what gold says it is worth."""

    k: int = 10

    def testify(self, fold: Fold) -> Tensor:
        gold, pool, learned = fold.gold, fold.pool, fold.learned
        assert pool.teacher is not None
        trusted = gold.training_rows()
        if len(learned) > MOST_REFERENCES:
            order = torch.randperm(len(learned), generator=torch.Generator().manual_seed(fold.number))
            learned = learned[order[:MOST_REFERENCES]]
        labels = torch.cat(
            [
                nn.functional.one_hot(gold.y[trusted], fold.classes).double(),
                worth(pool.teacher.take(learned), gold, fold.classes),
            ]
        )
        centre = None
        if not (is_sparse(pool.rows) or is_sparse(gold.rows)):
            centre = flat(pool.rows, learned).flatten(1).float().mean(0)
        known = _stacked([unit_rows(flat(gold.rows, trusted), centre), unit_rows(flat(pool.rows, learned), centre)])
        asked = _stacked([unit_rows(flat(fold.held_out.rows), centre), unit_rows(flat(pool.rows), centre)])
        return votes_of_neighbours(asked, known, labels, [self.k])[self.k]


def worth(labels: Labels, gold: Gold, classes: int) -> Tensor:
    """Labels as the chances of each class ``(N, C)`` float64: soft ones as they are, answers as gold weighs them."""
    rows, on_gold = gold.calibration()
    soft = labels.simplest().ranks and labels.answers().shape[1] == 1 and not labels.needs_gold
    if soft or on_gold is None or len(rows) < 2 * classes:
        return labels.dense(torch.arange(len(labels)), classes).double()
    return fit_votes(on_gold.answers(), gold.y[rows], classes).posterior_of(labels.answers())


def alone(recipe: TrainingOptions, gold: Gold, pool: Pool) -> TrainingOptions:
    """The recipe for gold without the pool: it is repeated until an epoch has as many rows as with the pool."""
    assert pool.teacher is not None
    if recipe.is_full_batch:
        return recipe
    passes = recipe.gold_repeat + int(pool.teacher.labelled().sum()) // len(gold)
    return replace(recipe, gold_repeat=max(1, passes))


def flat_members(
    gold: Gold, pool: Pool, classes: int, vanilla: Objective, recipe: TrainingOptions
) -> dict[str, Member]:
    """Witnesses that need flat rows: neighbours; and linear students, where the user's own is none."""
    if not is_flat(pool.rows) or not is_flat(gold.rows):
        return {}
    first = flat(pool.rows, torch.arange(min(len(pool), 2000)))
    if int(np.prod(first.shape[1:])) > MOST_COLUMNS:
        return {}
    members: dict[str, Member] = {"neighbours": Neighbours()}
    if recipe.is_full_batch:
        return members
    build = partial(models.linear, inputs=tuple(first.shape[1:]), classes=classes)
    told = {"optimizer": "lbfgs", "weight_decay": AUTO, "epochs": 5, "augment": None, "clip": None}
    linear = Trained(vanilla, student=build, options=told, c=C / mean_square(pool.rows))
    members["linear"] = linear
    return members | ({"linear, gold only": replace(linear, alone=True)} if len(gold.training_rows()) else {})


def is_flat(rows: Rows) -> bool:
    """Whether rows are numbers in memory, so that distances between them and weights for them make sense."""
    if is_sparse(rows):
        return True
    if rows.collate is not None or rows.per_row or is_mapped(rows) or not len(rows):
        return False
    first = rows.take(torch.arange(1))
    return isinstance(first, Tensor) and first.is_floating_point()


def flat(rows: Rows, index: Tensor | None = None) -> Any:
    """Some rows (None: all) at once: a tensor, or a sparse matrix."""
    index = torch.arange(len(rows)) if index is None else index
    return take_sparse(rows, index) if is_sparse(rows) else rows.take(index)


def _stacked(parts: list[Any]) -> Any:
    """One under the other; sparse where one of them is."""
    if all(isinstance(part, Tensor) for part in parts):
        return torch.cat(parts)
    return sparse.csr_matrix(sparse.vstack([sparse.csr_matrix(part) for part in parts]), dtype=np.float32)
