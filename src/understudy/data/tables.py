"""Files as tables: named columns, one row per example, whatever kind of file they came from.

    table = read_table("pool.parquet")        # or .npz
    table.columns["teacher_probs"]            # a NumPy array whose first axis is the rows

A kind of file is one function, path -> columns, entered in ``READERS`` under its suffix; what the columns mean is
decided in ``data/read.py``. Nothing is unpickled.
"""

import io
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from understudy.errors import UnderstudyError
from understudy.files import write_bytes

Array = np.ndarray[Any, Any]

# What an empty cell means, where it means something: a label the teacher did not give.
EMPTY_CELL: dict[str, float] = {"teacher_label": -1, "teacher_confidence": float("nan")}


@dataclass(frozen=True)
class Table:
    path: Path
    columns: dict[str, Array]
    """In the file's order; at least one, all of the same length."""

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __contains__(self, name: str) -> bool:
        return name in self.columns

    def where(self, column: str) -> str:
        """How messages name a column of this file."""
        return f"{self.path}: column {column!r}"


def read_table(path: str | Path) -> Table:
    """Any file of a known kind."""
    path = Path(path)
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise UnderstudyError(
            f"{path}: files ending in {path.suffix or 'nothing'!r} are not read; use one of {', '.join(READERS)}"
        )
    if not path.is_file():
        raise UnderstudyError(f"{path} is not there; check the path" if not path.exists() else f"{path} is not a file")
    columns = reader(path)
    if not columns:
        raise UnderstudyError(f"{path} holds no columns; write at least the features and the labels")
    for name, column in columns.items():
        if column.ndim == 0:
            raise UnderstudyError(f"{path}: column {name!r} is a single value; columns hold one entry per row")
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        said = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise UnderstudyError(f"{path}: columns differ in length ({said}); every column holds one entry per row")
    if not next(iter(lengths.values())):
        raise UnderstudyError(f"{path} holds no rows; check how it was written")
    return Table(path, columns)


def read_npz(path: Path) -> dict[str, Array]:
    """Arrays by name, as ``np.savez(path, id=…, x=…, label=…)`` writes them."""
    try:
        file = np.load(path, allow_pickle=False)
        if not isinstance(file, np.lib.npyio.NpzFile):
            raise UnderstudyError(f"{path} is a single array, not an .npz archive; write it with np.savez")
        with file:
            return {name: _npz_member(file, name, path) for name in file.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise UnderstudyError(
            f"cannot read {path} as .npz: {_first_line(error)}; write it again with np.savez"
        ) from error


def _npz_member(file: Any, name: str, path: Path) -> Array:
    try:
        return np.asarray(file[name])
    except ValueError as error:
        raise UnderstudyError(
            f"{path}: column {name!r} holds Python objects of mixed types, which are never unpickled; "
            "store numbers or text only, e.g. np.asarray(values, dtype=str)"
        ) from error


def read_parquet(path: Path) -> dict[str, Array]:
    """Columns of numbers, text, or lists of equal length (which become further axes)."""
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        raise UnderstudyError(
            f"cannot read {path} as Parquet: {_first_line(error)}; restore it or write it again"
        ) from error
    twice = [name for name in table.column_names if table.column_names.count(name) > 1]
    if twice:
        raise UnderstudyError(f"{path}: two columns are named {twice[0]!r}; rename one")
    return {name: _parquet_column(table[name].combine_chunks(), name, path) for name in table.column_names}


def _parquet_column(values: Any, name: str, path: Path) -> Array:
    if isinstance(values, pa.ChunkedArray):
        # An empty column has no chunks to combine.
        values = pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], type=values.type)
    if values.null_count:
        whole = pa.types.is_integer(values.type)
        if name not in EMPTY_CELL or not (whole or pa.types.is_floating(values.type)):
            row = pc.index(pc.is_null(values), True).as_py()
            raise UnderstudyError(f"{path}: column {name!r} row {row} is empty; fill it in or remove the row")
        values = pc.fill_null(values.cast(pa.int64() if whole else pa.float64()), EMPTY_CELL[name])
    kind = values.type
    if pa.types.is_dictionary(kind):
        return _parquet_column(values.dictionary_decode(), name, path)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _stacked_lists(values, name, path)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return np.asarray(values.to_pylist(), dtype=np.str_)
    array: Array = values.to_numpy(zero_copy_only=False)
    return array


def _stacked_lists(values: Any, name: str, path: Path) -> Array:
    """Lists of one length as ``(rows, length, …)``."""
    if not len(values):
        return np.empty((0, 0))
    lengths = pc.list_value_length(values).to_numpy(zero_copy_only=False)
    odd = np.flatnonzero(lengths != lengths[0])
    if len(odd):
        raise UnderstudyError(
            f"{path}: column {name!r} row {odd[0]} holds {lengths[odd[0]]} values, row 0 holds {lengths[0]}; "
            "lists must all have one length"
        )
    inner = values.flatten()
    if inner.null_count:
        row = int(np.flatnonzero(pc.is_null(inner).to_numpy(zero_copy_only=False))[0]) // int(lengths[0])
        raise UnderstudyError(f"{path}: column {name!r} row {row} has an empty entry; fill it in or remove the row")
    flat = _parquet_column(inner, name, path)
    return flat.reshape(len(values), int(lengths[0]), *flat.shape[1:])


READERS: dict[str, Callable[[Path], dict[str, Array]]] = {".parquet": read_parquet, ".npz": read_npz}


def write_table(path: str | Path, columns: dict[str, Array]) -> None:
    """Columns as a new ``.parquet`` or ``.npz`` file; an existing file is never overwritten."""
    path = Path(path)
    check_new_table(path)
    if path.suffix.lower() == ".npz":
        buffer = io.BytesIO()
        # NumPy's annotation takes every keyword for its own allow_pickle.
        save: Any = np.savez
        save(buffer, **columns)
        write_bytes(path, buffer.getvalue())
        return
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({name: _to_arrow(column) for name, column in columns.items()}), sink)
    write_bytes(path, bytes(sink.getvalue()))


def check_new_table(path: Path) -> None:
    """Whether ``write_table`` could write here; asked before long work as well."""
    if path.suffix.lower() not in (".parquet", ".npz"):
        raise UnderstudyError(f"{path}: tables are written as .parquet or .npz; end the name in one of them")
    if path.exists():
        raise UnderstudyError(f"{path} already exists and is not overwritten; choose another name or remove it")


def _to_arrow(column: Array) -> Any:
    if column.ndim == 1:
        return pa.array(column)
    inner = _to_arrow(column.reshape(-1, *column.shape[2:]))
    return pa.FixedSizeListArray.from_arrays(inner, column.shape[1])


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
