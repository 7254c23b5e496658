"""Spreadsheets of Excel and LibreOffice (``.xlsx``, ``.xls``, ``.ods``), by python-calamine (extra ``excel``).

The one sheet with rows, or the one that is named (``file.xlsx#sheet``), is read like the CSV that it would be saved as:
its first row is the header, ids and labels are taken by the letter, dates are ISO dates, and what kind a column has is
found from its cells.
"""

import csv
import io
from collections.abc import Mapping
from dataclasses import replace
from datetime import date, datetime
from pathlib import Path
from typing import Any

from understudy.data.checks import check_memory
from understudy.errors import UnderstudyError, first_line, optional
from understudy.io.readers import TableSource
from understudy.io.readers.csv_jsonl import csv_source

# Cells, which are Python objects of some 60 bytes; the sheets of Excel hold up to 17 billion, which pack well.
_CELL = 60


def excel_source(path: Path, ours: Mapping[str, str] | None = None, wanted: str = "") -> TableSource:
    python_calamine = optional("python_calamine", f"{path} is read by python-calamine", "excel")
    try:
        with python_calamine.CalamineWorkbook.from_path(path) as book:
            sheets = {}
            if wanted and wanted not in book.sheet_names:
                named = ", ".join(map(repr, book.sheet_names))
                raise UnderstudyError(f"{path} has no sheet {wanted!r}; it has {named}")
            for name in [wanted] if wanted else book.sheet_names:
                sheet = book.get_sheet_by_name(name)
                check_memory(_CELL * sheet.total_height * sheet.total_width, f"{path}: sheet {name!r}")
                sheets[name] = sheet.to_python(skip_empty_area=False)
    except (python_calamine.CalamineError, OSError) as error:
        raise UnderstudyError(f"cannot read {path} as a spreadsheet: {first_line(error)}; save it again") from error
    full = {name: rows for name, rows in sheets.items() if any(cell != "" for row in rows for cell in row)}
    if len(full) != 1:
        held = f"{len(full)} sheets with rows ({', '.join(map(repr, full))})" if full else "no rows"
        raise UnderstudyError(f"{path} holds {held}; name the one to read: {path}#SHEET")
    (rows,) = full.values()
    numbered = [(number, row) for number, row in enumerate(rows, start=1) if any(cell != "" for cell in row)]
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL).writerows([map(_letters, row) for _, row in numbered])
    source = csv_source(path, ours, content=text.getvalue().encode())
    return replace(source, line=lambda row: numbered[row + 1][0])


def _letters(cell: Any) -> str:
    """A cell as CSV has it: 12 and not 12.0, ISO dates, true and false."""
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, datetime) and cell.time() != cell.time().min:
        return cell.isoformat(" ", "seconds")
    if isinstance(cell, date):
        return f"{cell:%Y-%m-%d}"
    if isinstance(cell, float):
        return repr(int(cell)) if cell.is_integer() and abs(cell) < 1 << 53 else repr(cell)
    return str(cell)
