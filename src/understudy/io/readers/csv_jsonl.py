"""CSV (and what else is delimited) and JSON lines, both also packed by gzip.

CSV is read by pyarrow: a header, quotes where a cell holds the delimiter or a line break (``delimited.py``).
Ids and labels are taken as they are written: ``007`` stays text, and only a column of plain whole numbers becomes
numbers. Other columns are numbers where every cell is one; a run, or the user's --types, can ask for text instead.

JSON lines hold one object per line, read strictly and a batch of lines at a time. A cell may be a number, text, a list
of one length in all rows, or an object of numbers (class probabilities by name). A key that a line lacks is an empty
cell. Nothing is guessed: ``NaN`` is no JSON, a key twice is a mistake, and text that looks like a date stays text.
"""

import io
import json
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from understudy.data.arrow_columns import join_batches
from understudy.data.checks import SMALL, check_memory
from understudy.errors import UnderstudyError, first_line
from understudy.io.readers import TableSource
from understudy.io.readers.delimited import DELIMITERS, Delimited, find_numbers, unpacked
from understudy.labels.forms import column_of
from understudy.store.arrow import Array
from understudy.store.files import refuse_constant

# No sign but minus, no leading zero, nothing that a 64-bit number cannot hold: what reads back as it was written.
_WHOLE = {r"^(0|-?[1-9][0-9]{0,17})$": pa.int64()}
_NUMBERS = _WHOLE | {r"^-?(0|[1-9][0-9]{0,14})(\.[0-9]+)?([eE][+-]?[0-9]+)?$": pa.float64()}
# Lines of JSON per batch: their Python objects live only until they are Arrow arrays.
BATCH = 1 << 13
_KINDS = {bool: "truth values", int: "numbers", float: "numbers", str: "text", list: "lists", dict: "records"}


def csv_source(
    path: Path, ours: Mapping[str, str] | None = None, delimiter: str = "", *, content: bytes | None = None
) -> TableSource:
    """``ours``: what the columns serve as, where it is not their name. ``delimiter``: its name, where the user gave it.
    ``content``: of a file that is no CSV."""
    # Cells become Arrow values of about their own size; text then becomes Python strings.
    if (size := 2 * path.stat().st_size) > SMALL:
        check_memory(size, f"{path}")
    ours = ours or {}
    file = Delimited.open(path, ours, content, delimiter)
    as_written = [name for name in file.header if _is_label(ours.get(name, name))]
    table = file.read(as_written)
    if "\ufffd" in "".join(file.header) or any(map(pa.types.is_binary, table.schema.types)):
        file.check_letters()
    names, rows = table.column_names, len(table)
    columns = dict(zip(names, table.columns, strict=True))
    del table
    numbers, notes = find_numbers(file, {name: cells for name, cells in columns.items() if name not in as_written})
    columns |= numbers

    def read(name: str, role: str) -> Array:
        # A column is read once; its Arrow form is not needed afterwards.
        values = columns.pop(name)
        if name in as_written:
            values = _typed(values, _WHOLE, gaps=role not in ("id", "label"))
        return join_batches(values.chunks, rows, role=role, where=f"{path}: column {name!r}")

    def written(name: str) -> Any:
        return file.read([name], alone=True).column(0)

    def letters(name: str) -> Array:
        return join_batches(written(name).chunks, rows, role="", where=f"{path}: column {name!r}")

    if file.delimiter != "," and ".tsv" not in map(str.lower, path.suffixes):
        notes = [f"{DELIMITERS[file.delimiter]} between cells", *notes]
    return TableSource(
        names, rows, read, stored=lambda name: _typed(written(name), _NUMBERS), letters=letters,
        notes=notes, line=file.line,
    )  # fmt: skip


def _is_label(role: str) -> bool:
    column = column_of(role) if role.startswith("teacher_") else None
    return role in ("id", "label") or (column is not None and column.holds == "class")


def _typed(values: Any, kinds: Mapping[str, Any], *, gaps: bool = True) -> Any:
    """Numbers, where all cells are spelled as one of ``kinds`` (or are empty); else the text as it is, so that no
    letter which matters is lost: 007, 2020-01-01 and 19 digits stay text."""
    filled = pc.if_else(pc.equal(values, ""), pa.scalar(None, pa.string()), values) if gaps else values
    if filled.null_count < len(filled):
        for spelling, kind in kinds.items():
            if pc.all(pc.match_substring_regex(filled, spelling)).as_py():
                return filled.cast(kind)
    return values


def jsonl_source(path: Path) -> TableSource:
    if (size := 2 * path.stat().st_size) > SMALL:
        check_memory(size, f"{path}")
    #: Of every batch its rows, and the columns that occur in it.
    batches: list[tuple[int, dict[str, Any]]] = []
    rows = 0
    for records in json_batches(path):
        names = dict.fromkeys(key for record in records for key in record)
        cells = {name: [record.get(name) for record in records] for name in names}
        columns = {name: _column(cells[name], f"{path}: column {name!r}", rows) for name in names}
        batches.append((len(records), columns))
        rows += len(records)

    def stored(name: str) -> Any:
        # Empty cells are of any type, whole numbers stand beside fractions, and records may have other keys.
        parts = [pa.table({name: columns.get(name, pa.nulls(count))}) for count, columns in batches]
        try:
            return pa.concat_tables(parts, promote_options="permissive").column(0)
        except pa.ArrowException as error:
            raise UnderstudyError(f"{path}: column {name!r} changes its kind ({first_line(error)}); use one") from error

    def read(name: str, role: str) -> Array:
        return join_batches(stored(name).chunks, rows, role=role, where=f"{path}: column {name!r}")

    def line(row: int) -> int:
        return next(islice((number for number, _ in _json_lines(path)), row, None))

    listed = list(dict.fromkeys(name for _, columns in batches for name in columns))
    return TableSource(listed, rows, read, stored=stored, line=line)


def _json_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines that are not blank, with their numbers."""
    with io.BytesIO(unpacked(path)) if path.suffix.lower() == ".gz" else path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if text := line.strip().removeprefix(b"\xef\xbb\xbf" if number == 1 else b""):
                yield number, text


def json_batches(path: Path) -> Iterator[list[dict[str, Any]]]:
    """The objects of some lines."""
    records = []
    for number, text in _json_lines(path):
        records.append(_record(text, f"{path}: line {number}"))
        if len(records) == BATCH:
            yield records
            records = []
    if records:
        yield records


def _record(line: bytes, where: str) -> dict[str, Any]:
    try:
        record = json.loads(line.decode(), parse_constant=refuse_constant, object_pairs_hook=_object)
    except (ValueError, RecursionError) as error:
        raise UnderstudyError(f"{where} is not valid JSON ({first_line(error)}); write one object per line") from error
    if not isinstance(record, dict):
        raise UnderstudyError(f"{where} holds a {type(record).__name__}; write one object per line, {{...}}")
    return record


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        raise ValueError("a key stands twice in an object")
    return record


def _column(cells: list[Any], where: str, start: int) -> Any:
    try:
        return pa.array(cells)
    except (pa.ArrowException, OverflowError, UnicodeEncodeError) as error:
        kinds = [(row, _KINDS[type(cell)]) for row, cell in enumerate(cells, start) if cell is not None]
        odd = [(row, kind) for row, kind in kinds if kind != kinds[0][1]]
        held = f"cannot be used from row {start} on: {first_line(error)}"
        if odd:
            held = f"row {odd[0][0]} holds {odd[0][1]}, the rows before {kinds[0][1]}"
        raise UnderstudyError(f"{where} {held}; use one kind") from error
