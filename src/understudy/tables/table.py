"""Files as tables: named columns, one row per example, whatever kind of file they came from.

    table = read_table("pool.parquet")                            # .csv, .jsonl, .npz, .npy, a folder …
    table.columns["teacher_probs"]                                # a NumPy array whose first axis is the rows
    read_table("theirs.csv", columns={"label": "gold_standard"})  # columns by the names they have there
    read_table(pandas_frame, name="pool")                         # or polars, Arrow, datasets, a mapping of arrays

A kind of file is one module in ``tables/readers``; what the columns mean is decided in ``tables/read.py``. A column is
read when it is first asked for. Nothing is unpickled.

Rows of one file are found in another by their ids, never by their position. Ids are whole numbers or text, unique
within a file; they are checked when they are first asked for, and then trusted.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from understudy.data.checks import describe
from understudy.errors import UnderstudyError
from understudy.labels.base import Column
from understudy.labels.forms import column_of
from understudy.store.arrow import Array
from understudy.store.frames import as_frame
from understudy.tables.readers.csv import AS_WRITTEN, csv_source
from understudy.tables.readers.frames import frame_source, mapping_source
from understudy.tables.readers.image_folder import image_folder_source
from understudy.tables.readers.jsonl import jsonl_source
from understudy.tables.readers.npz import npy_folder_source, npy_source, npz_source
from understudy.tables.readers.parquet import parquet_source
from understudy.tables.readers.source import DAMAGE, Source, damaged

READERS: dict[str, Callable[[Path], Source]] = {
    ".parquet": parquet_source,
    ".csv": csv_source,
    ".jsonl": jsonl_source,
    ".npz": npz_source,
    ".npy": npy_source,
}


class Table:
    def __init__(self, path: Path, columns: Mapping[str, Array], theirs: Mapping[str, str] | None = None) -> None:
        self.path, self.columns = path, columns
        """The file (of a table in memory, what messages call it), and its columns in their order: at least one, all of
        the same length."""
        self.theirs = theirs or {}
        """What a column is called in the file, where that differs."""
        self.names = tuple(columns)
        self.folder = path if path.is_dir() else path.parent
        """What paths in this file are relative to."""
        self.declared: dict[str, tuple[str, ...]] = {}
        """The classes of a column in their order, where the table itself says so (``datasets.ClassLabel``)."""

    def __len__(self) -> int:
        return self.columns.rows if isinstance(self.columns, LazyColumns) else len(next(iter(self.columns.values())))

    @cached_property
    def teacher(self) -> dict[str, Column]:
        """Columns that hold what a teacher said, and what of it."""
        named = [name for name in self.names if name.startswith("teacher_")]
        return {name: column for name in named if (column := column_of(name)) is not None}

    def where(self, column: str) -> str:
        """How messages name a column of this file."""
        return f"{self.path}: column {self.theirs.get(column, column)!r}"

    def numbers(self, name: str) -> Array:
        column = self.columns[name]
        if column.dtype.kind not in "biuf":
            raise UnderstudyError(
                f"{self.where(name)} holds {describe(column)}; it must hold numbers (classes count from 0)"
            )
        return column

    @cached_property
    def ids(self) -> Array | None:
        """The names of the rows, whole numbers or text, each of them once; None where the file has none."""
        return None if self._ids is None else self.columns["id"]

    @cached_property
    def _ids(self) -> Any:
        """The ids as Arrow has them; here they are checked, once for each file."""
        if "id" not in self.names:
            return None
        ids, where = self.columns["id"], self.where("id")
        if ids.ndim != 1 or ids.dtype.kind not in "iuUO":
            raise UnderstudyError(f"{where} holds {describe(ids)}; ids are whole numbers or text, one per row")
        is_text = ids.dtype.kind in "UO"
        try:
            values = text_array(ids, where) if is_text else pa.array(ids, pa.int64())
        except (pa.ArrowException, OverflowError) as error:
            raise UnderstudyError(f"{where} holds numbers beyond 64 bits; use smaller ones, or text") from error
        empty = pc.index(values, "").as_py() if is_text else -1
        if empty >= 0:
            raise UnderstudyError(f"{where} row {empty} is empty; give the row an id, or leave the column out")
        if len(pc.unique(values)) < len(values):
            known: set[Any] = set()
            for row, value in enumerate(ids.tolist()):
                if value in known:
                    raise UnderstudyError(f"{where} row {row} repeats {value!r}; ids must be unique")
                known.add(value)
        return values

    def rows_in(self, other: "Table") -> Array:
        """For each row, which row of the other has its id; −1 where none has. Text is never a number."""
        if self._ids is None or other._ids is None or self._ids.type != other._ids.type:
            return np.full(len(self), -1)
        index = pc.index_in(self._ids, value_set=other._ids)
        # A copy: Arrow's own memory is read-only, which torch warns about.
        return np.array(pc.fill_null(index.cast(pa.int64()), -1).to_numpy(zero_copy_only=False))

    def rows_without(self, others: Iterable["Table"]) -> Array:
        """The rows whose id none of the others has."""
        stays = np.ones(len(self), dtype=bool)
        for other in others:
            index = other.rows_in(self)
            stays[index[index >= 0]] = False
        return np.flatnonzero(stays)


def text_array(values: Array, where: str) -> Any:
    """A column of texts as Arrow has it."""
    try:
        return pa.array(values, pa.large_string())
    except UnicodeEncodeError as error:
        raise UnderstudyError(f"{where} holds half a character (a lone surrogate); mend the text") from error
    except pa.ArrowException as error:
        raise UnderstudyError(f"{where} holds other values than texts; use numbers or text alone") from error


class LazyColumns(Mapping[str, Array]):
    """Columns that are read when first asked for, and then held."""

    def __init__(self, path: Path, source: Source, theirs: Mapping[str, str]) -> None:
        self.rows, self._path, self._source, self._theirs = source.rows, path, source, theirs
        self._read: dict[str, Array] = {}

    def __getitem__(self, name: str) -> Array:
        if name not in self._read:
            try:
                self._read[name] = self._source.read(self._theirs[name], name)
            except DAMAGE as error:
                raise damaged(self._path, error) from error
        return self._read[name]

    def with_gaps(self, name: str) -> Array:
        """A column of classes that may have empty cells: "" or −1 there, as in what a teacher said."""
        return self._source.read(self._theirs[name], "teacher_label")

    def __iter__(self) -> Iterator[str]:
        return iter(self._theirs)

    def __len__(self) -> int:
        return len(self._theirs)

    def __contains__(self, name: object) -> bool:
        return name in self._theirs


def read_table(given: Any, *, columns: Mapping[str, str] | None = None, name: str = "the table") -> Table:
    """Any file of a known kind, a folder, or a table in memory, which messages call by ``name``.

    ``columns``: our names to theirs; what the file lacks is passed over.
    """
    columns = columns or {}
    if isinstance(given, str | Path):
        path = Path(given)
        try:
            source = _source(path, columns)
        except DAMAGE as error:
            raise damaged(path, error) from error
    else:
        path, source = _in_memory(given, name)
    if not source.names:
        raise UnderstudyError(f"{path} holds no columns; write at least the features and the labels")
    if not source.rows:
        raise UnderstudyError(f"{path} holds no rows; check how it was written")
    twice, count = Counter(source.names).most_common(1)[0]
    if count > 1:
        raise UnderstudyError(f"{path}: two columns are named {twice!r}; rename one")
    if len(set(columns.values())) < len(columns):
        twice, _ = Counter(columns.values()).most_common(1)[0]
        raise UnderstudyError(f"column {twice!r} is given two names; a column serves one purpose")
    renamed = {theirs: ours for ours, theirs in columns.items() if theirs in source.names}
    # A column that another one takes the name of is left out.
    names = {renamed.get(each, each): each for each in source.names if each in renamed or each not in renamed.values()}
    changed = {ours: theirs for ours, theirs in names.items() if ours != theirs}
    table = Table(path, LazyColumns(path, source, names), changed)
    table.declared = {ours: source.declared[theirs] for ours, theirs in names.items() if theirs in source.declared}
    return table


def _in_memory(given: Any, name: str) -> tuple[Path, Source]:
    frame = as_frame(given)
    if frame is not None:
        path = Path(f"{name} ({frame.kind})")
        return path, frame_source(frame, str(path))
    if isinstance(given, Mapping):
        return Path(name), mapping_source(given, name)
    raise UnderstudyError(
        f"{name} is a {type(given).__name__}; pass a file's name, a pandas, polars or Arrow table, a datasets.Dataset "
        "or a mapping of columns"
    )


def _source(path: Path, columns: Mapping[str, str]) -> Source:
    if path.is_dir():
        return _folder_source(path)
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise UnderstudyError(
            f"{path}: files ending in {path.suffix or 'nothing'!r} are not read; use one of {', '.join(READERS)}, "
            "or a folder of images"
        )
    if not path.is_file():
        raise UnderstudyError(f"{path} is not there; check the path" if not path.exists() else f"{path} is not a file")
    if reader is csv_source:
        return csv_source(path, [columns.get(name, name) for name in AS_WRITTEN])
    return reader(path)


def _folder_source(path: Path) -> Source:
    """Shards of one table, columns as .npy files, or images; by what lies in the folder."""
    files = sorted(file for file in path.iterdir() if file.is_file() and not file.name.startswith((".", "_")))
    shards = [file for file in files if file.suffix.lower() == ".parquet"]
    arrays = [file for file in files if file.suffix.lower() == ".npy"]
    for alike, what in ((shards, ".parquet shards"), (arrays, ".npy columns")):
        if alike and len(alike) < len(files):
            other = next(file for file in files if file not in alike)
            raise UnderstudyError(f"{path} holds {what} and {other.name}; keep one kind of files in a folder")
    if shards:
        return parquet_source(path, shards)
    if arrays:
        return npy_folder_source(path, arrays)
    source = image_folder_source(path)
    if not source.rows:
        raise UnderstudyError(f"{path} is a folder without .parquet shards, .npy columns or images; check the path")
    return source
