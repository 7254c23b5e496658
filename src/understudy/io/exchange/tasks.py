"""Rows as tasks for another labelling tool: the row's id, the columns to show, and the marks its export must keep.

A suggestion is sent only on request, and the task records it: labels given with one in view must never estimate.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from understudy.data.checks import is_reserved
from understudy.errors import UnderstudyError
from understudy.io.exchange import QUESTION, ROW
from understudy.io.label_columns import DRAWN, SHOWN, Labelling, drawn_with, read_teacher, true_or_false
from understudy.io.table import Table, text_columns
from understudy.labels.class_names import ClassNames
from understudy.store.arrow import Array, object_column

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
#: Why a table needs ids.
KNOWN_BY = " to know the answers by; add it"
_OURS = (ROW, QUESTION, SHOWN, DRAWN, "chosen")


@dataclass(frozen=True)
class Task:
    #: The row's id.
    row: str
    shown: dict[str, str]
    suggestion: str | None
    #: The probability of the suggestion, where the teacher gave one.
    score: float | None
    #: ``suggestion_shown``; ``chosen``, where it is known whether a strategy picked the row, and ``probability``.
    marks: dict[str, bool | float]


@dataclass(frozen=True)
class Tasks:
    classes: tuple[str, ...]
    #: The columns that people see.
    shown: tuple[str, ...]
    #: Those of them that hold addresses of images.
    images: tuple[str, ...]
    items: tuple[Task, ...]


def make_tasks(
    table: Table, classes: Sequence[str], *, show: Sequence[str] = (), images: Sequence[str] = (),
    batch: Path | None = None, suggest: bool = False,
) -> Tasks:  # fmt: skip
    """Tasks for the rows of a table, or for those that ``batch`` names, in its order."""
    names = ClassNames(tuple(classes), ordered=True)
    ids = table.known_ids(KNOWN_BY)
    shown = _shown(table, (*images, *show))
    rows, known = (np.arange(len(ids)), {}) if batch is None else _batch(batch, table)
    columns = {name: _texts(table, name, rows) for name in shown}
    suggestions = _suggestions(table, names, rows) if suggest else [(None, None)] * len(rows)
    items = []
    for number, (row, (suggestion, score)) in enumerate(zip(rows.tolist(), suggestions, strict=True)):
        marks = {SHOWN: suggestion is not None} | {name: cells[number] for name, cells in known.items()}
        cells = {name: column[number] for name, column in columns.items()}
        items.append(Task(str(ids[row]), cells, suggestion, score, marks))
    return Tasks(names.names, shown, tuple(images), tuple(items))


def _shown(table: Table, names: Sequence[str]) -> tuple[str, ...]:
    if not names:
        free = [name for name in table.names if not is_reserved(name)]
        names = [name for name in free if table.columns[name].dtype == object and table.columns[name].ndim == 1]
        if len(names) != 1:
            held = ", ".join(names or free) or "nothing but ids and labels"
            raise UnderstudyError(f"{table.path} holds {held}; say which columns people see: --show NAME")
    for name in names:
        if name not in table.names:
            raise UnderstudyError(f"{table.path} has no column {name!r} to show; it has {', '.join(table.names)}")
        if not _NAME.fullmatch(name) or name in _OURS or is_reserved(name):
            raise UnderstudyError(f"{table.where(name)} cannot be shown so; rename it: --column text={name}")
    return tuple(names)


def _texts(table: Table, name: str, rows: Array) -> list[str]:
    column = table.columns[name]
    if column.ndim != 1 or column.dtype.kind not in "OUbiuf":
        raise UnderstudyError(f"{table.where(name)} holds {column.dtype} values; show texts, numbers or addresses")
    cells = column[rows].tolist()
    if any(isinstance(cell, bytes) for cell in cells):
        raise UnderstudyError(f"{table.where(name)} holds the bytes of files; give their addresses instead")
    return [str(cell) for cell in cells]


def rows_by_id(ids: Sequence[str], path: Path, table: Table) -> Array:
    """The table's row of each id that ``path`` names; it must have all of them."""
    table.known_ids(KNOWN_BY)
    return Table(path, {"id": object_column(ids)}).places_in(table, "leave it out")


def _batch(path: Path, table: Table) -> tuple[Array, dict[str, list[Any]]]:
    """Which rows of the table a batch asks for that have no answer in it yet; which of them a strategy picked, and with
    which probability, where it says so."""
    given = text_columns(path)
    if "id" not in given:
        raise UnderstudyError(f"{path} has no column 'id'; name rows by the ids of {table.path}")
    index = rows_by_id(given["id"], path, table)
    open_rows = [row for row, label in enumerate(given.get("label", [""] * len(index))) if not label.strip()]
    if not open_rows:
        raise UnderstudyError(f"{path}: every row has an answer; there is nothing to ask")
    marks: dict[str, list[Any]] = {}
    if "chosen" in given:
        marks["chosen"] = true_or_false(given["chosen"], f"{path}: column 'chosen'", "a strategy picked the row")
    if DRAWN in given:
        marks[DRAWN] = drawn_with(given[DRAWN], f"{path}: column {DRAWN!r}").tolist()
    return index[open_rows], {name: [cells[row] for row in open_rows] for name, cells in marks.items()}


def _suggestions(table: Table, names: ClassNames, rows: Array) -> list[tuple[str | None, float | None]]:
    """The teacher's class of each row (None: it has none), and its probability where the teacher ranks classes."""
    teacher = read_teacher(table, Labelling(names, len(names)))
    if teacher is None:
        raise UnderstudyError(f"{table.path} holds no labels of a teacher to suggest; leave --show-suggestion out")
    labels = teacher.take(torch.from_numpy(rows))
    scores: list[float | None] = [None] * len(rows)
    if labels.ranks:
        dense = labels.dense(torch.arange(len(rows)), len(names)).double()
        scores = dense.max(1).values.clamp(max=1).tolist()
    best = zip(labels.top1().tolist(), scores, strict=True)
    return [(None, None) if number < 0 else (names.names[number], score) for number, score in best]
