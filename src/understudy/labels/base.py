"""The contract of a form of teacher labels, and the plainest one; ``forms.py`` lists the forms.

A form is a class in a file of its own and a line in ``FORMS``: whether it ranks the classes, its confidence, the
columns it is stored in, what "no label" is. No other code depends on the class of some labels.

us.Pool(x, answers)                           # (N,) integers
us.Pool(x, us.Hard(answers, confidence))      # confidence: any number that grows with trust
us.Pool(x, us.Hard(["pos", "neg"], confidence, classes=("neg", "pos")))
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import torch
from torch import Tensor

from understudy.data.checks import check_labels, check_length, first_bad, to_tensor
from understudy.errors import UnderstudyError
from understudy.labels.class_names import class_numbers
from understudy.maths.accuracy_curves import Leading
from understudy.maths.annotators import DawidSkene
from understudy.maths.source_confusion import Sources
from understudy.store.arrow import Array
from understudy.store.option_fields import checked

Columns = dict[str, Array]
#: Weighs several annotators' votes: fitted without gold, or on it.
VoteModel = DawidSkene | Sources


@dataclass(frozen=True)
class Column:
    """A column of files and label stores that hold a teacher's labels; each form lists its own, once."""

    name: str
    #: As the label store writes it.
    dtype: str
    #: What a row without a label holds: −1, 0 or NaN.
    missing: float
    #: Class numbers may stand in files as names; "number per class" as a record by class name.
    holds: Literal["class", "number", "number per class"] = "number"
    #: Several per row.
    lists: bool = False
    #: Lists in a file may differ in length; the shorter ones are filled up with ``missing``.
    uneven: bool = False
    #: An empty cell of a file stands for ``missing``; elsewhere it is an error.
    may_be_empty: bool = False
    #: The form that stores it, where a class serves several.
    only: str | None = None
    #: Whether the form cannot do without it.
    required: bool = True
    #: A file may also spread it over several columns, whose names begin so.
    prefix: str | None = None


@dataclass(frozen=True)
class ReadOptions:
    """What a form is read with, beside its columns."""

    #: How many there are; None where it is not known and the form does not need it.
    classes: int | None
    #: How messages name the labels.
    where: str = "teacher"
    #: How several annotators' votes are weighed.
    votes: str | VoteModel = "majority"
    #: The annotators' names, where a file has a column for each.
    sources: tuple[str, ...] | None = None
    #: Whether rows of ``Column.missing`` alone are rows without a label; else they are errors.
    gaps: bool = False


class Labels(ABC):
    """A teacher's labels of N examples."""

    #: Attributes that follow from the rest (a model fitted to votes, say): not part of a fingerprint.
    derived: ClassVar[tuple[str, ...]] = (
        *("_fit", "_one_hot", "names", "form", "title", "has_confidence", "needs_gold", "fitted_to"),
    )  # fmt: skip
    #: The columns these labels are stored in; the first one marks the form.
    columns: ClassVar[tuple[Column, ...]]
    #: Whether the classes are scored (``Ranking``), so that "the teacher's top k" means something.
    ranks: ClassVar[bool] = False
    #: Whether the number of classes is not known from the columns alone.
    needs_classes: ClassVar[bool] = False
    #: How many classes there are; None where it does not follow from the labels (bare hard labels).
    classes: int | None
    #: The names of the classes in their order, where they were listed (``classes=("neg", "pos")``).
    names: tuple[str, ...] | None = None
    #: The name in ``FORMS``.
    form: str
    #: The name of this form in messages: "soft labels".
    title: str
    #: Whether ``confidence`` differs between rows: not for bare hard labels.
    has_confidence: bool = True
    #: Whether the votes have yet to be weighed by gold (``learn_from``).
    needs_gold: bool = False
    #: The keys of the gold rows whose true classes they were fitted to (``data/fitted_rows.py``).
    fitted_to: frozenset[str] = frozenset()

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def top1(self) -> Tensor:
        """The teacher's best class per row, ``(N,)``; −1 where it gave none."""

    @abstractmethod
    def dense(self, rows: Tensor, classes: int) -> Tensor:
        """The label distributions of some rows, ``(B, classes)``; one-hot for hard labels."""

    @abstractmethod
    def confidence(self, measure: str) -> Tensor:
        """One float64 per row by "margin" or "entropy" (hard labels: the given confidence, or a constant)."""

    @abstractmethod
    def take(self, rows: Tensor) -> Self: ...

    @classmethod
    def concatenate(cls, parts: Sequence[Self]) -> Self:
        both = cls.join(parts)
        both.fitted_to = frozenset().union(*(part.fitted_to for part in parts))
        return both

    @classmethod
    @abstractmethod
    def join(cls, parts: Sequence[Self]) -> Self: ...

    @abstractmethod
    def to_columns(self) -> Columns:
        """``columns`` as arrays, class numbers as numbers; ``Column.missing`` on rows without a label."""

    @classmethod
    @abstractmethod
    def from_columns(cls, columns: Columns, options: ReadOptions) -> "Labels": ...

    def _like(self, **parts: Any) -> Self:
        """Labels of other rows, which were checked."""
        other = copy(self)
        other.__dict__.pop("_one_hot", None)
        other.__dict__.update(names=None, **parts)
        return other

    def labelled(self) -> Tensor:
        """Which rows have a label at all, ``(N,)`` bool."""
        return self.top1() >= 0

    def answers(self) -> Tensor:
        """The class each source gave each row, ``(N, sources)``; −1: none. One source, unless several vote."""
        return self.top1().unsqueeze(1)

    def simplest(self) -> "Labels":
        """The same labels in their plainest form: one-hot rows are hard labels."""
        return self

    def with_classes(self, classes: int) -> "Labels":
        """The same labels, known to be over so many classes."""
        return self

    def vote_model(self) -> VoteModel | None:
        """The model that weighs several annotators' votes, where one does."""
        return None

    def learn_from(self, gold: Self, y: Tensor) -> Self:
        """These labels with votes weighed by ``gold``: the teacher's labels of rows whose truth is ``y``."""
        return self

    def cross_fitted(self, y: Tensor, known: Tensor) -> Self:
        """The labels of the gold rows themselves, each weighed without its own truth; ``known``: rows to learn from."""
        return self

    def weighed_like(self, other: "Labels") -> bool:
        """Whether the same answers would give the same label in both sets."""
        mine, theirs = self.vote_model(), other.vote_model()
        if mine is None or theirs is None:
            return mine is theirs
        return mine.confusion.shape == theirs.confusion.shape and torch.allclose(mine.confusion, theirs.confusion)


class Ranking(Labels):
    """Labels that score the classes.

    A row without a label has ``top1`` −1 and all scores 0; training drops it, and no estimate is made from or for it.
    """

    ranks = True
    classes: int
    #: How many classes a row scores one by one: all of them, or the K of a top-k list.
    listed: int
    #: How deep all rows are ranked at first; most estimates look no deeper.
    first_depth: int = 32

    @abstractmethod
    def leading(self, start: int, stop: int, depth: int) -> Leading:
        """The ``depth`` largest scores of rows start … stop − 1, without their classes."""

    @abstractmethod
    def positions(self, labels: Tensor) -> Tensor:
        """How many classes stand before the given one in each row's ranking, ``(N,)``; C where it is not listed."""


def same_classes(parts: Sequence[Labels]) -> None:
    """Refuses labels over different numbers of classes."""
    counts = sorted({part.classes for part in parts if part.classes is not None})
    if len(counts) > 1:
        raise UnderstudyError(f"labels over {' and '.join(map(str, counts))} classes cannot be joined; score the same")


class Hard(Labels):
    """One class number per row, −1 for "no label"; ``confidence`` is any number that grows with trust."""

    columns = (
        Column("teacher_label", "int32", -1, holds="class", may_be_empty=True),
        Column(
            "teacher_confidence", "float64", float("nan"), may_be_empty=True, required=False, only="hard_confidence"
        ),
    )

    @checked
    def __init__(
        self, labels: Any, confidence: Any = None, *, classes: int | Sequence[str] | None = None, where: str = "teacher"
    ) -> None:
        labels, classes, self.names = class_numbers(labels, classes, where)
        self.labels = check_labels(labels, where, missing_allowed=True)
        self.classes = classes
        most = int(self.labels.max()) if len(self) else -1
        if classes is not None and most >= classes:
            row = int(self.labels.argmax())
            raise UnderstudyError(f"{where} row {row} is {most}, but there are {classes} classes (0 to {classes - 1})")
        self.given = None if confidence is None else to_tensor(confidence, f"{where} confidence").double()
        self.has_confidence = self.given is not None
        self.form = "hard_confidence" if self.has_confidence else "hard"
        self.title = "hard labels with a confidence" if self.has_confidence else "hard labels"
        if self.given is not None:
            if self.given.dim() != 1:
                shape = tuple(self.given.shape)
                raise UnderstudyError(f"{where} confidence has shape {shape}; it is one number per row")
            check_length(len(self.given), len(self.labels), f"{where} confidence", f"{where} labels")
            missing = self.given.isnan() & (self.labels >= 0)
            if bool(missing.any()):
                raise UnderstudyError(f"{where} confidence row {first_bad(missing)} is NaN; give a number, or label −1")

    def __len__(self) -> int:
        return len(self.labels)

    def top1(self) -> Tensor:
        return self.labels

    def dense(self, rows: Tensor, classes: int) -> Tensor:
        labels = self.labels.index_select(0, rows)
        return torch.zeros(len(rows), classes, device=labels.device).scatter_(1, labels.unsqueeze(1), 1.0)

    def confidence(self, measure: str) -> Tensor:
        if self.given is None:
            return torch.full((len(self),), 1.0 if measure == "margin" else 0.0, dtype=torch.float64)
        # Entropy falls as trust grows; only the order and the distances matter to the estimators.
        return self.given if measure == "margin" else -self.given

    def take(self, rows: Tensor) -> "Hard":
        return self._like(labels=self.labels[rows], given=None if self.given is None else self.given[rows])

    def with_classes(self, classes: int) -> "Hard":
        return Hard(self.labels, self.given, classes=classes, where="the labels")

    @classmethod
    def join(cls, parts: Sequence["Hard"]) -> "Hard":
        confidences = [part.given for part in parts if part.given is not None]
        if len(confidences) not in (0, len(parts)):
            raise UnderstudyError("some hard labels have a confidence and some have none; give it to all or to none")
        return cls(
            torch.cat([part.labels for part in parts]),
            torch.cat(confidences) if confidences else None,
            classes=max((part.classes for part in parts if part.classes), default=None),
        )

    def to_columns(self) -> Columns:
        columns: Columns = {"teacher_label": self.labels.int().numpy()}
        if self.given is not None:
            columns["teacher_confidence"] = torch.where(self.labels < 0, torch.nan, self.given).numpy()
        return columns

    @classmethod
    def from_columns(cls, columns: Columns, options: ReadOptions) -> "Hard":
        confidence = columns.get("teacher_confidence")
        return cls(columns["teacher_label"], confidence, classes=options.classes, where=options.where)
