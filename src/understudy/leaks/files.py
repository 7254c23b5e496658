"""Leaks between the files of a training: texts are compared as they were written, anything else by its features."""

from collections.abc import Mapping, Sequence

import numpy as np

from understudy.leaks.between import Source
from understudy.tables.join import places, read_ids, rows_elsewhere
from understudy.tables.table import Array, Table


def text_sources(column: str, tables: Mapping[str, Table], pool: Table | None) -> dict[str, Source]:
    """Every file's texts with their ids; rows of ``id, label`` have theirs in the pool file, which they leave."""
    sources = {}
    for role, table in tables.items():
        texts = _texts(column, table, pool)
        if texts is not None:
            sources[role] = Source(texts, read_ids(table))
    if pool is not None and column in pool:
        stays = np.flatnonzero(~rows_elsewhere(pool, list(tables.values())))
        ids = read_ids(pool)
        sources["pool"] = Source(pool.columns[column][stays], None if ids is None else ids[stays])
    return sources


def _texts(column: str, table: Table, pool: Table | None) -> Sequence[str] | Array | None:
    if column in table:
        return table.columns[column]
    if pool is None or column not in pool:
        return None
    return pool.columns[column][places(table, pool)]
