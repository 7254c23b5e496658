"""Rows of one file found in another, by their ids and never by their position.

Ids are whole numbers or text, unique within a file (``Table.ids`` sees to that, once). A file of numbers and a file of
text share no ids.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from understudy.data.checks import describe
from understudy.errors import UnderstudyError
from understudy.store.arrow import Array
from understudy.tables.table import Table


def find_rows(table: Table, pool: Table) -> Array:
    """For each row, which row of the pool has its id; −1 where none has."""
    for owner in (table, pool):
        if owner.ids is None:
            raise UnderstudyError(f"{owner.path} has no column 'id' to join by; add it, or features to the gold file")
    if not _comparable(table, pool):
        return np.full(len(table), -1)
    index = pc.index_in(table.arrow_ids, value_set=pool.arrow_ids)
    # A copy: Arrow's own memory is read-only, which torch warns about.
    return np.array(pc.fill_null(index.cast(pa.int64()), -1).to_numpy(zero_copy_only=False))


def rows_elsewhere(table: Table, others: Iterable[Table]) -> Array:
    """Which rows of a table have an id that one of the others has too, ``(rows,)`` bool."""
    shared = np.zeros(len(table), dtype=bool)
    for other in others:
        if table.ids is not None and other.ids is not None and _comparable(table, other):
            shared |= pc.is_in(table.arrow_ids, value_set=other.arrow_ids).to_numpy(zero_copy_only=False)
    return shared


def check_apart(one: Table, other: Table) -> None:
    """A row serves one purpose only."""
    shared = rows_elsewhere(one, [other])
    if shared.any():
        raise UnderstudyError(
            f"{one.path} and {other.path} share {int(shared.sum())} ids ({_shown(one, shared.argmax())} …); "
            "a row serves one purpose: remove it from one of them"
        )


def no_such_id(table: Table, row: int, pool: Table) -> UnderstudyError:
    hint = ""
    if not _comparable(table, pool):
        hint = f" (here they are {describe(table.columns['id'])}, there {describe(pool.columns['id'])})"
    return UnderstudyError(
        f"{table.where('id')} row {row}: {_shown(table, row)} is not among the ids of {pool.path}{hint}; add the row "
        "there, or its features here"
    )


def _comparable(one: Table, other: Table) -> bool:
    return bool(one.arrow_ids.type == other.arrow_ids.type)


def _shown(table: Table, row: Any) -> str:
    value = table.columns["id"][row]
    return repr(value.item() if isinstance(value, np.generic) else value)
