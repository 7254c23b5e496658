"""What the teacher said, beside the truth where it is known: the numbers every part of the audit starts from."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from understudy.data.examples import Gold, Pool
from understudy.errors import UnderstudyError
from understudy.labels.forms import Labels

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Answers:
    """The teacher's labels of some rows."""

    labels: Labels
    named: Ints
    """Its best class per row."""
    confidence: Floats | None
    """Its margin, or the confidence it gave; None for bare hard labels."""

    def __len__(self) -> int:
        return len(self.named)


@dataclass(frozen=True)
class Record:
    gold: Answers
    truth: Ints
    pool: Answers | None
    """Only rows with a label."""
    pool_rows: Tensor | None
    """Where these lie in the pool; None: they are all of it."""
    names: list[str]
    form: str
    unlabelled: int = 0
    """How many further rows the pool has."""

    @property
    def classes(self) -> int:
        return len(self.names)

    @property
    def wrong(self) -> NDArray[np.bool_]:
        return np.not_equal(self.gold.named, self.truth)


def read_record(gold: Gold, pool: Pool | None, class_names: Sequence[Any] | None) -> Record:
    """Gold rows that may estimate the teacher, and the pool rows it labelled."""
    if not isinstance(gold, Gold):
        raise UnderstudyError(f"gold is a {type(gold).__name__}; pass us.Gold(x, y, teacher=…)")
    rows, on_gold = gold.calibration()
    if on_gold is None or not len(rows):
        raise UnderstudyError(
            "no gold row carries the teacher's word, so nothing tells how good its labels are; give gold rows it "
            "labelled (ids that are in the pool file, or us.Gold(x, y, teacher=…)) and that were not chosen"
        )
    on_pool, pool_rows = _of_pool(pool)
    # One teacher: where its pool labels are all one-hot, its few on gold count as hard too.
    bare = (on_gold if on_pool is None else on_pool).simplest()
    theirs = None if on_pool is None else _answers(bare)
    unlabelled = 0 if pool is None or theirs is None else len(pool) - len(theirs)
    known = record_of(gold, bare.ranks, bare.title, bare.classes, theirs, class_names, unlabelled)
    return replace(known, pool_rows=pool_rows)


def record_of(
    gold: Gold, ranks: bool, title: str, classes: int | None, theirs: Answers | None, class_names: Sequence[Any] | None,
    unlabelled: int,
) -> Record:  # fmt: skip
    """Gold beside the answers about a pool, of which the form is known."""
    rows, on_gold = gold.calibration()
    assert on_gold is not None
    plain = on_gold if ranks else on_gold.simplest()
    if plain.title != title:
        raise UnderstudyError(f"gold holds {plain.title}, the pool {title}; use one form in both")
    truth = gold.y[rows].numpy()
    measured = _answers(plain)
    seen = int(max(truth.max(), measured.named.max(), -1 if theirs is None else theirs.named.max())) + 1
    names = _names(class_names, max(seen, plain.classes or 0, classes or 0))
    return Record(measured, truth, theirs, None, names, title, unlabelled)


def _of_pool(pool: Pool | None) -> tuple[Labels | None, Tensor | None]:
    if pool is None:
        return None, None
    if pool.teacher is None:
        raise UnderstudyError("the pool has no teacher labels to audit; label it (us.teach), or leave it out")
    labelled = pool.teacher.labelled()
    if bool(labelled.all()) and len(labelled):
        return pool.teacher, None
    rows = labelled.nonzero().squeeze(1)
    if not len(rows):
        raise UnderstudyError("no pool row has a teacher label (all are −1); label some, or leave the pool out")
    return pool.teacher.take(rows), rows


def _answers(labels: Labels) -> Answers:
    confidence = labels.confidence("margin").numpy() if labels.has_confidence else None
    return Answers(labels, labels.top1().numpy(), confidence)


def _names(given: Sequence[Any] | None, classes: int) -> list[str]:
    names = [str(name) for name in (range(classes) if given is None else given)]
    if len(names) < classes:
        raise UnderstudyError(
            f"class_names holds {len(names)} names, but there are {classes} classes; name them all, in order"
        )
    return names
