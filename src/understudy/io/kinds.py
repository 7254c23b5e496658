"""Types of columns, fixed in training and applied to every later file.

    table.expect({"zip": "texts", "age": "numbers"})      # as a run has them
    table.expect(declared({"zip": "text"}))               # as the user declares: --types zip=text
    table.columns["zip"]                                  # "01", "02": text, though this CSV holds digits alone

Kinds are those of ``features.tabular.column_kind``. A CSV file does not declare types: where another was inferred, the
cells are read again as text. Columns of typed files keep their type, and one that does not fit is an error where it
becomes a feature. A type that the user declares holds for typed files too: whole numbers as text are their digits.
"""

from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from understudy.data.checks import describe, is_reserved
from understudy.errors import UnderstudyError
from understudy.features.tabular import column_kind
from understudy.io.readers.arrow_columns import object_column
from understudy.store.arrow import Array

DECLARED = {"text": "declared texts", "number": "declared numbers"}
_NUMBER = r"^\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*$"


def declared(types: Mapping[str, str]) -> dict[str, str]:
    """Kinds of columns, from the types a user typed."""
    for name, kind in types.items():
        if kind not in DECLARED:
            raise UnderstudyError(f"type {kind!r} of column {name!r} is unknown; use one of {', '.join(DECLARED)}")
        if is_reserved(name):
            raise UnderstudyError(
                f"column {name!r} has a type of its own (ids and labels go by the letter); leave it out"
            )
    return {name: DECLARED[kind] for name, kind in types.items()}


def as_kind(column: Array, kind: str, letters: Callable[[], Array] | None, where: str) -> Array:
    """The column as ``kind``. ``letters``: its cells as they are written, where the file declares no types."""
    found = column_kind(column)
    if kind in (found, f"declared {found}") or found == "array":
        return column
    if kind in ("texts", DECLARED["text"]):
        if letters is not None:
            return letters()
        return column if kind == "texts" else _spelled(column, where)
    if kind in ("numbers", DECLARED["number"]):
        if found == "texts" and (letters is not None or kind != "numbers"):
            return _numbers(column, where)
        empty = found == "other" and column.dtype == object and all(cell is None for cell in column)
        return np.full(len(column), np.nan) if empty else column
    if kind == "flags" and found == "texts" and letters is not None:
        raise UnderstudyError(f"{where} row 0 is {column[0]!r}, but training had true and false; write these")
    return column


def _spelled(column: Array, where: str) -> Array:
    if column.dtype.kind not in "iu":
        raise UnderstudyError(f"{where} holds {describe(column)}, whose spelling the file does not keep; store text")
    return object_column([str(value) for value in column.tolist()])


def _numbers(column: Array, where: str) -> Array:
    values = pa.array(np.where(column == None, "", column), pa.large_string())  # noqa: E711
    given = pc.not_equal(values, "")
    right = pc.or_(pc.match_substring_regex(values, _NUMBER), pc.invert(given))
    if not pc.all(right).as_py():
        row = int(pc.index(right, False).as_py())
        raise UnderstudyError(
            f"{where} row {row} is {column[row]!r}, where training or the other file has numbers; correct it, or train "
            "with --types NAME=text"
        )
    return np.array([float(cell) if cell else np.nan for cell in values.to_pylist()])
