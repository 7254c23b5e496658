"""Tables in memory as sources: frames of any kind (``store/arrow.py``), and mappings of arrays by column name.

read_examples(gold=pandas_frame, pool=polars_frame)
read_examples(gold={"x": x, "label": ["neg", "pos"]}, pool={"x": x_pool, "teacher_probs": probs})
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from understudy.data.checks import to_tensor
from understudy.errors import UnderstudyError, first_line
from understudy.io.readers.arrow_columns import join_batches
from understudy.io.readers.npz import one_length, plain_column
from understudy.io.readers.source import TableSource
from understudy.store.arrow import Array, Frame, as_column


def frame_source(frame: Frame, where: str) -> TableSource:
    def read(name: str, role: str) -> Array:
        return _from_arrow(frame.column(name), role, f"{where}: column {name!r}")

    classes = {name: frame.classes(name) for name in frame.names}
    return TableSource(
        frame.names, frame.rows, read, {name: each for name, each in classes.items() if each is not None}
    )


def mapping_source(columns: Mapping[Any, Any], where: str) -> TableSource:
    """Arrays, tensors, lists and frames' columns by name, one entry per row each."""
    for name, values in columns.items():
        if not isinstance(name, str):
            raise UnderstudyError(f"{where} has a column named {name!r}; names are text")
        try:
            if isinstance(values, str) or len(values) < 0:
                raise TypeError
        except TypeError as error:
            raise UnderstudyError(
                f"{where}: column {name!r} is a {type(values).__name__}; pass an array, a tensor, a list or a frame's "
                "column, one entry per row (sparse features: us.Gold and us.Pool)"
            ) from error
    if len({len(values) for values in columns.values()}) > 1:
        one_length({name: (len(values),) for name, values in columns.items()}, where)

    def read(name: str, role: str) -> Array:
        return _array(columns[name], role, f"{where}: column {name!r}")

    return TableSource(list(columns), len(next(iter(columns.values()), ())), read)


def _array(values: Any, role: str, where: str) -> Array:
    if isinstance(values, Tensor):
        dense = to_tensor(values, where).cpu()
        return (dense.float() if dense.dtype == torch.bfloat16 else dense).numpy()
    if isinstance(values, np.ndarray) and values.dtype != object:
        return plain_column(values, where)
    try:
        column = as_column(values)
        column = pa.chunked_array([pa.array(list(values))]) if column is None else column
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise UnderstudyError(
            f"{where} holds a {type(values).__name__}: {first_line(error)}; pass one kind of values"
        ) from error
    return _from_arrow(column, role, where)


def _from_arrow(values: Any, role: str, where: str) -> Array:
    chunks = [chunk for chunk in values.chunks if len(chunk)]
    # Every chunk may name other keys: all of them together.
    if len(chunks) > 1 and pa.types.is_map(values.type):
        chunks = [pa.concat_arrays(chunks)]
    return join_batches(chunks, len(values), role=role, where=where)
