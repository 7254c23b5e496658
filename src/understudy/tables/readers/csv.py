"""CSV, read by pyarrow: a header, commas, quotes where a cell holds a comma or a line break, UTF-8 with or without BOM.

Ids and labels are taken as they are written: ``007`` stays text, and only a column of plain whole numbers becomes
numbers. Other columns are numbers where every cell is one.
"""

from collections.abc import Collection
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from understudy.data.memory import check_memory
from understudy.errors import UnderstudyError
from understudy.labels.forms import COLUMNS
from understudy.store.arrow import Array
from understudy.tables.readers.arrow_columns import SMALL, join_batches
from understudy.tables.readers.source import Source

# No sign but minus, no leading zero, nothing that a 64-bit number cannot hold: what reads back as it was written.
_WHOLE = r"^(0|-?[1-9][0-9]{0,17})$"
# Spreadsheets and data frames with gaps write 3 as 3.0. Nor does a NaN among numbers make a class named so.
_NUMBER = r"(?i)^(-?[0-9]{1,18}(\.[0-9]*)?|-?inf(inity)?|nan)$"
AS_WRITTEN = ("id", "label", *(one.name for one in COLUMNS.values() if one.holds == "class" and not one.lists))


def csv_source(path: Path, as_written: Collection[str] = AS_WRITTEN) -> Source:
    """``as_written``: the columns that serve as ids and labels, by the names they have in the file."""
    # Cells become Arrow values of about their own size; text then becomes Python strings.
    if (size := 2 * path.stat().st_size) > SMALL:
        check_memory(size, f"{path}")
    table = pyarrow.csv.read_csv(
        path,
        # One thread: only then do messages name the line.
        read_options=pyarrow.csv.ReadOptions(use_threads=False),
        parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True),
        convert_options=pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(as_written, pa.string())),
    )
    names = table.column_names
    columns = dict(zip(names, table.columns, strict=True))
    for name, column in columns.items():
        if pa.types.is_binary(column.type):
            raise UnderstudyError(f"{path}: column {name!r} holds bytes that are not UTF-8 text; save it as UTF-8")
    rows = len(table)
    del table

    def read(name: str, role: str) -> Array:
        # A column is asked for once; its Arrow form is of no use afterwards.
        values = columns.pop(name)
        if name in as_written:
            values = _as_meant(values, role)
        return join_batches(values.chunks, len(values), role=role, where=f"{path}: column {name!r}")

    return Source(names, rows, read)


def _as_meant(values: Any, role: str) -> Any:
    """Numbers, if all cells are plain whole numbers (labels: numbers of any form); else the text as it stands."""
    filled = values
    if role not in ("id", "label"):
        filled = pc.if_else(pc.equal(values, ""), pa.scalar(None, pa.string()), values)
    if not pc.any(pc.is_valid(filled)).as_py():
        return values
    if pc.all(pc.match_substring_regex(filled, _WHOLE)).as_py():
        return filled.cast(pa.int64())
    if role != "id" and pc.all(pc.match_substring_regex(filled, _NUMBER)).as_py():
        return filled.cast(pa.float64())
    return values
