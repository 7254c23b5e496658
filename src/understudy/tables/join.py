"""Rows of one file found in another, by their ids and never by their position.

Ids are whole numbers or text, unique within a file. A file of numbers and a file of text share no ids.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from understudy.errors import UnderstudyError
from understudy.tables.readers.records import text_array
from understudy.tables.table import Array, Table


def read_ids(table: Table) -> Array | None:
    if "id" not in table:
        return None
    ids = table.columns["id"]
    if ids.ndim != 1 or ids.dtype.kind not in "iuUO":
        raise UnderstudyError(f"{table.where('id')} holds {kind_of(ids)}; ids are whole numbers or text, one per row")
    values = _arrow(table)
    empty = pc.index(values, "").as_py() if ids.dtype.kind in "UO" else -1
    if empty >= 0:
        raise UnderstudyError(f"{table.where('id')} row {empty} is empty; give the row an id, or leave the column out")
    if len(pc.unique(values)) < len(values):
        seen: set[Any] = set()
        for row, value in enumerate(ids.tolist()):
            if value in seen:
                raise UnderstudyError(f"{table.where('id')} row {row} repeats {value!r}; ids must be unique")
            seen.add(value)
    return ids


def places(table: Table, pool: Table) -> Array:
    """For each row, where its id is in the pool; −1 where it is not."""
    for owner in (table, pool):
        if read_ids(owner) is None:
            raise UnderstudyError(f"{owner.path} has no column 'id' to join by; add it, or features to the gold file")
    if not comparable(table, pool):
        return np.full(len(table), -1)
    found = pc.index_in(_arrow(table), value_set=_arrow(pool))
    # A copy: Arrow's own memory is read-only, which torch warns about.
    return np.array(pc.fill_null(found.cast(pa.int64()), -1).to_numpy(zero_copy_only=False))


def rows_elsewhere(table: Table, others: list[Table]) -> Array:
    """Which rows of a table have an id that one of the others has too, ``(rows,)`` bool."""
    found = np.zeros(len(table), dtype=bool)
    for other in others:
        if "id" in table and "id" in other and comparable(table, other):
            found |= pc.is_in(_arrow(table), value_set=_arrow(other)).to_numpy(zero_copy_only=False)
    return found


def check_apart(one: Table, other: Table) -> None:
    """A row serves one purpose only."""
    shared = rows_elsewhere(one, [other])
    if shared.any():
        first = one.columns["id"][shared.argmax()]
        raise UnderstudyError(
            f"{one.path} and {other.path} share {int(shared.sum())} ids ({_plain(first)!r} …); "
            "a row serves one purpose: remove it from one of them"
        )


def comparable(one: Table, other: Table) -> bool:
    kinds = [table.columns["id"].dtype.kind in "UO" for table in (one, other)]
    return kinds[0] == kinds[1]


def no_such_id(table: Table, row: int, pool: Table) -> UnderstudyError:
    hint = ""
    if not comparable(table, pool):
        hint = f" (here they are {kind_of(table.columns['id'])}, there {kind_of(pool.columns['id'])})"
    return UnderstudyError(
        f"{table.where('id')} row {row}: {_plain(table.columns['id'][row])!r} is not among the ids of {pool.path}{hint}"
        "; add the row there, or its features here"
    )


def kind_of(column: Array) -> str:
    kinds = {"U": "text", "i": "whole numbers", "u": "whole numbers", "f": "fractions", "M": "dates", "O": "text"}
    if column.ndim > 1:
        return f"arrays of {'text' if column.dtype.kind in 'UO' else column.dtype}"
    if column.dtype.names:
        return "records"
    return kinds.get(column.dtype.kind, f"{column.dtype} values")


def _arrow(table: Table) -> Any:
    ids = table.columns["id"]
    if ids.dtype.kind not in "iu":
        return text_array(ids, table.where("id"))
    try:
        return pa.array(ids, pa.int64())
    except (pa.ArrowException, OverflowError) as error:
        raise UnderstudyError(f"{table.where('id')} holds numbers beyond 64 bits; use smaller ones, or text") from error


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
