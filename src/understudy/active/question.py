"""A batch as a file for a person: what to label, why it was chosen, and an empty column for the answer.

Columns: ``id`` (where the pool has ids), ``row``, ``score``, ``why``, ``label``. Whoever answers fills in ``label``
with a class number, or ``skip`` (or −1) where no label can be given; an empty cell is a question still open.
"""

import csv
import io
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from understudy.errors import UnderstudyError
from understudy.store.arrow import to_parquet
from understudy.store.files import write_bytes, write_text
from understudy.tables.answers import SKIPPED, text_columns, whole_number


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
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
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
    label = whole_number(text, where)
    if label >= classes:
        raise UnderstudyError(f"{where} has label {text!r}; write a class number from 0 to {classes - 1}, or skip")
    return label
