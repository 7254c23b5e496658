"""One file for gold and pool, as most people have it: rows with a label of yours are gold, the others the pool.

    gold, pool = parted(read_table("mine.csv", columns={"label": "checked"}))

Gold is then a table of ``id, label`` like any other, whose rows take everything else from the pool by id. A file
without ids has the numbers of its rows instead: here, and only here, there is no other file whose order could differ.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from understudy.errors import UnderstudyError
from understudy.io.table import LazyColumns, Table
from understudy.store.arrow import Array


def is_one_file(gold: Any, pool: Any) -> bool:
    """Whether the same file (or the same table in memory) is named for both."""
    if gold is None or pool is None:
        return False
    if isinstance(gold, str | Path) and isinstance(pool, str | Path):
        return Path(gold).resolve() == Path(pool).resolve()
    return gold is pool


def parted(table: Table) -> tuple[Table, Table]:
    """Gold and pool."""
    if "label" not in table.names:
        raise UnderstudyError(
            f"{table.path} is gold and pool, but has no column 'label' for your own labels (empty: a pool row); add "
            "it, or name it: --column label=NAME"
        )
    labels, known = own_labels(table)
    if not len(known):
        raise UnderstudyError(f"{table.where('label')} is empty in every row; label some, better a hundred or more")
    pool = table
    if "id" not in table.names:
        pool = table.with_columns(NumberedColumns(table.columns, len(table)))
    ids = pool.ids
    assert ids is not None
    return table.with_columns({"id": ids[known], "label": labels[known]}), pool


def own_labels(table: Table) -> tuple[Array, Array]:
    """The column ``label`` of a table from a file, and the numbers of the rows where it is not empty."""
    assert isinstance(table.columns, LazyColumns)
    labels = table.columns.with_gaps("label")
    return labels, np.flatnonzero(labels != ("" if labels.dtype.kind in "OU" else -1))


class NumberedColumns(Mapping[str, Array]):
    """A table's columns, still read when they are asked for, and the number of each row as its id."""

    def __init__(self, columns: Mapping[str, Array], rows: int) -> None:
        self._columns, self._ids = columns, np.arange(rows)

    def __getitem__(self, name: str) -> Array:
        return self._ids if name == "id" else self._columns[name]

    def __iter__(self) -> Iterator[str]:
        yield "id"
        yield from self._columns

    def __len__(self) -> int:
        return 1 + len(self._columns)
