"""Answers to a batch that was chosen for labelling: a file of ``id`` and ``label``, filled in by people.

``label`` holds a class (its name or number), or ``skip`` (or −1) where no label can be given; such rows are left out. A
class that is called ``skip`` is that class. ``chosen`` (optional, 0 or 1) marks the rows that a strategy picked;
without it all were. ``suggestion_shown`` (optional, true or false) marks the rows whose annotator saw a suggestion:
such a label is biased towards it, so it trains and never calibrates. Other columns (scores, reasons) are ignored.
"""

import csv
import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from understudy.errors import UnderstudyError
from understudy.io.readers import object_column
from understudy.io.table import Table, read_table
from understudy.io.write import quoting_for, warn_of_formulas
from understudy.labels.class_names import ClassNames
from understudy.store.arrow import Array, to_parquet
from understudy.store.files import local_path, write_bytes, write_text

SHOWN = "suggestion_shown"
TRUE, FALSE = {"true", "1", "1.0", "yes"}, {"false", "0", "0.0", "no"}
SKIPPED = {"skip", "-1", "−1", "nan"}
BY_NUMBER = ClassNames()
_WHOLE = re.compile(r"0|-?[1-9][0-9]*")


def read_chosen(path: str | Path, pool: Table, names: ClassNames = BY_NUMBER) -> Table:
    """Columns ``id`` (of the pool's type), ``label`` (numbers) and ``chosen`` of the rows that were answered."""
    path = local_path(path)
    given = text_columns(path)
    for name in ("id", "label"):
        if name not in given:
            raise UnderstudyError(
                f"{path} has no column {name!r}; answers are joined to {pool.path} by id: give its rows ids before "
                "understudy select, or put the answers into gold"
            )
    if pool.ids is None:
        raise UnderstudyError(f"{pool.path} has no column 'id' to join the answers of {path} by; add it")
    labels = [label.strip() for label in given["label"]]
    if "" in labels:
        raise UnderstudyError(f"{path}: column 'label' row {labels.index('')} is empty; write its class, or skip")
    answered = [row for row, label in enumerate(labels) if not is_skipped(label, names)]
    if not answered:
        raise UnderstudyError(f"{path}: every row is skipped; leave the file out")
    chosen = given.get("chosen", ["1"] * len(labels))
    shown = given.get(SHOWN, ["false"] * len(labels))
    seen = true_or_false(shown, f"{path}: column {SHOWN!r}", "the annotator saw a suggestion")
    return Table(
        path,
        {
            "id": _like(pool.ids, [given["id"][row] for row in answered]),
            "label": np.array([names.number(labels[row], f"{path}: column 'label' row {row}") for row in answered]),
            "chosen": np.array([seen[row] or chosen[row].strip() not in ("0", "False", "false") for row in answered]),
        },
    )


def named_answers(paths: Sequence[str | Path]) -> set[str]:
    """Every class in some files of answers."""
    labels = {label.strip() for path in paths for label in text_columns(local_path(path)).get("label", [])}
    return {label for label in labels if label and label.lower() not in SKIPPED}


def text_columns(path: Path, columns: Mapping[str, str] | None = None) -> dict[str, list[str]]:
    """Every column of a small file as text, literally; '' is an empty cell. ``columns``: our names to theirs."""
    table = read_table(path, columns=columns)
    return {name: table.texts(name) for name in table.names}


def true_or_false(cells: Sequence[Any], where: str, meaning: str) -> list[bool]:
    """A column of true and false, however it is written; ``meaning``: of true, for the message."""
    texts = [str(cell).strip().lower() for cell in cells]
    for row, text in enumerate(texts):
        if text not in TRUE | FALSE:
            raise UnderstudyError(f"{where} row {row} is {cells[row]!r}; write true ({meaning}) or false")
    return [text in TRUE for text in texts]


def is_skipped(text: str, names: ClassNames) -> bool:
    return text.lower() in SKIPPED and text not in names.names


def _like(ids: Array, texts: list[str]) -> Array:
    """Ids as numbers where the pool's are numbers; whether the pool has them is checked later."""
    whole = ids.dtype.kind in "iu" and all(map(_WHOLE.fullmatch, texts))
    return np.asarray([int(text) for text in texts]) if whole else object_column(texts)


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
