"""What a user would pick instead, and ours: each a function from one dealt setting to its test accuracy.

    case = Case(SETTINGS["SMS, rules"](0), seed=0)
    RIVALS["cleanlab + LR"](case)                # accuracy, or None where it does not apply (votes, say)

LR is scikit-learn's logistic regression with C = 10, or with C chosen on gold: each fold of gold is scored by models
that had the rest of gold and the whole pool. A pool row counts by the teacher's best class; rows without one are left
out. cleanlab finds label issues from out-of-fold probabilities of the same LR on everything; gold rows are never
dropped.
"""

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold

import understudy as us
from experiments import peers
from experiments.alternatives_data import EPOCHS, C, linear_recipe
from experiments.auto_data import Situation
from understudy.data.rows import Rows
from understudy.training.evaluation import gold_only_options
from understudy.training.options import TrainingOptions

Array = np.ndarray[Any, Any]
FOLDS, STEPS = 5, 300
# Each C of the search goes on where the last one ended.
SEARCH_STEPS = 100
GRID = (0.01, 0.1, 1.0, 10.0)
# A few rows may be followed closely; a pool full of mistakes may not.
GOLD_GRID = (*GRID, 100.0)


def features(rows: Rows) -> Any:
    """A sparse matrix or an array, as scikit-learn takes it."""
    matrix = getattr(rows, "matrix", None)
    return rows.take(torch.arange(len(rows))).flatten(1).numpy() if matrix is None else matrix


def stacked(*blocks: Any) -> Any:
    return sparse.vstack(blocks, format="csr") if sparse.issparse(blocks[0]) else np.concatenate(blocks)


def linear(c: float, *, steps: int = STEPS, warm_start: bool = False) -> LogisticRegression:
    return LogisticRegression(C=c, max_iter=steps, warm_start=warm_start)


class Case:
    """One dealt setting as arrays, and what several methods need of it."""

    def __init__(self, given: Situation, seed: int) -> None:
        assert given.pool.teacher is not None
        self.given, self.seed, self.labels = given, seed, given.pool.teacher
        self.gold, self.pool, self.test = (features(part.rows) for part in (given.gold, given.pool, given.test))
        self.y, self.y_test = given.gold.y.numpy(), given.test.y.numpy()
        self.classes = self.labels.classes or 1 + int(max(self.y.max(), self.labels.top1().max()))
        self.labelled = self.labels.labelled().numpy()
        self._kept: dict[float, Array] = {}

    @property
    def shows_pictures(self) -> bool:
        """Whether rows are pixels, 8 × 8 or 28 × 28."""
        return self.gold.shape[1] in (64, 784)

    def score(self, model: LogisticRegression) -> float:
        return float(model.score(self.test, self.y_test))

    @cached_property
    def everything(self) -> tuple[Any, Array]:
        return self.joined(self.labels.top1().numpy())

    def joined(self, labels: Array, keep: Array | None = None) -> tuple[Any, Array]:
        """Gold, then the pool rows that have one of these labels (and are kept)."""
        rows = np.flatnonzero(self.labelled if keep is None else self.labelled & keep)
        return stacked(self.gold, self.pool[rows]), np.concatenate([self.y, labels[rows]])

    def chosen(self, x: Any, y: Array, grid: Sequence[float] = GRID) -> float:
        """C by cross-fitting: gold rows come first in ``x``, and only they are scored."""
        right = np.zeros(len(grid))
        for train, held_out in KFold(FOLDS, shuffle=True, random_state=self.seed).split(self.y):
            rows = np.concatenate([train, np.arange(len(self.y), len(y))])
            mine, model = x[rows], linear(grid[0], steps=SEARCH_STEPS, warm_start=True)
            for number, c in enumerate(grid):
                model.set_params(C=c).fit(mine, y[rows])
                right[number] += (model.predict(x[held_out]) == y[held_out]).sum()
        return grid[int(right.argmax())]

    @cached_property
    def _chosen_on_everything(self) -> float:
        return self.chosen(*self.everything)

    def usual_c(self, tuned: bool) -> float:
        """For all that learn from the pool: one choice serves them, with the teacher's labels as they are."""
        return self._chosen_on_everything if tuned else C

    def kept(self, c: float) -> Array:
        """Which pool rows cleanlab lets pass; all rows without a label, which are left out anyway."""
        if c not in self._kept:
            x, y = self.everything
            probs = np.zeros((len(y), self.classes))
            for train, held_out in KFold(FOLDS, shuffle=True, random_state=self.seed).split(y):
                model = linear(c).fit(x[train], y[train])
                probs[np.ix_(held_out, model.classes_)] = model.predict_proba(x[held_out])
            keep = np.ones(len(self.labelled), dtype=bool)
            keep[self.labelled] = ~peers.ask("cleanlab", labels=y, probs=probs)[len(self.y) :]
            self._kept[c] = keep
        return self._kept[c]

    @property
    def votes(self) -> us.Votes | None:
        return self.labels if isinstance(self.labels, us.Votes) else None

    @cached_property
    def snorkel(self) -> Array | None:
        if self.votes is None:
            return None
        given = {"gold": self.y, "classes": self.classes, "seed": self.seed}
        return peers.ask("snorkel", votes=self.votes.votes.numpy().astype(np.int64), **given).argmax(1)

    @cached_property
    def dawid_skene(self) -> Array | None:
        return None if self.votes is None else self.votes.dawid_skene().posterior.argmax(1).numpy()


Method = Callable[[Case], float | None]


def on_gold(case: Case, tuned: bool = False) -> float:
    c = case.chosen(case.gold, case.y, GOLD_GRID) if tuned else C
    return case.score(linear(c).fit(case.gold, case.y))


def on_everything(case: Case, tuned: bool = False) -> float:
    return case.score(linear(case.usual_c(tuned)).fit(*case.everything))


def filtered(case: Case, tuned: bool = False) -> float:
    """The same C before and after the filter."""
    c = case.usual_c(tuned)
    return case.score(linear(c).fit(*case.joined(case.labels.top1().numpy(), case.kept(c))))


def label_model(case: Case, name: str, tuned: bool = False) -> float | None:
    labels: Array | None = getattr(case, name)
    return None if labels is None else case.score(linear(case.usual_c(tuned)).fit(*case.joined(labels)))


def filtered_student(case: Case) -> float:
    """The setting's own student, on what cleanlab lets pass."""
    rows = torch.from_numpy(np.flatnonzero(case.labelled & case.kept(C)))
    return trained(case, us.vanilla(), pool=case.given.pool.take(rows))


def teacher(case: Case) -> float:
    """How often its word is right where it has one: on the pool where the truth is known, else on gold."""
    gold, truth = case.given.gold, case.given.truth
    if truth is not None:
        return float((case.labels.top1() == truth)[torch.from_numpy(case.labelled)].double().mean())
    assert gold.teacher is not None
    return float((gold.teacher.top1() == gold.y[gold.teacher_rows]).double().mean())


def on_truth(case: Case) -> float | None:
    """LR on gold and the true labels of the same pool rows: what the labels' mistakes cost."""
    truth = case.given.truth
    return None if truth is None else case.score(linear(C).fit(*case.joined(truth.numpy())))


def trained(case: Case, objective: us.Objective, *, pool: us.Pool | None, linear_student: bool = False) -> float:
    given = case.given
    student, recipe = given.student, TrainingOptions(epochs=given.epochs, seed=case.seed, refine=False, **given.recipe)
    if linear_student:
        rows = len(given.gold) + int(case.labelled.sum() if pool is not None else 0)
        student = partial(us.models.linear, inputs=case.gold.shape[1], classes=case.classes)
        recipe = TrainingOptions(epochs=EPOCHS, seed=case.seed, refine=False, **linear_recipe(rows, case.classes))
    elif pool is None:
        recipe = gold_only_options(recipe, given.gold, given.pool)
    run = us.train(student, given.gold, pool, objective, progress=False, **recipe.arguments())
    return float(us.evaluate(run.student, given.test)["accuracy"])


def ours(case: Case, method: str) -> float | None:
    if method not in us.METHODS:
        return None
    return trained(case, us.METHODS[method](), pool=case.given.pool, linear_student=True)


def gold_only(case: Case) -> float:
    return trained(case, us.vanilla(), pool=None, linear_student=True)


def auto(case: Case) -> float:
    """Pictures: the setting's own net and recipe. Texts and frozen vectors: the default student for them by default."""
    given = case.given
    student, options = given.student, {"epochs": given.epochs, **given.recipe}
    if not case.shows_pictures:
        student, options = us.default_student(given.pool, case.classes, frozen=True)
    run = us.auto(student, given.gold, given.pool, seed=case.seed, progress=False, workers=1, **options)
    return float(us.evaluate(run.student, given.test)["accuracy"])


REFERENCES: dict[str, Method] = {"teacher": teacher, "LR, true labels": on_truth}
RIVALS: dict[str, Method] = {
    "LR, gold": on_gold,
    "LR, gold, C by CV": partial(on_gold, tuned=True),
    "LR, everything": on_everything,
    "LR, everything, C by CV": partial(on_everything, tuned=True),
    "cleanlab + LR": filtered,
    "cleanlab + LR, C by CV": partial(filtered, tuned=True),
    "cleanlab + student": filtered_student,
    "Dawid–Skene + LR": partial(label_model, name="dawid_skene"),
    "Dawid–Skene + LR, C by CV": partial(label_model, name="dawid_skene", tuned=True),
    "Snorkel + LR": partial(label_model, name="snorkel"),
    "Snorkel + LR, C by CV": partial(label_model, name="snorkel", tuned=True),
}
OURS: dict[str, Method] = {
    "gold only, linear": gold_only,
    **{f"{name}, linear": partial(ours, method=name) for name in ("vanilla", "gce", "slam", "reconciled")},
    "auto": auto,
}
METHODS: dict[str, Method] = REFERENCES | RIVALS | OURS
NEED_PEERS = tuple(name for name in RIVALS if name.startswith(("cleanlab", "Snorkel")))
