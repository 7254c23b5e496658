"""CSV, read by pyarrow: a header, commas, quotes where a cell holds a comma or a line break, UTF-8 with or without BOM.

Ids and labels are taken as they are written: ``007`` stays text, and only a column of plain whole numbers becomes
numbers. Other columns are numbers where every cell is one; a run, or the user's --types, can ask for text instead.
"""

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from understudy.data.memory import check_memory
from understudy.errors import UnderstudyError
from understudy.io.readers.source import SMALL, TableSource, join_batches
from understudy.labels.forms import column_of
from understudy.store.arrow import Array

# No sign but minus, no leading zero, nothing that a 64-bit number cannot hold: what reads back as it was written.
_WHOLE = r"^(0|-?[1-9][0-9]{0,17})$"
_FRACTION = r"^-?(0|[1-9][0-9]{0,14})(\.[0-9]+)?([eE][+-]?[0-9]+)?$"
# Types are found in a block, and a row must fit into one.
BLOCK = 1 << 30


def csv_source(path: Path, ours: Mapping[str, str] | None = None) -> TableSource:
    """``ours``: what the columns serve as, where the file calls them otherwise."""
    # Cells become Arrow values of about their own size; text then becomes Python strings.
    if (size := 2 * path.stat().st_size) > SMALL:
        check_memory(size, f"{path}")
    as_written = [name for name in _header(path) if _is_label((ours or {}).get(name, name))]
    table = _read(path, as_written)
    names = table.column_names
    columns = dict(zip(names, table.columns, strict=True))
    for name, column in columns.items():
        if pa.types.is_binary(column.type):
            raise UnderstudyError(f"{path}: column {name!r} holds bytes that are not UTF-8 text; save it as UTF-8")
    rows = len(table)
    del table

    def read(name: str, role: str) -> Array:
        # A column is read once; its Arrow form is not needed afterwards.
        values = columns.pop(name)
        if name in as_written:
            values = _as_meant(values, role)
        return join_batches(values.chunks, len(values), role=role, where=f"{path}: column {name!r}")

    def letters(name: str) -> Array:
        values = _read(path, [name], alone=True).column(0)
        return join_batches(values.chunks, rows, role="", where=f"{path}: column {name!r}")

    def stored(name: str) -> Any:
        return _as_it_is(_read(path, [name], alone=True).column(0))

    return TableSource(names, rows, read, stored=stored, letters=letters)


def _is_label(role: str) -> bool:
    if role in ("id", "label"):
        return True
    column = column_of(role) if role.startswith("teacher_") else None
    return column is not None and column.holds == "class"


def _read(path: Path, as_written: list[str], *, alone: bool = False) -> Any:
    return pyarrow.csv.read_csv(
        path,
        # One thread: only then do messages name the line.
        read_options=pyarrow.csv.ReadOptions(use_threads=False, block_size=min(BLOCK, path.stat().st_size + 1)),
        parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(as_written, pa.string()), include_columns=as_written if alone else None
        ),
    )


def _header(path: Path) -> list[str]:
    """The names of the columns; what cannot be read is for pyarrow to complain about."""
    try:
        with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
            return next((line for line in csv.reader(file) if line), [])
    except csv.Error:
        return []


def _as_it_is(values: Any) -> Any:
    """A type that loses no letter which matters: 007, 2020-01-01 and 19 digits stay text."""
    filled = pc.if_else(pc.equal(values, ""), pa.scalar(None, pa.string()), values)
    if filled.null_count < len(filled):
        for pattern, kind in ((_WHOLE, pa.int64()), (_FRACTION, pa.float64())):
            if pc.all(pc.match_substring_regex(filled, pattern)).as_py():
                return filled.cast(kind)
    return values


def _as_meant(values: Any, role: str) -> Any:
    """Numbers, if all cells are plain whole numbers; else the text as it stands."""
    filled = values
    if role not in ("id", "label"):
        filled = pc.if_else(pc.equal(values, ""), pa.scalar(None, pa.string()), values)
    if not pc.any(pc.is_valid(filled)).as_py():
        return values
    return filled.cast(pa.int64()) if pc.all(pc.match_substring_regex(filled, _WHOLE)).as_py() else values
