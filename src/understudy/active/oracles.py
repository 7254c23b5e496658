"""Oracles, which label batches: a function, an array of held-out labels, a person with files, or the label page.

    as_oracle(lambda rows: ask_an_expert(rows), size=len(x))    # row numbers in, labels out; None or −1: cannot label
    as_oracle(y, size=len(x))                                   # held-out labels; −1: cannot label
    as_oracle("batches/", size=len(x))                          # a folder: one CSV per round, filled in by a person
    as_oracle("batches.parquet", size=len(x))                   # the same as batches-001.parquet, … in this format
    as_oracle(AnswerBook("rows.book", ["neg", "pos"]), …)       # the label page's book; rows by their ids

Every oracle returns labels in the order of the rows, −1 where it cannot label, or None where the answers are not there
yet. Anything with ``kind``, ``answers`` and ``waiting`` is one.

A batch file has the columns ``id`` (where the pool has ids), ``row``, ``score``, ``why``, ``label``. The annotator
fills in ``label`` with a class, or ``skip`` (or −1) where no label can be given; an empty cell is open. Answers
may also come from a file of ``id`` and ``label``; where both have one, the batch file's counts.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from understudy.data.checks import check_labels, to_tensor
from understudy.errors import UnderstudyError
from understudy.io.table import text_columns
from understudy.io.write import write_columns
from understudy.labels.class_names import ClassNames
from understudy.store.fingerprints import fingerprint
from understudy.web.answer_book import AnswerBook

CANNOT_LABEL = -1


@dataclass(frozen=True)
class LabelRequest:
    """The rows of one round to label, in the order picked."""

    round: int
    rows: Tensor
    classes: int
    #: Of these rows, not of the whole pool.
    ids: np.ndarray[Any, Any] | None = None
    scores: list[float] = field(default_factory=list)
    why: list[str] = field(default_factory=list)

    def names(self) -> list[str]:
        """Ids as text; row numbers where the pool has no ids."""
        return [str(id) for id in (self.rows if self.ids is None else self.ids).tolist()]


@runtime_checkable
class Oracle(Protocol):
    @property
    def kind(self) -> str:
        """A name of the oracle; a loop continues only with the same."""

    def answers(self, request: LabelRequest) -> Tensor | None:
        """Labels ``(n,)`` in the order of the rows, −1 where it cannot label; None: not there yet."""

    def waiting(self, request: LabelRequest) -> str:
        """A message: what must be done before the answers are there."""


@dataclass(frozen=True)
class Function:
    """``ask(rows)`` with the row numbers (n,) of the batch returns n labels."""

    ask: Callable[[Tensor], Any]
    kind: str = "function"

    def answers(self, request: LabelRequest) -> Tensor | None:
        labels = self.ask(request.rows)
        return _as_labels(labels, f"the oracle's answer in round {request.round}", len(request.rows))

    def waiting(self, request: LabelRequest) -> str:
        return "call run() again"  # a function has answered when it returns


@dataclass(frozen=True)
class LabelPage:
    """The book of the label page: rows go in by their ids (their numbers, without ids), answers come as people give
    them, also while nothing here runs."""

    book: AnswerBook
    #: Seconds to wait for a round's answers; then ``run()`` returns.
    wait: float = 0.0
    kind: str = "the label page"

    def answers(self, request: LabelRequest) -> Tensor | None:
        if len(self.book.classes) != request.classes:
            count = f"{len(self.book.classes)} classes, the student {request.classes} outputs"
            raise UnderstudyError(f"{self.book.path} has {count}; begin the book with the student's classes")
        ids = request.names()
        self.book.add(ids, chosen=request.round > 0)
        if not self.book.wait(self.wait, ids):
            return None
        labels, place = self.book.answers(), {name: number for number, name in enumerate(self.book.classes)}
        return torch.tensor([place.get(labels[id] or "", CANNOT_LABEL) for id in ids])

    def waiting(self, request: LabelRequest) -> str:
        left = f"{len({*self.book.waiting()} & {*request.names()})} of {len(request.rows)} answers"
        return f"round {request.round} waits for {left} on the label page ({self.book.path}); then call run() again"


@dataclass(frozen=True)
class AnswerFiles:
    """A batch file per round, written once, then read until every row has an answer there or in ``given``."""

    folder: Path
    #: Of the classes; None: they are numbers.
    names: tuple[str, ...] | None = None
    #: A file of ``id`` and ``label``.
    given: Path | None = None
    stem: str = "batch"
    suffix: str = ".csv"
    again: str = "call run() again"
    #: Columns of the pool that a batch shows.
    content: Mapping[str, Sequence[str]] = field(default_factory=dict)
    kind: str = "answers in files"

    def answers(self, request: LabelRequest) -> Tensor | None:
        names, labels = request.names(), self._labels(request)
        if all(labels.get(name) for name in names):
            return torch.tensor([self._number(labels[name], name, request.classes) for name in names])
        if not self.file(request).exists():
            columns: dict[str, list[Any]] = {} if request.ids is None else {"id": request.ids.tolist()}
            columns["row"] = request.rows.tolist()
            columns |= {name: [cells[row] for row in columns["row"]] for name, cells in self.content.items()}
            columns |= {"score": request.scores, "why": request.why} if request.why else {}
            write_columns(self.file(request), columns | {"label": [None] * len(names)})
        return None

    def waiting(self, request: LabelRequest) -> str:
        names, labels = request.names(), self._labels(request)
        left = sum(not labels.get(name) for name in names)
        where = self.file(request) if self.given is None else f"{self.file(request)} (or add them to {self.given})"
        wanted = f"{'a class number' if self.names is None else 'a class'} or skip, then {self.again}"
        waits = f"round {request.round} waits for {left} of {len(names)} answers"
        return f"{waits}: fill in the column 'label' of {where}, {wanted}"

    def file(self, request: LabelRequest) -> Path:
        return self.folder / f"{self.stem}-{request.round:03}{self.suffix}"

    def _labels(self, request: LabelRequest) -> dict[str, str]:
        """By id, the answers in the two files."""
        by = "row" if request.ids is None else "id"
        labels = {} if self.given is None else _column(self.given, by)
        path, names = self.file(request), set(request.names())
        if path.exists():
            mine = _column(path, by)
            if strange := set(mine) - names or names - set(mine) - set(labels):
                what = "not part of" if strange <= set(mine) else "missing from"
                raise UnderstudyError(f"{path}: {by} {min(strange)} is {what} the batch; answer its rows")
            labels |= {name: label for name, label in mine.items() if label}
        return labels

    def _number(self, text: str, name: str, classes: int) -> int:
        names, where = ClassNames(self.names or ()), f"the answer to {name}"
        if names.skips(text):
            return CANNOT_LABEL
        number: int = names.number(text, where)
        if number >= classes:
            raise UnderstudyError(f"{where} is {text!r}; write a class number from 0 to {classes - 1}, or skip")
        return number


def as_oracle(value: Any, *, size: int) -> Oracle:
    """The oracle for a pool of ``size`` rows from any of the forms above."""
    if isinstance(value, AnswerBook):
        return LabelPage(value)
    if isinstance(value, Oracle):
        return value
    if isinstance(value, str | Path):
        path = Path(value)
        if path.suffix.lower() in (".csv", ".parquet"):
            return AnswerFiles(path.parent, stem=path.stem, suffix=path.suffix.lower())
        if path.suffix and not path.is_dir():
            raise UnderstudyError(f"oracle={str(path)!r}: name a folder, or a file ending in .csv or .parquet")
        return AnswerFiles(path, stem="round")
    if isinstance(value, Tensor | np.ndarray | Sequence):
        held_out = _as_labels(value, "oracle", size)
        return Function(lambda rows: held_out[rows], f"held-out labels {fingerprint(held_out)}")
    if callable(value):
        return Function(value)
    wanted = "a function (rows -> labels), an array of labels, a folder for the batches, or the label page's AnswerBook"
    raise UnderstudyError(f"the oracle is a {type(value).__name__}; pass {wanted}")


def _as_labels(value: Any, where: str, count: int) -> Tensor:
    """Class numbers, ``count`` of them; None and NaN count as "cannot label"."""
    if isinstance(value, Iterable) and not isinstance(value, Tensor | np.ndarray):
        value = [CANNOT_LABEL if label is None else label for label in value]
    numbers = to_tensor(value, where).cpu()
    labels = check_labels(numbers.nan_to_num(nan=CANNOT_LABEL), where, missing_allowed=True)
    if len(labels) != count:
        raise UnderstudyError(f"{where} has {len(labels)} labels; {count} rows need {count} labels")
    return labels


def _column(path: Path, by: str) -> dict[str, str]:
    columns = text_columns(path)
    if "label" not in columns and "teacher_label" in columns:  # of understudy ask
        columns["label"] = columns["teacher_label"]
    for name in (by, "label"):
        if name not in columns:
            raise UnderstudyError(f"{path} has no column {name!r}; answers need {by!r} and 'label'")
    labels: dict[str, str] = {}
    for name, label in zip(columns[by], columns["label"], strict=True):
        if labels.setdefault(name, label.strip()) != label.strip():
            raise UnderstudyError(f"{path} answers {by} {name} twice and differently; keep one line")
    return labels
