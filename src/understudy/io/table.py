"""Files as tables: named columns, one row per example, whatever kind of file they came from.

    table = read_table("pool.parquet")                            # .csv, .jsonl, .npz, .npy, a folder …
    table.columns["teacher_probs"]                                # a NumPy array whose first axis is the rows
    read_table("theirs.csv", columns={"label": "gold_standard"})  # columns by the names they have there
    read_table(pandas_frame, name="pool")                         # or polars, Arrow, datasets, a mapping of arrays
    read_table([{"age": 31}, {"age": 47}])                        # rows, as a list of mappings or of texts

A kind of file is one module in ``io/readers``; what the columns mean is decided in ``io/read.py``. A column is
read when it is first used. Nothing is unpickled.

Rows of one file are found in another by their ids, never by their position. Ids are whole numbers or text, unique
within a file; they are checked when they are first used, and then trusted.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from understudy.data.checks import describe, looks_like
from understudy.errors import LINES, UnderstudyError, warn
from understudy.io.columns import as_kind, as_text, id_array, misspelt, places
from understudy.io.readers import DAMAGE, TableSource, damaged
from understudy.io.readers.arrays import (
    columns_of_rows,
    frame_source,
    mapping_source,
    npy_folder_source,
    npy_source,
    npz_source,
)
from understudy.io.readers.csv_jsonl import csv_source, jsonl_source
from understudy.io.readers.excel import excel_source
from understudy.io.readers.folders import datasets_source, image_folder_source, is_datasets_folder
from understudy.io.readers.parquet import parquet_at, parquet_source
from understudy.labels.base import Column
from understudy.labels.forms import column_of
from understudy.store.arrow import Array, as_frame, object_column
from understudy.store.files import local_path, split_part

READERS: dict[str, Callable[..., TableSource]] = {
    ".parquet": parquet_source, ".csv": csv_source, ".tsv": csv_source, ".txt": csv_source, ".jsonl": jsonl_source,
    ".xlsx": excel_source, ".xls": excel_source, ".ods": excel_source, ".npz": npz_source, ".npy": npy_source,
}  # fmt: skip
#: May be packed: ``.csv.gz``.
PACKED = (".csv", ".tsv", ".jsonl")

#: A column as an array, or as Arrow has it (``pa.ChunkedArray``).
Stored = Any


class LazyColumns(Mapping[str, Array]):
    """Columns that are read when first used, and then kept. ``theirs``: what they are called in the file."""

    def __init__(self, path: Path, source: TableSource, theirs: Mapping[str, str]) -> None:
        self.path, self.source, self.theirs = path, source, dict(theirs)
        self._read: dict[str, Array] = {}
        self._kinds: dict[str, str] = {}

    def where(self, name: str) -> str:
        return f"{self.path}: column {self.theirs.get(name, name)!r}"

    def add(self, name: str, column: Array) -> None:
        """A column that is not in the source."""
        self.theirs[name], self._read[name] = name, column

    def keep(self, name: str, column: Array) -> Array:
        """What a column was read as, for the next time."""
        self._read[name] = column
        return column

    def expect(self, kinds: Mapping[str, str]) -> None:
        for name, kind in kinds.items():
            if self._kinds.get(name, kind) != kind or name not in self.theirs:
                continue  # what the user declares comes first, and holds
            self._kinds[name] = kind
            if name in self._read:
                self._read[name] = self._as_kind(name, self._read[name])

    def from_source(self, read: Callable[[str], Any] | None, name: str) -> Any:
        """A column by one of the ways to read it that a source offers; as it is where that is None."""
        if read is None or self.theirs[name] not in self.source.names:
            return self[name]
        try:
            return read(self.theirs[name])
        except DAMAGE as error:
            raise damaged(self.path, error) from error

    def __getitem__(self, name: str) -> Array:
        if name not in self._read:
            column = self.from_source(lambda theirs: self.source.read(theirs, name), name)
            self._read[name] = self._as_kind(name, column) if name in self._kinds else column
        return self._read[name]

    def with_gaps(self, name: str) -> Array:
        """A column of labels, of which some may be empty as a teacher's may."""
        if name not in self._read:
            self._read[name] = self.from_source(lambda theirs: self.source.read(theirs, "teacher_label"), name)
        return self._read[name]

    def _as_kind(self, name: str, column: Array) -> Array:
        again = self.source.letters
        letters = None if again is None else partial(again, self.theirs[name])
        return as_kind(column, self._kinds[name], letters, self.where(name))

    def __iter__(self) -> Iterator[str]:
        return iter(self.theirs)

    def __len__(self) -> int:
        return len(self.theirs)

    def __contains__(self, name: object) -> bool:
        return name in self.theirs


class Table:
    def __init__(self, path: Path, columns: Mapping[str, Array]) -> None:
        if not isinstance(columns, LazyColumns):
            arrays, rows = columns, len(next(iter(columns.values())))
            columns = LazyColumns(path, TableSource((), rows, lambda name, role: arrays[name]), {})
            for name, array in arrays.items():
                columns.add(name, array)
        #: The file (of a table in memory, what messages call it), and its columns in their order: at least one, all of
        #: the same length.
        self.path, self.columns = path, columns
        #: What each column is called in the file, by our name for it.
        self.theirs = columns.theirs
        self.names = self.theirs.keys()
        #: What paths in this file are relative to and stay in; None: the program's own, of a table in memory.
        self.folder: Path | None = path if path.is_dir() else path.parent
        declared = columns.source.declared
        #: The classes of a column in their order, where the table itself says so (``datasets.ClassLabel``).
        self.declared = {ours: declared[theirs] for ours, theirs in self.theirs.items() if theirs in declared}
        #: Whether the file holds letters alone, so that what is a number is a guess (CSV).
        self.by_letter = columns.source.letters is not None
        #: Whether the ids are the numbers of the rows, of which the file knows nothing.
        self.numbered = False
        #: The line where a row begins, as an editor counts, in files that have lines.
        self.line = columns.source.line

    def with_columns(self, columns: Mapping[str, Array], rows: Array, which: str) -> "Table":
        """Some rows of columns of the same file; ``which``, for messages."""
        other = Table(Path(f"{self.path} ({which})"), columns)
        if (line := self.line_of(rows)) is not None:
            LINES[str(other.path)] = line
        other.declared, other.by_letter = self.declared, self.by_letter
        other.theirs.update({name: self.theirs.get(name, name) for name in columns})
        return other

    def line_of(self, rows: Array) -> Callable[[int], int] | None:
        """The line of each of some rows, in files that have lines."""
        line = self.line
        return None if line is None else lambda row: line(int(rows[row]))

    @property
    def notes(self) -> str:
        """What was found out about the file, for the user to know."""
        found = self.columns.source.notes
        return f"{self.path}: {'; '.join(found)}" if found else ""

    def __len__(self) -> int:
        return self.columns.source.rows

    @cached_property
    def teacher(self) -> dict[str, Column]:
        """Columns of a teacher's labels, and what each holds."""
        named = [name for name in self.names if name.startswith("teacher_")]
        return {name: column for name in named if (column := column_of(name)) is not None}

    def where(self, column: str) -> str:
        """How messages name a column of this file."""
        return self.columns.where(column)

    def expect(self, kinds: Mapping[str, str]) -> None:
        """What columns hold, by name (``io/columns.py``); where this file does not say, they are read so."""
        self.columns.expect(kinds)

    def warn_of_lookalikes(self, used: Collection[str] = ()) -> None:
        """Warns of columns whose names differ from a reserved one in capitals alone: they are not used."""
        for name in self.names:
            meant = looks_like(name)
            if meant and name not in used:
                cure = "rename it" if meant in self.names else f"take it with --column {meant}={name}, or rename it"
                warn(f"{self.where(name)} is not used: it differs from {meant!r} in capitals alone; {cure}")

    def stored(self, name: str) -> Stored:
        """A column to be written again, as the file has it."""
        return self.columns.from_source(self.columns.source.stored, name)

    def taken(self, name: str, rows: Array) -> Stored:
        """Some rows of a column, to be written again."""
        column = self.stored(name)
        return column[rows] if isinstance(column, np.ndarray) else column.take(pa.array(rows))

    def refuse_labels(self, cure: str = "remove it first") -> None:
        """Refuses a table that has a teacher's labels already."""
        if labelled := [name for name in self.names if name.startswith("teacher_")]:
            raise UnderstudyError(f"{self.where(labelled[0])} holds labels already; {cure}")

    def texts(self, name: str) -> list[str]:
        """A column as it is written, as text; '' is an empty cell."""
        source = self.columns.source
        column = self.columns.from_source(source.letters or source.stored, name)
        cells = column.tolist() if isinstance(column, np.ndarray) else column.to_pylist()
        return ["" if cell is None else str(cell) for cell in cells]

    def numbers(self, name: str) -> Array:
        column = self.columns[name]
        if column.dtype.kind not in "biuf":
            raise UnderstudyError(f"{self.where(name)} holds {describe(column)}; it must hold numbers, like 3 or 0.75")
        return column

    @cached_property
    def ids(self) -> Array | None:
        """The names of the rows, whole numbers or text, each of them once; None where the file has none."""
        return None if self._ids is None else self.columns["id"]

    def known_ids(self, why: str) -> Array:
        """The ids, which the table must have; ``why``, and the cure."""
        if self.ids is None:
            raise UnderstudyError(f"{self.path} has no column 'id'{why}")
        return self.ids

    @cached_property
    def _ids(self) -> Any:
        """The ids as Arrow has them; here they are checked, once for each file."""
        if "id" not in self.names:
            return None
        return id_array(self.columns["id"], self.where("id"))

    def rows_in(self, other: "Table") -> Array:
        """For each row, which row of the other has its id, by the letter; −1 where none has."""
        return np.full(len(self), -1) if self._ids is None or other._ids is None else places(self._ids, other._ids)

    def check_spelling(self, other: "Table", found: Array | None = None) -> None:
        """Refuses an id that the other file has in another spelling: they are taken for two rows, and hardly are.

        ``found``: the row of each id, −1: none, where the other is a part of what they were looked for in.
        """
        both = self._ids is not None and other._ids is not None
        if both and (near := misspelt(self._ids, other._ids, self.rows_in(other) if found is None else found)):
            row, how = near
            raise UnderstudyError(f"{self.where('id')} row {row} is not in {other.path}: {how}; write them alike")

    def shown_id(self, row: int) -> str:
        """The id of a row, for messages."""
        value = None if self.ids is None else self.ids[row]
        return repr(value.item() if isinstance(value, np.generic) else value)

    def places_in(self, other: "Table", cure: str) -> Array:
        """For each row, which row of the other has its id; one of them must."""
        self.check_spelling(other)
        index = self.rows_in(other)
        if (index < 0).any():
            row = int((index < 0).argmax())
            ids = f"the ids of {other.path} (such as {other.shown_id(0)})"
            raise UnderstudyError(f"{self.where('id')} row {row}: {self.shown_id(row)} is not among {ids}; {cure}")
        return index

    def rows_without(self, others: Iterable["Table"]) -> Array:
        """The rows whose id none of the others has."""
        stays = np.ones(len(self), dtype=bool)
        for other in others:
            index = other.rows_in(self)
            stays[index[index >= 0]] = False
        return np.flatnonzero(stays)


def read_table(
    given: Any, *, columns: Mapping[str, str] | None = None, name: str = "the table", single: str = "text"
) -> Table:
    """Any file of a known kind, a folder, or a table in memory, which messages call by ``name``.

    ``columns``: our names to theirs; what the file lacks is passed over. Our name ``teacher`` is that of whatever form
    the column holds. ``single``: what the column of a list of texts is called.
    """
    columns = columns or {}
    if isinstance(given, str | Path):
        path = Path(given)
        try:
            if remote := parquet_at(path):  # read there, column by column
                source = parquet_source(path, remote)
            else:
                path = local_path(given)
                source = _local_source(path, columns)
        except DAMAGE as error:
            raise damaged(path, error) from error
    else:
        path, source = _in_memory(given, name, single)
    if not source.names:
        raise UnderstudyError(f"{path} holds no columns; write at least the features and the labels")
    if not source.rows:
        raise UnderstudyError(f"{path} holds no rows; check how it was written")
    twice, count = Counter(source.names).most_common(1)[0]
    if count > 1:
        title = "the first row names only some of the columns; name all there, and remove a title or a row above it"
        raise UnderstudyError(f"{path}: {f'two columns are named {twice!r}; rename one' if twice else title}")
    if len(set(columns.values())) < len(columns):
        twice = Counter(columns.values()).most_common(1)[0][0]
        raise UnderstudyError(f"column {twice!r} is given two names; a column serves one purpose")
    if columns.get("teacher") in source.names:
        mapped = LazyColumns(path, source, {"teacher_label": columns["teacher"]})
        columns = _as_label(columns, None if source.letters is not None else mapped["teacher_label"])
    renamed = {theirs: ours for ours, theirs in columns.items() if theirs in source.names}
    # A column that another one takes the name of is left out.
    names = {renamed.get(each, each): each for each in source.names if each in renamed or each not in renamed.values()}
    table = Table(path, LazyColumns(path, source, names))
    table.folder = table.folder if isinstance(given, str | Path) else None
    if table.line is not None:
        LINES[str(path)] = table.line
    return table


def _as_label(columns: Mapping[str, str], held: Array | None = None) -> dict[str, str]:
    """The mapping with the name of the form that the column ``teacher`` holds: cells of one value are labels, lists of
    fractions and records probabilities, other lists votes."""
    form = "teacher_label"
    if held is not None and (held.ndim > 1 or held.dtype.names):
        form = "teacher_probs" if held.dtype.names or held.dtype.kind == "f" else "teacher_votes"
    return {form if ours == "teacher" else ours: theirs for ours, theirs in columns.items()}


def spell_ids_alike(tables: Iterable[Table]) -> None:
    """Ids as texts from now on in all tables, where one of them has texts: their rows meet."""
    tables = [table for table in tables if table._ids is not None]
    if all(pa.types.is_integer(table._ids.type) for table in tables):
        return
    for table in tables:
        if pa.types.is_integer(table._ids.type):
            table._ids = as_text(table._ids)
            table.ids = object_column(table._ids.to_pylist())


def text_columns(path: Path, columns: Mapping[str, str] | None = None) -> dict[str, list[str]]:
    """Every column of a small file as text, literally; '' is an empty cell. ``columns``: our names to theirs."""
    table = read_table(path, columns=columns)
    return {name: table.texts(name) for name in table.names}


def _in_memory(given: Any, name: str, single: str) -> tuple[Path, TableSource]:
    frame = as_frame(given)
    if frame is not None:
        path = Path(f"{name} ({frame.kind})")
        return path, frame_source(frame, str(path))
    columns = given if isinstance(given, Mapping) else columns_of_rows(given, single, name)
    if columns is not None:
        return Path(name), mapping_source(columns, name)
    held = type(given).__name__
    raise UnderstudyError(f"{name} is a {held}; pass a file's name, a pandas, polars or Arrow table, or a list of rows")


def _local_source(path: Path, columns: Mapping[str, str]) -> TableSource:
    if path.is_dir():
        return _folder_source(path)
    path, part = split_part(path)
    kind = path.suffix.lower()
    packed = Path(path.stem).suffix.lower() if kind == ".gz" else ""
    reader = READERS.get(packed if packed in PACKED else kind)
    if reader is None:
        known = ", ".join((*READERS, *(f"{each}.gz" for each in PACKED)))
        raise UnderstudyError(f"{path}: files ending in {path.suffix or 'nothing'!r} are not read; use one of {known}")
    if not path.is_file():
        raise UnderstudyError(f"{path} is not there; check the path" if not path.exists() else f"{path} is not a file")
    if reader in (csv_source, excel_source):
        return reader(path, {theirs: ours for ours, theirs in _as_label(columns).items()}, part)
    return reader(path)


def shards_of(path: Path, suffix: str = ".parquet") -> list[Path]:
    """The files of one kind in a folder, in the order of their names, where there are any; then there must be no
    others."""
    files = sorted(file for file in path.iterdir() if file.is_file() and not file.name.startswith((".", "_")))
    alike = [file for file in files if file.suffix.lower() == suffix]
    if alike and len(alike) < len(files):
        what = {".parquet": ".parquet shards", ".npy": ".npy columns"}[suffix]
        other = next(file for file in files if file not in alike)
        raise UnderstudyError(f"{path} holds {what} and {other.name}; keep one kind of files in a folder")
    return alike


def _folder_source(path: Path) -> TableSource:
    """Shards of one table, columns as .npy files, a folder of ``datasets``, or images; by what lies in the folder."""
    if is_datasets_folder(path):
        return datasets_source(path)
    if shards := shards_of(path):
        return parquet_source(path, shards)
    if arrays := shards_of(path, ".npy"):
        return npy_folder_source(path, arrays)
    source = image_folder_source(path)
    if not source.rows:
        raise UnderstudyError(f"{path} is a folder without .parquet shards, .npy columns or images; check the path")
    return source
