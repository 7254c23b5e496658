"""The teacher's labels beside the truth where it is known: the numbers every part of an audit starts from."""

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
class TeacherLabels:
    """The teacher's labels of some rows."""

    labels: Labels
    #: The most probable class per row.
    predicted: Ints
    #: The margin, or the confidence given; None for bare hard labels.
    confidence: Floats | None

    @classmethod
    def of(cls, labels: Labels) -> "TeacherLabels":
        confidence = labels.confidence("margin").numpy() if labels.has_confidence else None
        return cls(labels, labels.top1().numpy(), confidence)

    def __len__(self) -> int:
        return len(self.predicted)


@dataclass(frozen=True)
class AuditData:
    gold: TeacherLabels
    truth: Ints
    #: Only rows with a label.
    pool: TeacherLabels | None
    #: Where these lie in the pool; None: they are all of it.
    pool_rows: Tensor | None
    names: list[str]
    form: str
    #: How many further rows the pool has.
    unlabelled: int = 0

    @property
    def classes(self) -> int:
        return len(self.names)

    @property
    def wrong(self) -> NDArray[np.bool_]:
        return np.not_equal(self.gold.predicted, self.truth)


def audit_data(gold: Gold, pool: Pool | None, class_names: Sequence[Any] | None) -> AuditData:
    """The gold rows that calibrate the teacher, and the pool rows it labelled."""
    rows, on_gold = gold.calibration()
    if on_gold is None or not len(rows):
        raise UnderstudyError(
            "no gold row has a teacher label, so the quality of the teacher's labels is unknown; give gold rows it "
            "labelled (ids that are in the pool file, or us.Gold(x, y, teacher=…)) and that were not chosen"
        )
    on_pool, pool_rows = _labelled_rows(pool)
    # One teacher: where its pool labels are all one-hot, its few on gold count as hard too.
    bare = (on_gold if on_pool is None else on_pool).simplest()
    theirs = None if on_pool is None else TeacherLabels.of(bare)
    unlabelled = 0 if pool is None or theirs is None else len(pool) - len(theirs)
    data = beside_truth(gold, bare.ranks, bare.title, bare.classes, theirs, class_names, unlabelled)
    return replace(data, pool_rows=pool_rows)


def beside_truth(
    gold: Gold, ranks: bool, title: str, classes: int | None, pool: TeacherLabels | None,
    class_names: Sequence[Any] | None, unlabelled: int,
) -> AuditData:  # fmt: skip
    """Gold's truth and teacher labels, with the teacher's labels of a pool whose form is known."""
    rows, on_gold = gold.calibration()
    assert on_gold is not None
    plain = on_gold if ranks else on_gold.simplest()
    if plain.title != title:
        raise UnderstudyError(f"gold holds {plain.title}, the pool {title}; use one form in both")
    truth = gold.y[rows].numpy()
    measured = TeacherLabels.of(plain)
    seen = int(max(truth.max(), measured.predicted.max(), -1 if pool is None else pool.predicted.max())) + 1
    count = max(seen, plain.classes or 0, classes or 0)
    names = [str(name) for name in (range(count) if class_names is None else class_names)]
    if len(names) < count:
        raise UnderstudyError(
            f"class_names holds {len(names)} names, but there are {count} classes; name them all, in order"
        )
    return AuditData(measured, truth, pool, None, names, title, unlabelled)


def _labelled_rows(pool: Pool | None) -> tuple[Labels | None, Tensor | None]:
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
