"""A frame's columns as a student's input: numbers side by side, one column of lists, or several by name.

values, names = frame_values(pandas_frame, "gold.x")      # (n, columns) float32, and the columns' names

What else a table may hold (categories, texts beside numbers, images) is made into features by ``us.read_examples``.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from understudy.data.checks import is_reserved
from understudy.errors import UnderstudyError
from understudy.store.arrow import Array
from understudy.store.frames import Frame, as_column, as_frame, is_hf_dataset

Values = Array | list[Any] | dict[str, Array]
LISTS = (pa.ListType, pa.LargeListType, pa.FixedSizeListType)
# A dataset that was told to give tensors or arrays is one of items.
TABLES = (None, "arrow", "pandas", "polars")


def frame_values(x: Any, where: str) -> tuple[Values, tuple[str, ...] | None] | None:
    """What a frame or a frame's column holds, and the names of columns that stand side by side; None: it is neither."""
    is_dataset = is_hf_dataset(x)
    if is_dataset and getattr(x, "format", {"type": None})["type"] not in TABLES:
        return None
    if (frame := as_frame(x)) is None:
        column = as_column(x)
        return None if column is None else (_array(column, where), None)
    reserved = [name for name in frame.names if is_reserved(name)]
    if reserved:
        raise UnderstudyError(
            f"{where} has a column {reserved[0]!r}, which is no feature; leave it out, or pass the whole table to "
            "us.read_examples(…)"
        )
    columns = {name: frame.column(name) for name in frame.names}
    if not columns:
        raise UnderstudyError(f"{where} has no columns; pass those that are the features")
    if all(_is_number(column.type) for column in columns.values()):
        return _side_by_side(columns, frame, where), tuple(frame.names)
    if len(columns) == 1:
        (only,) = columns.values()
        return _array(only, f"{where}: column {frame.names[0]!r}"), None
    if all(isinstance(column.type, LISTS) for column in columns.values()):
        return {name: _array(column, f"{where}[{name!r}]") for name, column in columns.items()}, None
    if is_dataset:
        return None
    odd = next(name for name, column in columns.items() if not _is_number(column.type))
    raise UnderstudyError(
        f"{where}: column {odd!r} holds {columns[odd].type}, no number; us.read_examples(…) makes features of such"
    )


def _side_by_side(columns: dict[str, Any], frame: Frame, where: str) -> Array:
    matrix = np.empty((frame.rows, len(columns)), dtype=np.float32)
    for number, (name, column) in enumerate(columns.items()):
        with np.errstate(over="ignore"):
            matrix[:, number] = _array(column, f"{where}: column {name!r}")
    return matrix


def _is_number(kind: Any) -> bool:
    return any(test(kind) for test in (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean)) or bool(
        pa.types.is_decimal(kind)
    )


def _array(column: Any, where: str) -> Any:
    """Numbers and lists of one length as an array; texts as a list."""
    # Who has no frames does not wait for it.
    import pyarrow.compute as pc

    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return column.to_pylist()
    if column.null_count:
        row = int(pc.index(pc.is_null(column), True).as_py())
        raise UnderstudyError(f"{where} row {row} is empty; fill it in or remove the row")
    if isinstance(kind, LISTS):
        values = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        lengths = pc.list_value_length(values).to_numpy(zero_copy_only=False)
        odd = np.flatnonzero(lengths != lengths[:1])
        if len(odd):
            raise UnderstudyError(
                f"{where} row {int(odd[0])} holds {int(lengths[odd[0]])} values, row 0 {int(lengths[0])}; make them of "
                "one length, or pass a Dataset with collate="
            )
        inner = _array(values.flatten(), where)
        return inner.reshape(len(values), -1, *inner.shape[1:])
    if not _is_number(kind):
        raise UnderstudyError(f"{where} holds {kind}; pass numbers, lists of numbers, or texts")
    column = column.cast(pa.float64()) if pa.types.is_decimal(kind) else column
    return np.array(column.to_numpy() if isinstance(column, pa.ChunkedArray) else column.to_numpy(zero_copy_only=False))
