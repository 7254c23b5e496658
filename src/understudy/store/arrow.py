"""Arrays as Arrow and Parquet columns and back: further axes are lists of one length, whatever their number.

write_bytes(path, to_parquet({"id": ids, "teacher_probs": probs}))
columns = from_parquet(path)                           # {"id": (n,), "teacher_probs": (n, C)}
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from understudy.errors import UnderstudyError, first_line

Array = np.ndarray[Any, Any]


def to_arrow(column: Array | Sequence[Any]) -> Any:
    """Structured arrays are structs."""
    if isinstance(column, pa.Array | pa.ChunkedArray):
        return column
    if not isinstance(column, np.ndarray) or (column.ndim == 1 and not column.dtype.names):
        return pa.array(column)
    if column.dtype.names:
        fields = [pa.array(np.ascontiguousarray(column[name])) for name in column.dtype.names]
        return pa.StructArray.from_arrays(fields, list(column.dtype.names))
    return pa.FixedSizeListArray.from_arrays(to_arrow(column.reshape(-1, *column.shape[2:])), column.shape[1])


def text_array(values: Array, where: str) -> Any:
    """A column of texts as an Arrow array."""
    try:
        return pa.array(values, pa.large_string())
    except UnicodeEncodeError as error:
        raise UnderstudyError(f"{where} holds half a character (a lone surrogate); mend the text") from error
    except pa.ArrowException as error:
        raise UnderstudyError(f"{where} holds other values than texts; use numbers or text alone") from error


def from_arrow(values: Any) -> Array:
    """A column as ``to_arrow`` makes it, structs excepted, in an array of its own."""
    values = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    shape = [len(values)]
    while pa.types.is_fixed_size_list(values.type):
        shape.append(values.type.list_size)
        values = values.flatten()
    return np.array(values.to_numpy(zero_copy_only=False)).reshape(shape)


def to_parquet(columns: Mapping[str, Array | Sequence[Any]]) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({name: to_arrow(column) for name, column in columns.items()}), sink)
    return bytes(sink.getvalue())


def from_parquet(
    path: Path, columns: Sequence[str] | None = None, *, content: bytes | None = None, cure: str = "restore it"
) -> dict[str, Array]:
    """The columns of a file, or of its ``content`` where that was read already."""
    try:
        stored = path.read_bytes() if content is None else content
        # Not pq.read_table, which loads Arrow's machinery for folders of files.
        table = pq.ParquetFile(pa.BufferReader(stored)).read(columns=None if columns is None else list(columns))
        return {name: from_arrow(table[name]) for name in (columns or table.column_names)}
    except OSError as error:
        raise UnderstudyError(f"cannot read {path}: {error.strerror or first_line(error)}; {cure}") from error
    except (pa.ArrowException, ValueError, KeyError, AttributeError) as error:
        raise UnderstudyError(f"cannot read {path} as Parquet: {first_line(error)}; {cure}") from error
