"""Who answers the questions: a function, an array of held-out labels, a person with a file, or people at the page.

    as_oracle(lambda rows: ask_an_expert(rows), size=len(x))    # row numbers in, labels out; None or −1: cannot label
    as_oracle(y, size=len(x))                                   # held-out labels; −1: cannot label
    as_oracle("questions/", size=len(x))                        # a folder: one CSV per round, filled in by a person
    as_oracle("questions.parquet", size=len(x))                 # the same as questions-001.parquet, … in this format
    as_oracle(AnswerBook("rows.book", ["neg", "pos"]), …)       # the label page's book; rows by their ids

Every oracle returns labels in the order asked, −1 where it cannot label, or None where the answers are not there yet,
and says what it waits for. Anything with ``kind``, ``answers`` and ``waiting`` is one.

A batch as a file has the columns ``id`` (where the pool has ids), ``row``, ``score``, ``why``, ``label``. Whoever
answers fills in ``label`` with a class number, or ``skip`` (or −1) where no label can be given; an empty cell is a
question still open.
"""

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from understudy.errors import UnderstudyError
from understudy.io.answer_file import BY_NUMBER, SKIPPED, text_columns
from understudy.io.write import quoting_for, warn_of_formulas
from understudy.store.arrow import to_parquet
from understudy.store.files import write_bytes, write_text
from understudy.store.settings import fingerprint
from understudy.web.answer_book import AnswerBook

CANNOT_LABEL = -1


@dataclass(frozen=True)
class Question:
    """The rows of one round, in the order picked."""

    round: int
    rows: Tensor
    classes: int
    ids: np.ndarray[Any, Any] | None = None
    """Of these rows, not of the whole pool."""
    scores: list[float] = field(default_factory=list)
    why: list[str] = field(default_factory=list)


@runtime_checkable
class Oracle(Protocol):
    @property
    def kind(self) -> str:
        """Who answers; a loop goes on with the same alone."""

    def answers(self, question: Question) -> Tensor | None:
        """Labels ``(n,)`` in the order asked, −1 where it cannot label; None: not there yet."""

    def waiting(self, question: Question) -> str:
        """What must be done before they are there."""


@dataclass(frozen=True)
class Function:
    """``ask(rows)`` with the row numbers (n,) of the batch returns n labels."""

    ask: Callable[[Tensor], Any]
    kind: str = "function"

    def answers(self, question: Question) -> Tensor | None:
        labels = self.ask(question.rows)
        return _as_labels(labels, f"the oracle's answer in round {question.round}", len(question.rows))

    def waiting(self, question: Question) -> str:
        return "call run() again"  # a function has answered when it returns


@dataclass(frozen=True)
class HandOver:
    """A file per round: written once, then read until every row has an answer."""

    folder: Path
    stem: str
    suffix: str

    @property
    def kind(self) -> str:
        return f"a {self.suffix} file per round"

    def answers(self, question: Question) -> Tensor | None:
        path = self.file(question)
        if not path.exists():
            write_question(path, question)
            return None
        return read_answers(path, question)

    def file(self, question: Question) -> Path:
        return self.folder / f"{self.stem}-{question.round:03}{self.suffix}"

    def waiting(self, question: Question) -> str:
        path = self.file(question)
        return (
            f"round {question.round} waits for {open_questions(path)} of {len(question.rows)} answers: fill in the "
            f"column 'label' of {path} (a class number, or skip), then call run() again"
        )


@dataclass(frozen=True)
class Page:
    """The book of the label page: rows go in by their ids (their numbers, without ids), answers come as people give
    them, also while nothing here runs."""

    book: AnswerBook
    wait: float = 0.0
    """Seconds to wait for a round's answers; then ``run()`` returns."""
    kind: str = "the label page"

    def answers(self, question: Question) -> Tensor | None:
        if len(self.book.classes) != question.classes:
            raise UnderstudyError(
                f"{self.book.path} has {len(self.book.classes)} classes, the student {question.classes} outputs; begin "
                "the book with the student's classes"
            )
        ids = asked_by_name(question)
        self.book.add(ids, chosen=question.round > 0)
        if not self.book.wait(self.wait, ids):
            return None
        said, place = self.book.answers(), {name: number for number, name in enumerate(self.book.classes)}
        return torch.tensor([place.get(said[id] or "", CANNOT_LABEL) for id in ids])

    def waiting(self, question: Question) -> str:
        left = len({*self.book.waiting()} & {*asked_by_name(question)})
        return (
            f"round {question.round} waits for {left} of {len(question.rows)} answers on the label page "
            f"({self.book.path}); then call run() again"
        )


def asked_by_name(question: Question) -> list[str]:
    return [str(id) for id in (question.rows if question.ids is None else question.ids).tolist()]


def as_oracle(value: Any, *, size: int) -> Oracle:
    """Whatever a user passes as the oracle of a pool of ``size`` rows."""
    if isinstance(value, AnswerBook):
        return Page(value)
    if isinstance(value, Oracle):
        return value
    if isinstance(value, str | Path):
        path = Path(value)
        if path.suffix.lower() in (".csv", ".parquet"):
            return HandOver(path.parent, path.stem, path.suffix.lower())
        if path.suffix and not path.is_dir():
            raise UnderstudyError(f"oracle={str(path)!r}: name a folder, or a file ending in .csv or .parquet")
        return HandOver(path, "round", ".csv")
    if isinstance(value, Tensor | np.ndarray | Sequence):
        held_out = _as_labels(value, "oracle", size)
        return Function(lambda rows: held_out[rows], f"held-out labels {fingerprint(held_out)}")
    if callable(value):
        return Function(value)
    raise UnderstudyError(
        f"the oracle is a {type(value).__name__}; pass a function (rows -> labels), an array with one label per pool "
        "row, a folder for the questions, or the label page's AnswerBook"
    )


def _as_labels(value: Any, where: str, count: int) -> Tensor:
    """Whole numbers ≥ −1, ``count`` of them; None and NaN count as "cannot label"."""
    if isinstance(value, Tensor | np.ndarray):
        numbers = torch.as_tensor(value).detach().cpu()
    else:
        try:
            numbers = torch.tensor([CANNOT_LABEL if label is None else label for label in value])
        except (TypeError, ValueError, RuntimeError) as error:
            raise UnderstudyError(
                f"{where} is no sequence of labels: {error}; return one class number a row"
            ) from error
    if numbers.shape != (count,):
        raise UnderstudyError(f"{where} has shape {tuple(numbers.shape)}; {count} rows need {count} labels")
    if numbers.is_floating_point():
        numbers = numbers.nan_to_num(nan=CANNOT_LABEL)
        if bool((numbers != numbers.round()).any()):
            raise UnderstudyError(f"{where} holds fractions; labels are class numbers from 0, −1 for none")
    numbers = numbers.long()
    if count and int(numbers.min()) < CANNOT_LABEL:
        raise UnderstudyError(f"{where} holds {int(numbers.min())}; labels are class numbers from 0, −1 for none")
    return numbers


def write_question(path: Path, question: Question) -> None:
    columns: dict[str, list[Any]] = {} if question.ids is None else {"id": question.ids.tolist()}
    columns["row"] = question.rows.tolist()
    if question.why:
        columns |= {"score": question.scores, "why": question.why}
    columns["label"] = [None] * len(question.rows)
    write_columns(path, columns)


def write_columns(path: Path, columns: dict[str, list[Any]]) -> None:
    """A small CSV or Parquet file, whole or not at all; None is an empty cell."""
    if path.suffix.lower() == ".parquet":
        # An answer may be a number or a word, so the column is text.
        write_bytes(path, to_parquet({**columns, "label": pa.array(columns["label"], pa.string())}))
        return
    texts = [cell for column in columns.values() for cell in column if isinstance(cell, str)]
    warn_of_formulas(path, [*columns, *texts])
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n", quoting=quoting_for(texts))
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    write_text(path, text.getvalue())


def read_answers(path: Path, question: Question) -> Tensor | None:
    """Labels in the order asked, −1 where skipped; None while a row has no answer. Rows may have been re-ordered."""
    given = text_columns(path)
    for name in ("row", "label"):
        if name not in given:
            raise UnderstudyError(f"{path} has no column {name!r}; it held 'row' and 'label' when it was written")
    answers: dict[int, str] = {}
    for line, (row, label) in enumerate(zip(given["row"], given["label"], strict=True)):
        if not row.isdigit() or int(row) in answers:
            raise UnderstudyError(f"{path}: column 'row' line {line + 1} holds {row!r}, twice or not a row number")
        answers[int(row)] = label.strip()
    asked = question.rows.tolist()
    if set(answers) != set(asked):
        other = min(set(answers) ^ set(asked))
        raise UnderstudyError(
            f"{path}: row {other} was {'not ' * (other in answers)}asked for; answer the rows as given"
        )
    if not all(answers.values()):
        return None
    return torch.tensor([_label(answers[row], f"{path}: row {row}", question.classes) for row in asked])


def open_questions(path: Path) -> int:
    """How many rows of a question file have no answer yet."""
    return sum(not label.strip() for label in text_columns(path).get("label", []))


def _label(text: str, where: str, classes: int) -> int:
    if text.lower() in SKIPPED:
        return -1
    label = BY_NUMBER.number(text, where)
    if label >= classes:
        raise UnderstudyError(f"{where} has label {text!r}; write a class number from 0 to {classes - 1}, or skip")
    return label
