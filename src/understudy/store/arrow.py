"""Arrays as Arrow and Parquet columns and back, and tables in memory: pandas, polars, Arrow, ``datasets``.

    write_bytes(path, to_parquet({"id": ids, "teacher_probs": probs}))
    columns = from_parquet(path)                              # {"id": (n,), "teacher_probs": (n, C)}
    frame = as_frame(pandas.DataFrame({"a": [1, 2]}))         # None: it is no table
    frame.names, frame.rows                                   # ["a"], 2
    frame.column("a")                                         # a pyarrow.ChunkedArray

Further axes of an array are lists of one length, whatever their number.

No package of frames is imported: who holds such a table has loaded it. Whatever speaks Arrow's C interface
(https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html) is read without a copy; other frames
(lazy ones, Modin's, cuDF's …) are read by narwhals, the extra ``frames``. A column is converted when it is read,
so that one which Arrow cannot hold troubles only those who use it. The index of a pandas frame is no column.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from understudy.errors import UnderstudyError, first_line, optional

Array = np.ndarray[Any, Any]
LISTS = (pa.ListType, pa.LargeListType, pa.FixedSizeListType)
TEXTS = (pa.string(), pa.large_string(), pa.string_view())


def object_column(values: Sequence[Any]) -> Array:
    """An object array: one of fixed width would make every text as long as the longest."""
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


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


def to_frame(columns: Mapping[str, Array | Sequence[Any]]) -> Any:
    """Columns as a pandas frame, or as an Arrow table where pandas is not installed."""
    table = pa.table({name: to_arrow(column) for name, column in columns.items()})
    return table if find_spec("pandas") is None else table.to_pandas()


RESERVED_INDEX = ("id", "label")


@dataclass(frozen=True)
class Frame:
    #: How messages call it: "pandas DataFrame".
    kind: str
    names: Sequence[str]
    rows: int
    #: A column as one of Arrow's.
    read: Callable[[str], Any]
    #: The classes that columns declare in their order (``datasets.ClassLabel``), whose numbers they then hold.
    classes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def column(self, name: str) -> Any:
        """A ``ChunkedArray``; numbers of declared classes as their names."""
        where = f"column {name!r} of the {self.kind}"
        values = _chunked(lambda: self.read(name), where)
        is_declared = name in self.classes and pa.types.is_integer(values.type)
        return _named(values, self.classes[name], where) if is_declared else values


def _chunked(read: Callable[[], Any], where: str) -> Any:
    try:
        values = read()
        values = values if isinstance(values, pa.ChunkedArray) else pa.chunked_array([values])
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise UnderstudyError(f"{where} is nothing that Arrow can hold: {first_line(error)}; use one type") from error
    # Views are known to few of Arrow's functions.
    return values.cast(pa.large_string()) if values.type == pa.string_view() else values


def as_frame(value: Any) -> Frame | None:
    """``value`` as a frame; None where it is none."""
    library = type(value).__module__.partition(".")[0]
    if isinstance(value, pa.Table | pa.RecordBatch):
        return _arrow_frame(value, f"Arrow {type(value).__name__}")
    if is_hf_dataset(value):
        return _datasets_frame(value)
    # Of the type: a lazy frame computes its columns when they are read.
    if not hasattr(type(value), "columns"):
        return None
    kind = f"{library} {type(value).__name__}"
    if library == "pandas":
        return _pandas_frame(value, kind)
    return _arrow_frame(value if hasattr(type(value), "__arrow_c_stream__") else _by_narwhals(value, kind), kind)


def is_hf_dataset(value: Any) -> bool:
    """Whether it is a table of ``datasets``; many a project has a module of that name too."""
    return type(value).__module__.startswith("datasets.") and hasattr(type(value), "with_format")


def as_column(value: Any) -> Any:
    """A column of a frame (a pandas, polars or Arrow one, or one of ``datasets``) as Arrow's; None where it is none."""
    module, name = type(value).__module__, type(value).__name__
    library = module.partition(".")[0]
    if isinstance(value, pa.Array | pa.ChunkedArray):
        return value if isinstance(value, pa.ChunkedArray) else pa.chunked_array([value])
    if hasattr(type(value), "columns"):
        return None
    if library == "pandas":
        return _chunked(lambda: pa.array(value, from_pandas=True), f"a {library} {name}")
    if (module, name) == ("datasets.arrow_dataset", "Column"):
        return _chunked(lambda: pa.array(list(value)), f"a {library} {name}")
    if hasattr(type(value), "__arrow_c_stream__"):
        return _chunked(lambda: pa.chunked_array(value), f"a {library} {name}")
    return None


def _arrow_frame(value: Any, kind: str) -> Frame:
    table = pa.table(value)
    return Frame(kind, table.column_names, table.num_rows, table.column)


def _pandas_frame(value: Any, kind: str) -> Frame:
    if value.columns.nlevels > 1:
        raise UnderstudyError(f"the {kind} has column names of {value.columns.nlevels} levels; give it one name each")
    for name in value.index.names:
        if name in RESERVED_INDEX and name not in value.columns:
            raise UnderstudyError(f"{name!r} is the index of the {kind}, not a column; pass frame.reset_index()")
    names = [str(name) for name in value.columns]
    return Frame(kind, names, len(value), lambda name: pa.array(value.iloc[:, names.index(name)], from_pandas=True))


def _datasets_frame(value: Any) -> Frame:
    kind = f"datasets {type(value).__name__}"
    if isinstance(value, dict):
        raise UnderstudyError(f"a {kind} holds several tables ({', '.join(map(str, value))}); pass one of them")
    if not hasattr(type(value), "__len__"):
        raise UnderstudyError(f"a {kind} has no end to count its rows to; take some: datasets.Dataset.from_list(…)")
    plain = value.with_format("arrow")
    declared = {name: getattr(each, "names", None) for name, each in value.features.items()}
    classes = {name: tuple(names) for name, names in declared.items() if names is not None}

    def read(name: str) -> Any:
        return plain.select_columns([name])[:].column(name)

    return Frame(kind, list(value.column_names), len(value), read, classes)


def _by_narwhals(value: Any, kind: str) -> Any:
    narwhals = optional("narwhals", f"a {kind} is read by narwhals, which is not installed", "frames")
    try:
        frame = narwhals.from_native(value)
        return (frame.collect() if isinstance(frame, narwhals.LazyFrame) else frame).to_arrow()
    except (TypeError, AttributeError) as error:
        raise UnderstudyError(f"a {kind} is no table; pass a pandas, polars or Arrow one") from error


def _named(values: Any, classes: tuple[str, ...], where: str) -> Any:
    """Numbers as the names they stand for; ``datasets`` has −1 for no label."""
    import pyarrow.compute as pc

    index = pc.if_else(pc.equal(values, -1), pa.scalar(None, values.type), values).combine_chunks()
    index = index.cast(pa.int64())
    largest, smallest = pc.max(index).as_py(), pc.min(index).as_py()
    if largest is not None and (largest >= len(classes) or smallest < 0):
        raise UnderstudyError(f"{where} holds {max(largest, -smallest)}, but names {len(classes)} classes; correct it")
    return pa.chunked_array([pa.DictionaryArray.from_arrays(index, pa.array(classes, pa.large_string()))])
