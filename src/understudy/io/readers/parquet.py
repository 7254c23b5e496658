"""Parquet: one file, or a folder of shards in the order of their names. Columns are streamed, one at a time.

What the file declares (rows, widths, unpacked sizes) is checked against the memory before any is taken. A column of
lists beyond ``MAPPED_BEYOND`` (or a quarter of the free memory) is memory-mapped instead:

    x = map_column([Path("pool-0.parquet"), Path("pool-1.parquet")], "x")      # np.memmap, (rows, width)
    us.Pool(x, teacher)

The column is streamed once, a few megabytes at a time, into an ``.npy`` file of the cache folder, which is
``$UNDERSTUDY_CACHE``, else ``~/.cache/understudy``. From then on the same files, sizes and times of change find it
again. The type is kept (float16 stays float16). NaN, infinity, empty cells and lists of uneven length are refused on
the way, with their row. The folder's ``.npy`` files may be deleted at any time.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from understudy.data import arrow_columns
from understudy.data.arrow_columns import join_batches
from understudy.data.checks import SMALL, available_memory, check_finite, check_memory, check_space, describe, to_tensor
from understudy.errors import UnderstudyError
from understudy.io.readers import File, TableSource, file_state, opened_parquet, reading
from understudy.store.arrow import LISTS, TEXTS, Array
from understudy.store.files import appearing_whole, cache_folder, digest, is_remote, remove_unfinished
from understudy.store.remote import RemoteFile, local_file, remote_files

MAPPED_BEYOND, MAPPED_SHARE = 1 << 30, 0.25
# One batch of a column stays near this, so that the copy under way is small beside the column.
BATCH_BYTES = 8 << 20
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


def parquet_at(path: str | Path) -> list[RemoteFile]:
    """The .parquet file or shards at an address; none where something else is there, or where it is no address."""
    files = remote_files(path) if is_remote(path) and local_file(path) is None else None
    return files if files and all(file.suffix.lower() == ".parquet" for file in files) else []


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
        for name in {**kinds, **own}:
            if (here := own.get(name, "missing")) != (there := kinds.get(name, "missing")):
                raise UnderstudyError(f"{file}: column {name!r} is {here}, in {files[0].name} {there}; use one type")
        counts.append(count)
    return counts, kinds


def _read(files: list[File], name: str, kind: Any, rows: int, *, role: str, where: str) -> Array:
    size = _declared_size(files, name, kind, rows)
    as_stored = role not in {*arrow_columns.PADDING, *arrow_columns.EMPTY_NUMBER}
    if as_stored and isinstance(kind, LISTS) and size > _mapped_beyond():
        return map_column(files, name)
    if size > SMALL:
        check_memory(size, where)
    at_once = _rows_at_once(size, rows)
    batches: Iterable[Any] = _batches(files, name, kind, at_once)
    if pa.types.is_map(kind):
        # Every batch may name other keys: all of them together.
        batches = [pa.concat_arrays(list(batches))] if rows else []
    elif rows <= at_once:
        batches = list(batches)
    return join_batches(batches, rows, role=role, where=where)


def _batches(files: Sequence[File], name: str, kind: Any, size: int) -> Iterator[Any]:
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


def _declared_size(files: Sequence[File], name: str, kind: Any, rows: int) -> int:
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


def _rows_at_once(size: int, rows: int) -> int:
    return max(1, min(BATCH_ROWS, BATCH_BYTES * rows // max(size, 1)))


def _mapped_beyond() -> float:
    free = available_memory()
    return MAPPED_BEYOND if free is None else min(MAPPED_BEYOND, MAPPED_SHARE * free)


_FORMAT = 1


def map_column(files: Sequence[File], column: str, *, cache: Path | None = None) -> np.memmap[Any, Any]:
    """One column over all files, one after the other: ``(rows,)`` numbers or ``(rows, …)`` from lists of one length."""
    if not files:
        raise UnderstudyError(f"there are no files to read column {column!r} from; pass at least one")
    before = _fingerprint(files, column)
    target = cache_folder(cache) / f"column-{before}.npy"
    if (mapped := _open(target)) is not None:
        return mapped
    _write(target, files, column)
    if _fingerprint(files, column) != before:
        target.unlink(missing_ok=True)
        raise UnderstudyError(f"the files of column {column!r} ({files[0]} …) changed while they were read; try again")
    if (mapped := _open(target)) is None:
        raise UnderstudyError(f"cannot read back {target}, just written; check the disk")
    return mapped


def _fingerprint(files: Sequence[File], column: str) -> str:
    """Names the content without reading it: paths, sizes, times of change, column."""
    facts: list[Any] = [_FORMAT, column]
    for file in files:
        with reading(file):
            facts.append([str(file.absolute() if isinstance(file, Path) else file), *file_state(file, again=True)])
    return digest(json.dumps(facts).encode())[:32]


def _open(target: Path) -> np.memmap[Any, Any] | None:
    """The array, or None where there is none or it was cut short (an ``.npy`` that misses bytes cannot be mapped)."""
    try:
        array = np.load(target, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    return array if isinstance(array, np.memmap) else None


def _write(target: Path, files: Sequence[File], column: str) -> None:
    counts, kinds = read_footers(files)
    if column not in kinds or not sum(counts):
        held = "no rows" if column in kinds else f"no column {column!r}; there are {', '.join(kinds)}"
        raise UnderstudyError(f"{files[0]} holds {held}; check how it was written")
    remove_unfinished(target.parent.glob(".column-*.npy.*"))
    rows = sum(counts)
    pieces = _pieces(files, column, kinds[column], rows)
    first = next(pieces)
    check_space(target.parent, rows * (first.nbytes // len(first)), f"column {column!r}")
    cure = "free some space or set UNDERSTUDY_CACHE to another folder"
    with appearing_whole(target, keep_suffix=False, cure=cure) as temporary, temporary.open("wb") as sink:
        header = {"descr": np.lib.format.dtype_to_descr(first.dtype), "fortran_order": False}
        np.lib.format.write_array_header_1_0(sink, header | {"shape": (rows, *first.shape[1:])})
        for piece in chain([first], pieces):
            sink.write(np.ascontiguousarray(piece).data)


def _pieces(files: Sequence[File], column: str, kind: Any, rows: int) -> Iterator[Array]:
    """The column as arrays of some megabytes: one type and one shape throughout, and nothing but finite numbers."""
    at_once = _rows_at_once(_declared_size(files, column, kind, rows), rows)
    first: Array | None = None
    for file in files:
        where, start = f"{file}: column {column!r}", 0
        for values in _batches([file], column, kind, at_once):
            piece = _numbers(values, where, start)
            first = piece if first is None else first
            arrow_columns.check_alike(first, piece, start, where)
            yield piece
            start += len(piece)


def _numbers(values: Any, where: str, start: int) -> Array:
    """Finite numbers, lists of one length as further axes."""
    if values.null_count:
        arrow_columns.refuse_empty(values, where, start)
    array = arrow_columns.to_array(values, role="x", where=where, start=start)
    if 0 in array.shape[1:]:
        raise UnderstudyError(f"{where} row {start} is an empty list; a row holds at least one number")
    if array.dtype.kind not in "biuf":
        raise UnderstudyError(f"{where} holds {describe(array)}; features are numbers, or lists of them")
    if array.dtype.kind == "f":
        check_finite(to_tensor(array, where), where, start)
    return array
