"""Parquet: one file, or a folder of shards in the order of their names. Columns are streamed, one at a time.

What the file declares (rows, widths, unpacked sizes) is checked against the memory before any is taken. A column of
lists beyond ``MAPPED_BEYOND`` (or a quarter of the free memory) is memory-mapped instead (``io/mapped.py``).
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from understudy.data.memory import available_memory, check_memory
from understudy.errors import UnderstudyError
from understudy.io.mapped import map_column
from understudy.io.readers.source import (
    EMPTY_NUMBER,
    LISTS,
    PADDING,
    SMALL,
    TEXTS,
    File,
    TableSource,
    join_batches,
    opened_parquet,
    reading,
)
from understudy.store.arrow import Array

MAPPED_BEYOND, MAPPED_SHARE = 1 << 30, 0.25
# One batch of a column stays near this, so that the copy under way is small beside the column.
BATCH_BYTES = 32 << 20
BATCH_ROWS = 1 << 16


def parquet_source(path: Path, shards: Sequence[File] | None = None) -> TableSource:
    files: list[File] = [path] if shards is None else list(shards)
    counts, kinds = read_footers(files)
    rows, names = sum(counts), list(kinds)

    def read(name: str, role: str) -> Array:
        return _read(files, name, kinds[name], rows, role=role, where=f"{path}: column {name!r}")

    def stored(name: str) -> Any:
        return pa.chunked_array(list(_batches(files, name, kinds[name], BATCH_ROWS)))

    return TableSource(names, rows, read, stored=stored)


def read_footers(files: Sequence[File]) -> tuple[list[int], dict[str, Any]]:
    """How many rows each file has, and what the columns of all of them hold: the same, or it is an error."""
    counts: list[int] = []
    kinds: dict[str, Any] = {}
    for file in files:
        with reading(file), opened_parquet(file) as opened:
            schema, count = opened.schema_arrow, opened.metadata.num_rows
        if count < 0:
            raise UnderstudyError(f"{file} announces {count} rows; write it again")
        own = dict(zip(schema.names, schema.types, strict=True))
        twice = [name for name in own if schema.names.count(name) > 1]
        if twice:
            raise UnderstudyError(f"{file}: two columns are named {twice[0]!r}; rename one")
        kinds = kinds or own
        _check_same_columns(kinds, own, files[0], file)
        counts.append(count)
    return counts, kinds


def _read(files: list[File], name: str, kind: Any, rows: int, *, role: str, where: str) -> Array:
    size = _declared_size(files, name, kind, rows)
    if isinstance(kind, LISTS) and role not in {*PADDING, *EMPTY_NUMBER} and size > _mapped_beyond():
        return map_column(files, name)
    if size > SMALL:
        check_memory(size, where)
    at_once = max(1, min(BATCH_ROWS, BATCH_BYTES * rows // max(size, 1)))
    batches: Iterable[Any] = _batches(files, name, kind, at_once)
    if pa.types.is_map(kind):
        # Every batch may name other keys: all of them together.
        batches = [pa.concat_arrays(list(batches))] if rows else []
    elif rows <= at_once:
        batches = list(batches)
    return join_batches(batches, rows, role=role, where=where)


def _batches(files: list[File], name: str, kind: Any, size: int) -> Iterator[Any]:
    # Text comes as it is packed, each different value once: unpacking is where a small file can turn huge.
    shared = [name] if kind in TEXTS else None
    for file in files:
        with reading(file), opened_parquet(file, read_dictionary=shared) as opened:
            for batch in opened.iter_batches(batch_size=size, columns=[name]):
                if batch.num_columns != 1:
                    raise UnderstudyError(f"{file}: several columns answer to {name!r}; rename them")
                values = batch.column(0)
                # Arrow believes the file about places in memory; a damaged one must not make it look elsewhere.
                values.validate(full=True)
                yield values


def _declared_size(files: list[File], name: str, kind: Any, rows: int) -> int:
    """Bytes of a column of numbers or lists in memory; of text, the pointers to it (its batches tell the rest).

    The file's own record of sizes per column is left alone: a damaged one ends the process inside Arrow.
    """
    width, inner = 1, kind
    while pa.types.is_fixed_size_list(inner):
        width, inner = width * inner.list_size, inner.value_type
    if isinstance(inner, LISTS):
        first = next(_batches(files, name, kind, 1), None)
        return 0 if first is None else rows * int(first.nbytes)
    plain = pa.types.is_integer(inner) or pa.types.is_floating(inner) or pa.types.is_boolean(inner)
    return rows * width * (max(1, int(inner.bit_width) // 8) if plain else 8)


def _mapped_beyond() -> float:
    free = available_memory()
    return MAPPED_BEYOND if free is None else min(MAPPED_BEYOND, MAPPED_SHARE * free)


def _check_same_columns(first: dict[str, Any], other: dict[str, Any], first_file: File, file: File) -> None:
    for name, kind in first.items():
        if name not in other:
            raise UnderstudyError(f"{file} has no column {name!r}, {first_file.name} has; shards hold the same columns")
        if other[name] != kind:
            raise UnderstudyError(
                f"{file}: column {name!r} holds {other[name]}, in {first_file.name} {kind}; shards hold the same types"
            )
    extra = [name for name in other if name not in first]
    if extra:
        raise UnderstudyError(f"{file} has a column {extra[0]!r}, {first_file.name} has not; shards hold the same")
