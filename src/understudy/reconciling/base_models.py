"""Base models: models trained on all folds but one, which predict the rows they were not trained on.

A base model gets folds, i.e. the gold and pool rows it may train on, and predicts for each class probabilities of the
held-out gold rows and of every pool row:

    TrainedModel(us.gce()).predict_out_of_fold([fold])   # the user's own student, trained with a method
    TrainedModel(us.vanilla(), gold_only=True)           # without the pool
    NearestNeighbours(10)                                # the mean label of the ten most similar rows

``vector_models`` adds those that need rows of numbers: a linear model and trees make other errors than a net.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

import numpy as np
import torch
from scipy import sparse
from torch import Tensor, nn

from understudy import models
from understudy.data.examples import Gold, Pool
from understudy.data.rows import Rows, take_sparse
from understudy.errors import UnderstudyError
from understudy.inference.passes import predict
from understudy.labels.base import Labels
from understudy.labels.forms import Soft
from understudy.maths.nearest import nearest_rows, unit_rows, votes_of_neighbours
from understudy.maths.source_confusion import fit_votes
from understudy.models.registry import Student
from understudy.objective import Objective
from understudy.training.automatic_options import WIDE, l2_of_c, mean_square
from understudy.training.evaluation import gold_only_options
from understudy.training.fit_together import fit_students
from understudy.training.options import AUTO, TrainingOptions
from understudy.training.prepare import FitPart

# With more columns a linear model has too many weights, and with more rows trees take too long.
MOST_COLUMNS, MOST_REFERENCES = 50_000, 20_000
# Of 20,000 the search takes 1.3 times as long; neighbours of 20,000 passages of reviews have log-loss 0.648, not 0.650.
MOST_NEIGHBOURS = 10_000
# Neighbours that are looked up for every row, of which those in another fold count.
NEAREST = 40
# Of fewer noisy labels they learn the noise; of gold, a fifth is enough.
FEWEST_FOR_TREES = 500
# Rows × columns × trees of a round: about two seconds of one core in a fold.
MOST_CELLS = 5_000_000
# scikit-learn's C for rows of length 1; longer rows need a smaller one for the same predictions.
C = 10.0


@dataclass(frozen=True)
class Fold:
    """What a base model may train on, and what it predicts."""

    number: int
    student: Student
    recipe: TrainingOptions
    #: Without the held-out rows.
    gold: Gold
    held_out: Gold
    #: Every row; only ``training_rows`` of it may be trained on.
    pool: Pool
    training_rows: Tensor
    classes: int
    #: Whether each gold row is held out, ``(n,)``; ``gold`` are the others, in their order.
    is_held_out: Tensor
    #: What does not depend on the fold.
    neighbours: Callable[[], "Neighbours"]
    #: scikit-learn's C for a linear student, on gold only and with the pool, where the penalty is chosen on gold.
    c: tuple[float, float] | None = None


class BaseModel(Protocol):
    def predict_out_of_fold(self, folds: Sequence[Fold]) -> list[Tensor]:
        """For each fold probabilities ``(held-out gold rows + pool rows, C)``."""
        ...


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """A student, trained anew for every fold."""

    objective: Objective
    gold_only: bool = False
    #: None: the user's own.
    student: Student | None = None
    #: Training options in place of the user's.
    options: Mapping[str, Any] = field(default_factory=dict)
    #: scikit-learn's C where the penalty is chosen; None: the fold's.
    c: float | None = None
    #: Other labels of the pool in each fold, ``(N, C)``; None: the teacher's.
    labels: Sequence[Tensor] | None = None

    def predict_out_of_fold(self, folds: Sequence[Fold]) -> list[Tensor]:
        student = folds[0].student if self.student is None else self.student
        students = fit_students(student, [self._part(fold) for fold in folds], self.objective)
        each = zip(folds, students, strict=True)
        return [torch.cat([predict(one, part.rows) for part in (fold.held_out, fold.pool)]) for fold, one in each]

    def _part(self, fold: Fold) -> FitPart:
        if self.labels is not None:
            relabelled = Pool.of(fold.pool.rows, Soft(self.labels[fold.number]), fold.pool.ids)
            fold = replace(fold, gold=fold.gold.without_teacher(), pool=relabelled)
        recipe = fold.recipe.replace(seed=fold.recipe.seed + fold.number, **self.options)
        pool = fold.pool.take(fold.training_rows)
        if recipe.weight_decay == AUTO:
            rows = len(fold.gold) + (0 if self.gold_only else len(pool))
            c = self.c
            if c is None:
                assert fold.c is not None
                c = fold.c[0 if self.gold_only else 1]
            recipe = recipe.replace(weight_decay=l2_of_c(c, rows, fold.classes))
        if not self.gold_only:
            return FitPart(fold.gold, pool, recipe)
        return FitPart(fold.gold, None, gold_only_options(recipe, fold.gold, pool))


@dataclass(frozen=True)
class NearestNeighbours:
    """The mean label of the ``k`` most similar rows; hard labels count as their class probabilities given gold."""

    k: int = 10

    def predict_out_of_fold(self, folds: Sequence[Fold]) -> list[Tensor]:
        return [self._predict(fold) for fold in folds]

    def _predict(self, fold: Fold) -> Tensor:
        found, gold = fold.neighbours(), fold.gold
        # Of the references, by their numbers in the fold's gold, or −1; and whether they are of its pool rows.
        place = torch.full((len(fold.is_held_out),), -1)
        place[~fold.is_held_out] = torch.arange(len(gold)).where(~gold.estimate_only, -1)
        place, trains = place[found.gold], torch.zeros(len(fold.pool), dtype=torch.bool)
        trains[fold.training_rows] = True
        assert fold.pool.teacher is not None
        given = label_probabilities(fold.pool.teacher.take(found.pool), gold, fold.classes)
        labels = torch.cat([nn.functional.one_hot(gold.y[place], fold.classes).double(), given])
        allowed = torch.cat([place >= 0, trains[found.pool]])
        queried = torch.cat([fold.is_held_out, torch.ones(len(fold.pool), dtype=torch.bool)])
        return votes_of_neighbours(found.near[queried], labels, allowed, self.k)


@dataclass(frozen=True)
class Neighbours:
    """The most similar rows of every gold row and every pool row: of features alone, so that all folds share them."""

    #: The references: numbers of gold rows and of pool rows.
    gold: Tensor
    pool: Tensor
    #: Their places among the references, the most similar first, ``(gold + pool rows, NEAREST)``.
    near: Tensor

    @classmethod
    def find(cls, gold: Gold, pool: Pool, training_rows: Tensor) -> "Neighbours":
        trusted, rows = gold.training_rows(), _at_most(training_rows, MOST_NEIGHBOURS)
        queries = [take_numbers(part.rows) for part in (gold, pool)]
        dense = all(isinstance(part, Tensor) for part in queries)
        centre = queries[1][rows].flatten(1).float().mean(0) if dense else None
        every = _stack([unit_rows(part, centre) for part in queries])
        return cls(trusted, rows, nearest_rows(every, every[torch.cat([trusted, len(gold) + rows]).numpy()], NEAREST))


@dataclass(frozen=True)
class BoostedTrees:
    """scikit-learn's gradient boosting, on the most probable labels; for tables, where it is hard to beat.

    Small trees and few of them: with 31 leaves and 100 rounds, scikit-learn's defaults, 1,500 rows of Adult, 30% of
    them wrong, give 72.5% in place of 82.2, and 1,000 right ones 83.4 in place of 85.2.
    """

    gold_only: bool = False

    def predict_out_of_fold(self, folds: Sequence[Fold]) -> list[Tensor]:
        return [self._predict(fold) for fold in folds]

    def _predict(self, fold: Fold) -> Tensor:
        from sklearn.ensemble import HistGradientBoostingClassifier
        from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

        columns = take_numbers(fold.pool.rows, torch.arange(1)).shape[1]
        cells = columns * (1 if fold.classes == 2 else fold.classes)
        most = 0 if self.gold_only else min(MOST_REFERENCES, MOST_CELLS // cells)
        trusted, rows, probs = _labelled_rows(fold, most)
        labels = probs.argmax(1).numpy()
        if len(np.unique(labels)) < 2:
            raise UnderstudyError("trees need rows of two classes")
        examples = torch.cat([take_numbers(fold.gold.rows, trusted), take_numbers(fold.pool.rows, rows)])
        queries = torch.cat([take_numbers(part.rows) for part in (fold.held_out, fold.pool)])
        model = HistGradientBoostingClassifier(
            max_iter=30, max_leaf_nodes=8, min_samples_leaf=5 if self.gold_only else 20, early_stopping=False,
            random_state=(fold.recipe.seed + fold.number) % 2**32,
        )  # fmt: skip
        predicted = torch.zeros(len(queries), fold.classes, dtype=torch.float64)
        with threadpool_limits(limits=1):
            model.fit(examples.numpy(), labels)
            predicted[:, model.classes_] = torch.from_numpy(model.predict_proba(queries.numpy()))
        return predicted


def _labelled_rows(fold: Fold, most: int) -> tuple[Tensor, Tensor, Tensor]:
    """Gold rows and (at most so many) pool rows to train on, and the class probabilities of both."""
    assert fold.pool.teacher is not None
    trusted, rows = fold.gold.training_rows(), fold.training_rows
    rows = _at_most(rows, most, fold.number)
    own = nn.functional.one_hot(fold.gold.y[trusted], fold.classes).double()
    given = label_probabilities(fold.pool.teacher.take(rows), fold.gold, fold.classes) if len(rows) else own[:0]
    return trusted, rows, torch.cat([own, given])


def _at_most(rows: Tensor, most: int, seed: int = 0) -> Tensor:
    if len(rows) <= most:
        return rows
    return rows[torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed))[:most]]


def label_probabilities(labels: Labels, gold: Gold, classes: int) -> Tensor:
    """Class probabilities ``(N, C)`` float64: soft labels as they are, others by their confusion with gold."""
    rows, on_gold = gold.calibration()
    soft = labels.simplest().ranks and labels.answers().shape[1] == 1 and not labels.needs_gold
    if soft or on_gold is None or len(rows) < 2 * classes:
        return labels.dense(torch.arange(len(labels)), classes).double()
    return fit_votes(on_gold.answers(), gold.y[rows], classes).posterior_of(labels.answers())


def vector_models(
    gold: Gold, pool: Pool, classes: int, vanilla: Objective, recipe: TrainingOptions
) -> dict[str, BaseModel]:
    """Base models for rows of numbers: nearest neighbours; trees, where these are the columns of a table and not a
    vector of an encoder; linear models, where the user's own is none."""
    if not is_numeric(pool.rows) or not is_numeric(gold.rows):
        return {}
    first = take_numbers(pool.rows, torch.arange(min(len(pool), 2000)))
    if int(np.prod(first.shape[1:])) > MOST_COLUMNS:
        return {}
    base_models: dict[str, BaseModel] = {"neighbours": NearestNeighbours()}
    if isinstance(first, Tensor) and first.dim() == 2 and first.shape[1] < WIDE and len(pool) >= FEWEST_FOR_TREES:
        base_models["trees"] = BoostedTrees()
        if len(gold.training_rows()) >= FEWEST_FOR_TREES // 5:
            base_models["trees, gold only"] = BoostedTrees(gold_only=True)
    if recipe.is_full_batch:
        return base_models
    build = partial(models.linear, inputs=tuple(first.shape[1:]), classes=classes)
    options = {"optimizer": "lbfgs", "weight_decay": AUTO, "epochs": 5, "augment": None, "clip": None}
    linear = TrainedModel(vanilla, student=build, options=options, c=C / mean_square(pool.rows))
    base_models["linear"] = linear
    if len(gold.training_rows()):
        base_models["linear, gold only"] = replace(linear, gold_only=True)
    return base_models


def is_numeric(rows: Rows) -> bool:
    """Whether rows are vectors of numbers in memory, on which distances and linear models make sense."""
    if rows.is_sparse:
        return True
    if rows.collate is not None or rows.per_row or rows.is_mapped or not len(rows):
        return False
    first = rows.take(torch.arange(1))
    return isinstance(first, Tensor) and first.is_floating_point()


def take_numbers(rows: Rows, index: Tensor | None = None) -> Any:
    """Some rows (None: all) as one tensor or sparse matrix."""
    index = torch.arange(len(rows)) if index is None else index
    return take_sparse(rows, index) if rows.is_sparse else rows.take(index)


def _stack(parts: list[Any]) -> Any:
    """The rows of all parts; sparse where one of them is."""
    if all(isinstance(part, Tensor) for part in parts):
        return torch.cat(parts)
    return sparse.csr_matrix(sparse.vstack([sparse.csr_matrix(part) for part in parts]), dtype=np.float32)
