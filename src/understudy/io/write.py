"""Columns as a new file, whole or not at all; the suffix says which kind.

    write_table("predictions.csv", {"id": ids, "label": labels, "probabilities": probs})

Arrays of more axes are lists in Parquet and JSON lines, arrays in ``.npz`` and one column per entry in CSV
(``probabilities_0`` …). Structured arrays are structs, objects, structured arrays, and one column per field
(``probabilities_cat`` …). Text is written as it is, so that ids still join: a CSV cell that a spreadsheet would take
for a formula is warned about, not changed.
"""

import csv
import json
import warnings
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from understudy.data.arrow_columns import to_array
from understudy.errors import UnderstudyError, warn
from understudy.io.table import Stored
from understudy.store.arrow import Array, object_column, to_arrow
from understudy.store.files import appearing_whole, check_new_file, local_path

# Rows that are Python objects at one time.
_ROWS = 1 << 14
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def write_table(path: str | Path, columns: Mapping[str, Stored]) -> None:
    """Columns as a new file, arrays or Arrow's; an existing file is never overwritten."""
    path = local_path(path)
    check_new_file(path, "tables are", tuple(WRITERS))
    with appearing_whole(path) as temporary:
        WRITERS[path.suffix.lower()](temporary, columns)


def write_columns(path: Path, columns: Mapping[str, list[Any]]) -> None:
    """A small CSV or Parquet file, whole or not at all; None is an empty cell."""
    stored: dict[str, Stored] = {name: object_column(cells) for name, cells in columns.items()}
    suffix = ".parquet" if path.suffix.lower() == ".parquet" else ".csv"
    if suffix == ".parquet":  # an answer may be a number or a word, so the column is text
        stored["label"] = pa.array(columns["label"], pa.string())
    with appearing_whole(path, keep_suffix=False) as temporary:
        WRITERS[suffix](temporary, stored)


def _write_npz(path: Path, columns: Mapping[str, Stored]) -> None:
    # NumPy's annotation takes every keyword for its own allow_pickle.
    save: Any = np.savez
    with warnings.catch_warnings(), path.open("wb") as file:
        # Class names beyond ASCII need a newer version of the format, which every NumPy since 1.17 reads.
        warnings.filterwarnings("ignore", message="Stored array in format 3.0")
        save(file, **{name: _fixed_width(_in_memory(column, name), name) for name, column in columns.items()})


def _fixed_width(column: Array, name: str) -> Array:
    """An archive holds no Python objects: text gets the width of the longest."""
    if column.dtype == object and not all(isinstance(cell, str) for cell in column.flat):
        raise UnderstudyError(f"column {name!r} holds other values than texts, or none in a row; write .parquet")
    return column.astype(np.str_) if column.dtype == object else column


def _in_memory(column: Stored, name: str) -> Array:
    if isinstance(column, np.ndarray):
        return column
    return to_array(column.combine_chunks(), role="", where=f"column {name!r}")


def _arrow_table(columns: Mapping[str, Stored]) -> Any:
    return pa.table({name: to_arrow(column) for name, column in columns.items()})


def _write_parquet(path: Path, columns: Mapping[str, Stored]) -> None:
    pq.write_table(_arrow_table(columns), path)


def _write_jsonl(path: Path, columns: Mapping[str, Stored]) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for batch in _arrow_table(columns).to_batches(_ROWS):
            file.writelines(_line(record) + "\n" for record in batch.to_pylist())


def _line(record: dict[str, Any]) -> str:
    try:
        return json.dumps(record, ensure_ascii=False, allow_nan=False, default=_as_json)
    except ValueError:  # NaN, which is an empty cell; infinity, which JSON cannot say
        for name, cell in record.items():
            record[name] = json.loads(json.dumps(cell, default=_as_json), parse_constant=partial(_no_number, name))
        return json.dumps(record, ensure_ascii=False)


def _no_number(name: str, constant: str) -> None:
    if constant != "NaN":
        raise UnderstudyError(f"column {name!r} holds infinity, which .jsonl cannot; write .parquet")


def _as_json(cell: Any) -> Any:
    """What JSON has no word for: times as ISO text, decimal numbers as numbers."""
    if isinstance(cell, date | datetime | time):
        return cell.isoformat()
    if isinstance(cell, Decimal):
        return float(cell)
    raise UnderstudyError(f".jsonl cannot hold {type(cell).__name__} values; write .parquet, or leave the column out")


def _write_csv(path: Path, columns: Mapping[str, Stored]) -> None:
    flat = dict(piece for name, column in columns.items() for piece in _flat(name, _in_memory(column, name)))
    risky = next((text for text in chain(flat, _texts(flat)) if text.startswith(_FORMULA)), None)
    if risky is not None:
        warn(f".csv holds text like {risky!r}, which a spreadsheet takes for a formula; write .parquet or .jsonl")
    # The csv module leaves a lone carriage return unquoted, which every reader takes for the end of a line.
    plain = not any("\r" in text for text in _texts(flat))
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_MINIMAL if plain else csv.QUOTE_NONNUMERIC)
        writer.writerow(flat)
        for start in range(0, max(map(len, flat.values()), default=0), _ROWS):
            writer.writerows(zip(*(column[start : start + _ROWS].tolist() for column in flat.values()), strict=True))


def _flat(name: str, column: Array) -> Iterator[tuple[str, Array]]:
    if column.dtype.names:
        for inner in column.dtype.names:
            yield f"{name}_{inner}", column[inner]
    elif column.ndim == 1:
        # Whole nanoseconds would come as numbers.
        yield name, column.astype("datetime64[us]") if column.dtype.kind == "M" else column
    else:
        for number in range(column.shape[1]):
            yield from _flat(f"{name}_{number}", column[:, number])


def _texts(columns: Mapping[str, Array]) -> Iterator[str]:
    for column in columns.values():
        if column.dtype.kind in "OU":
            yield from (cell for cell in column.tolist() if isinstance(cell, str))


WRITERS: dict[str, Callable[[Path, Mapping[str, Stored]], None]] = {
    ".parquet": _write_parquet, ".csv": _write_csv, ".jsonl": _write_jsonl, ".npz": _write_npz,
}  # fmt: skip
