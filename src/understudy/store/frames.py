"""Tables in memory: pandas, polars, Arrow, ``datasets``, and what narwhals knows.

    frame = as_frame(pandas.DataFrame({"a": [1, 2]}))         # None: it is no table
    frame.names, frame.rows                                   # ["a"], 2
    frame.column("a")                                         # a pyarrow.ChunkedArray

None of these packages is imported: who holds such a table has loaded them. Whatever speaks Arrow's C interface
(https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html) is read without a copy; other frames
(lazy ones, Modin's, cuDF's …) are read by narwhals, the extra ``frames``. A column is converted when it is read,
so that one which Arrow cannot hold troubles only those who use it. The index of a pandas frame is no column.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from understudy.errors import UnderstudyError, first_line

RESERVED_INDEX = ("id", "label")


@dataclass(frozen=True)
class Frame:
    kind: str
    """How messages call it: "pandas DataFrame"."""
    names: Sequence[str]
    rows: int
    read: Callable[[str], Any]
    """A column as one of Arrow's."""
    classes: Callable[[str], tuple[str, ...] | None] = lambda name: None
    """The classes that a column declares in their order (``datasets.ClassLabel``), whose numbers it then holds."""

    def column(self, name: str) -> Any:
        """A ``ChunkedArray``; numbers of declared classes as their names."""
        try:
            values = self.read(name)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise UnderstudyError(
                f"column {name!r} of the {self.kind} is nothing that Arrow can hold: {first_line(error)}; use one type"
            ) from error
        values = values if isinstance(values, pa.ChunkedArray) else pa.chunked_array([values])
        if (classes := self.classes(name)) is not None and pa.types.is_integer(values.type):
            return _named(values, classes, f"column {name!r} of the {self.kind}")
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
    library = type(value).__module__.partition(".")[0]
    if isinstance(value, pa.ChunkedArray):
        return value
    if hasattr(type(value), "columns"):
        return None
    try:
        if isinstance(value, pa.Array):
            return pa.chunked_array([value])
        if library == "pandas":
            values = pa.array(value, from_pandas=True)
            return values if isinstance(values, pa.ChunkedArray) else pa.chunked_array([values])
        if (type(value).__module__, type(value).__name__) == ("datasets.arrow_dataset", "Column"):
            return pa.chunked_array([pa.array(list(value))])
        if hasattr(type(value), "__arrow_c_stream__"):
            values = pa.chunked_array(value)
            return values.cast(pa.large_string()) if values.type == pa.string_view() else values
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise UnderstudyError(
            f"a {library} {type(value).__name__} is nothing that Arrow can hold: {first_line(error)}; use one type"
        ) from error
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

    def classes(name: str) -> tuple[str, ...] | None:
        names = getattr(value.features[name], "names", None)
        return None if names is None else tuple(names)

    return Frame(kind, list(value.column_names), len(value), lambda name: _only(plain, name), classes)


def _only(dataset: Any, name: str) -> Any:
    return dataset.select_columns([name])[:].column(name)


def _by_narwhals(value: Any, kind: str) -> Any:
    try:
        import narwhals
    except ImportError as error:
        raise UnderstudyError(
            f"a {kind} is read by narwhals, which is not installed; pip install 'understudy[frames]'"
        ) from error
    try:
        frame = narwhals.from_native(value)
        return (frame.collect() if isinstance(frame, narwhals.LazyFrame) else frame).to_arrow()
    except (TypeError, AttributeError) as error:
        raise UnderstudyError(
            f"a {kind} is no table that narwhals knows; pass a pandas, polars or Arrow one"
        ) from error


def _named(values: Any, classes: tuple[str, ...], where: str) -> Any:
    """Numbers as the names they stand for; ``datasets`` has −1 for no label."""
    import pyarrow.compute as pc

    index = pc.if_else(pc.equal(values, -1), pa.scalar(None, values.type), values).combine_chunks()
    index = index.cast(pa.int64())
    largest, smallest = pc.max(index).as_py(), pc.min(index).as_py()
    if largest is not None and (largest >= len(classes) or smallest < 0):
        raise UnderstudyError(f"{where} holds {max(largest, -smallest)}, but names {len(classes)} classes; correct it")
    return pa.chunked_array([pa.DictionaryArray.from_arrays(index, pa.array(classes, pa.large_string()))])
