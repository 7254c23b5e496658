"""JSON lines: one object per line, read strictly and a batch of lines at a time.

A cell may be a number, text, a list of one length in all rows, or an object of numbers (class probabilities by name).
A key that a line lacks is an empty cell. Nothing is guessed: ``NaN`` is no JSON, a key twice is a mistake, and text
that looks like a date stays text.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from understudy.data.memory import check_memory
from understudy.errors import UnderstudyError, first_line
from understudy.io.readers.source import TableSource, join_batches
from understudy.store.arrow import Array

# Lines per batch: their Python objects live only until they are Arrow arrays.
BATCH = 1 << 13
_KINDS = {bool: "truth values", int: "numbers", float: "numbers", str: "text", list: "lists", dict: "records"}


def jsonl_source(path: Path) -> TableSource:
    check_memory(2 * path.stat().st_size, f"{path}")
    parts: dict[str, list[Any]] = {}
    rows = 0
    for start, records in _batches(path):
        for name in dict.fromkeys(key for record in records for key in record):
            # A name that comes up late was empty in the batches before.
            chunks = parts.setdefault(name, [pa.nulls(start)] if start else [])
            chunks.append(_column([record.get(name) for record in records], f"{path}: column {name!r}", start))
        rows = start + len(records)
        for chunks in parts.values():
            missing = rows - sum(map(len, chunks))
            if missing:
                chunks.append(pa.nulls(missing))

    def read(name: str, role: str) -> Array:
        where = f"{path}: column {name!r}"
        return join_batches(_one_type(parts[name], where), rows, role=role, where=where)

    def stored(name: str) -> Any:
        return pa.chunked_array(_one_type(parts[name], f"{path}: column {name!r}"))

    return TableSource(list(parts), rows, read, stored=stored)


def _batches(path: Path) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """The number of the first row, and the objects of some lines; blank lines are passed over."""
    start, records = 0, []
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            text = line.strip()
            if number == 1:
                text = text.removeprefix(b"\xef\xbb\xbf")
            if not text:
                continue
            records.append(_record(text, f"{path}: line {number}"))
            if len(records) == BATCH:
                yield start, records
                start, records = start + len(records), []
    if records:
        yield start, records


def _record(line: bytes, where: str) -> dict[str, Any]:
    try:
        record = json.loads(line.decode(), parse_constant=_refuse_constant, object_pairs_hook=_object)
    except (ValueError, RecursionError) as error:
        raise UnderstudyError(f"{where} is not valid JSON ({first_line(error)}); write one object per line") from error
    if not isinstance(record, dict):
        raise UnderstudyError(f"{where} holds a {type(record).__name__}; write one object per line, {{...}}")
    return record


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        raise ValueError("a key stands twice in an object")
    return record


def _column(cells: list[Any], where: str, start: int) -> Any:
    try:
        return pa.array(cells)
    except (pa.ArrowException, OverflowError, UnicodeEncodeError) as error:
        first: str | None = None
        for row, cell in enumerate(cells, start=start):
            kind = None if cell is None else _KINDS.get(type(cell), type(cell).__name__)
            if kind is not None and first is not None and kind != first:
                raise UnderstudyError(
                    f"{where} row {row} holds {kind}, the rows before {first}; use one kind"
                ) from error
            first = first or kind
        raise UnderstudyError(
            f"{where} cannot be used from row {start} on: {first_line(error)}; use one kind"
        ) from error


def _one_type(chunks: list[Any], where: str) -> list[Any]:
    """The chunks with a common type: empty cells of any type, whole numbers beside fractions, other keys in records."""
    if len(chunks) == 1:
        return chunks
    try:
        wide = pa.unify_schemas(
            [pa.schema([("column", chunk.type)]) for chunk in chunks], promote_options="permissive"
        ).field(0).type  # fmt: skip
        if pa.types.is_null(wide):
            return chunks
        return [chunk if chunk.type == wide else _cast(chunk, wide) for chunk in chunks]
    except pa.ArrowException as error:
        raise UnderstudyError(f"{where} changes its kind between rows ({first_line(error)}); use one kind") from error


def _cast(chunk: Any, wide: Any) -> Any:
    if pa.types.is_null(chunk.type):
        return pa.nulls(len(chunk), wide)
    # Records with other keys are rebuilt; Arrow's cast wants the same ones.
    return pa.array(chunk.to_pylist(), wide) if pa.types.is_nested(wide) else chunk.cast(wide)
