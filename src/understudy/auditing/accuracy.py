"""How often the teacher is right: overall, by the class it named, by the true class, within its first k."""

from dataclasses import dataclass

import numpy as np
from torch import from_numpy

from understudy.auditing.record import Ints, Record
from understudy.labels.forms import Ranking
from understudy.maths.proportions import Share, exact, stratified

DEEPEST = 5


@dataclass(frozen=True)
class ClassAccuracy:
    name: str
    precision: Share
    """P(truth is this class | the teacher says so), over the gold rows where it does."""
    recall: Share
    """P(the teacher says so | truth is this class), over the gold rows of this class."""
    gold_named: int
    gold_true: int
    pool_share: float | None
    """How much of the pool the teacher calls this class."""


@dataclass(frozen=True)
class Accuracy:
    overall: Share
    macro_precision: Share
    macro_recall: Share
    """Means over the classes that occur, each counting the same."""
    per_class: list[ClassAccuracy]
    top_k: list[Share]
    """The truth is among the teacher's first 1, 2, … classes; empty where it does not rank them."""


def accuracy_of(record: Record) -> Accuracy:
    classes, right = record.classes, ~record.wrong
    named, true = (np.bincount(values, minlength=classes) for values in (record.gold.named, record.truth))
    correct = np.bincount(record.truth[right], minlength=classes)
    shares = None if record.pool is None else np.bincount(record.pool.named, minlength=classes) / len(record.pool)
    return Accuracy(
        overall=exact(int(right.sum()), len(right)),
        macro_precision=_macro(correct, named),
        macro_recall=_macro(correct, true),
        per_class=[
            ClassAccuracy(
                name=name,
                precision=exact(int(correct[label]), int(named[label])),
                recall=exact(int(correct[label]), int(true[label])),
                gold_named=int(named[label]),
                gold_true=int(true[label]),
                pool_share=None if shares is None else float(shares[label]),
            )
            for label, name in enumerate(record.names)
        ],
        top_k=_coverage(record),
    )


def _macro(correct: Ints, rows: Ints) -> Share:
    """Every class that occurs is a stratum of the same weight."""
    occurs = rows > 0
    return stratified(correct[occurs], rows[occurs], np.full(int(occurs.sum()), 1 / int(occurs.sum())))


def _coverage(record: Record) -> list[Share]:
    said = record.gold.labels
    if not isinstance(said, Ranking):
        return []
    places = said.places(from_numpy(record.truth)).numpy()
    deepest = min(said.listed, said.classes - 1, DEEPEST)
    return [exact(int((places < k).sum()), len(places)) for k in range(1, deepest + 1)]
