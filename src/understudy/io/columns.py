"""What columns hold: ids, compared by the letter, and types, fixed in training and applied to every later file.

    ids = id_array(column, "gold.csv: column 'id'")       # checked: one per row, each of them once
    index = places(ids, of_pool)                          # for each, which of the pool's is spelled so; −1: none
    near = misspelt(ids, of_pool, index)                  # the first that differs in spelling alone: "12.0", "12"

7 and "7" are one id, 7 and "007" are two: what a file stores as numbers, another may store as text, and a CSV does not
say. An id that would match but for its spelling is a mistake to point at: the row would be taken for another one.

    table.expect({"zip": "texts", "age": "numbers"})      # types as a run has them
    table.expect(declared({"zip": "text"}))               # as the user declares: --types zip=text
    table.columns["zip"]                                  # "01", "02": text, though this CSV holds digits alone

Kinds are those of ``column_kind``. A CSV file does not declare types: where another was inferred, the cells are read
again as text. Columns of typed files keep their type, and one that does not fit is an error where it becomes a feature.
A type that the user declares holds for typed files too: whole numbers as text are their digits.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from understudy.data.checks import describe, is_reserved
from understudy.errors import UnderstudyError
from understudy.features.raw_columns import NUMBER, column_kind
from understudy.store.arrow import Array, object_column, text_array

# Only such ids have other spellings: numbers, and texts with spaces around them.
_MAY_DIFFER = r"^\s*[0-9]+(\.0*)?\s*$|^\s|\s$"


def id_array(ids: Array, where: str) -> Any:
    """As Arrow has them: int64, uint64 or text, each of them once."""
    if ids.ndim != 1 or ids.dtype.kind not in "iuUO":
        hint = " (data frames turn whole numbers with gaps into fractions)" if ids.dtype.kind == "f" else ""
        raise UnderstudyError(f"{where} holds {describe(ids)}{hint}; ids are whole numbers or text, one per row")
    if ids.dtype.kind in "iu":
        values = pa.array(ids, pa.uint64() if ids.dtype == np.uint64 else pa.int64())
    else:
        values = text_array(ids, where)
        if (empty := pc.index(values, "").as_py()) >= 0:
            raise UnderstudyError(f"{where} row {empty} is empty; give the row an id, or leave the column out")
    if len(distinct := pc.unique(values)) < len(values):
        first = pc.index_in(distinct, value_set=values)
        row = int(np.setdiff1d(np.arange(len(values)), first.to_numpy())[0])
        raise UnderstudyError(f"{where} row {row} repeats {values[row].as_py()!r}; ids must be unique")
    return values


def places(mine: Any, theirs: Any) -> Array:
    """For each of mine, which of theirs is the same id; −1 where none is."""
    if mine.type != theirs.type:
        mine, theirs = as_text(mine), as_text(theirs)
    index = pc.index_in(mine, value_set=theirs)
    # A copy: Arrow's own memory is read-only, which torch warns about.
    return np.array(pc.fill_null(index.cast(pa.int64()), -1).to_numpy(zero_copy_only=False))


def as_text(ids: Any) -> Any:
    return ids if pa.types.is_large_string(ids.type) else ids.cast(pa.large_string())


def misspelt(mine: Any, theirs: Any, index: Array) -> tuple[int, str] | None:
    """The first of mine without a match (``index``) that one of theirs would be but for its spelling, and how so."""
    if pa.types.is_integer(mine.type) and pa.types.is_integer(theirs.type):
        return None
    rows = np.flatnonzero(index < 0)
    mine, theirs = as_text(mine).take(pa.array(rows)), as_text(theirs)
    if not pc.any(pc.match_substring_regex(mine, _MAY_DIFFER)).as_py():
        # Then it is theirs that are odd, if any: mostly none, and nothing is left to do.
        theirs = theirs.filter(pc.match_substring_regex(theirs, _MAY_DIFFER))
    near = pc.index_in(_plain(mine), value_set=_plain(theirs)) if len(mine) and len(theirs) else None
    if near is None or near.null_count == len(near):
        return None
    first = int(pc.index(pc.is_valid(near), True).as_py())
    one, other = mine[first].as_py(), theirs[near[first].as_py()].as_py()
    gaps = "data frames with gaps write whole numbers so" if "." in one + other else "leading zeros"
    why = "spaces" if one.strip() == other.strip() else gaps
    return int(rows[first]), f"{one!r}, where there is {other!r} ({why}; {len(near) - near.null_count} such ids)"


def _plain(texts: Any) -> Any:
    """Without spaces around, the .0 of a fraction, and leading zeros."""
    trimmed = pc.utf8_trim_whitespace(texts)
    return pc.replace_substring_regex(trimmed, r"^0*([0-9]+)(\.0*)?$", r"\1")


DECLARED = {"text": "declared texts", "number": "declared numbers", "date": "declared dates"}


def declared(types: Mapping[str, str]) -> dict[str, str]:
    """Kinds of columns, from the types a user typed."""
    for name, kind in types.items():
        if kind.partition(":")[0] not in DECLARED:
            raise UnderstudyError(f"type {kind!r} of column {name!r} is unknown; use one of {', '.join(DECLARED)}")
        if is_reserved(name):
            raise UnderstudyError(f"column {name!r} has a type of its own (ids, labels: by the letter); leave it out")
    return {name: DECLARED[kind.partition(":")[0]] for name, kind in types.items()}


def as_kind(column: Array, kind: str, letters: Callable[[], Array] | None, where: str) -> Array:
    """The column as ``kind``. ``letters``: its cells as they are written, where the file declares no types."""
    found = column_kind(column)
    if kind in (found, f"declared {found}") or found == "array":
        return column
    if kind in ("texts", DECLARED["text"]) or ("dates" in kind and found == "numbers"):
        if letters is not None:
            return letters()
        if kind == "texts":
            return column
        if column.dtype.kind in "iu":
            return object_column([str(value) for value in column.tolist()])
        raise UnderstudyError(f"{where} holds {describe(column)}, whose spelling the file does not keep; store text")
    if kind in ("numbers", DECLARED["number"]):
        if found == "texts":
            return _numbers(column, where)
        empty = found == "other" and column.dtype == object and all(cell is None for cell in column)
        return np.full(len(column), np.nan) if empty else column
    return column


def _numbers(column: Array, where: str) -> Array:
    values = pc.utf8_trim_whitespace(pa.array(np.where(column == None, "", column), pa.large_string()))  # noqa: E711
    given = pc.not_equal(values, "")
    right = pc.or_(pc.match_substring_regex(values, NUMBER), pc.invert(given))
    if not pc.all(right).as_py():
        row = int(pc.index(right, False).as_py())
        held = f"{column[row]!r}, where training or the other file has numbers"
        raise UnderstudyError(f"{where} row {row} is {held}; correct it, or train with --types NAME=text")
    return np.array([float(cell) if cell else np.nan for cell in values.to_pylist()])
