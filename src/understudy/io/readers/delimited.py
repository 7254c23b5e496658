"""How a table of letters is written: packed or not, its encoding, delimiter and decimal mark, the lines of its rows.

    file = Delimited.open(Path("mine.csv"), known={"label", "truth"})
    file.delimiter, file.packed                        # ";", False
    file.read(as_text=["label"])                       # an Arrow table
    find_numbers(file, columns)                        # those that hold numbers such as "1 234,50"
    file.line(17)                                      # the line of row 17, as an editor counts: the header is line 1

The delimiter is the one of ``DELIMITERS`` that splits every line of the first part into as many cells as the header. A
number may be written with blanks around it and between thousands. Whether a comma or a point is the decimal mark is
known from columns that allow one reading only (``0,5``; ``1.234,5``; not ``1,234``). What several readings explain is
refused, or stays text with a warning; nothing is decided by a coin.
"""

import csv
import gzip
import io
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from understudy.data.checks import SMALL, check_memory, is_reserved
from understudy.errors import UnderstudyError, first_line, warn

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
# So much of a file shows its delimiter.
SAMPLE = 1 << 18
# Types are found in a block, and a row must fit into one.
BLOCK = 1 << 30
_EMPTY = pa.array(pyarrow.csv.ConvertOptions().null_values)
_BLANKS = r"[ \x{a0}\x{202f}]"
#: Decimal marks, and what then may stand between thousands.
_OTHER = {",": r"\.", ".": ","}


def unpacked(path: Path) -> bytes:
    """A gzip file's content, if it fits into memory."""
    parts, size = [], 0
    with gzip.open(path, "rb") as file:
        while part := file.read(1 << 24):
            parts.append(part)
            size += len(part)
            if size > SMALL:
                check_memory(2 * size, f"{path}, unpacked,")
    return b"".join(parts)


@dataclass(frozen=True)
class Delimited:
    path: Path
    #: UTF-8, where it is not what the file itself holds.
    content: bytes | None
    delimiter: str
    header: Sequence[str]

    @classmethod
    def open(cls, path: Path, known: Collection[str] = (), content: bytes | None = None, name: str = "") -> "Delimited":
        """``known``: names of columns, which tell a header. ``content``: of a file that is no text (CSV). ``name``: of
        the delimiter, where the user gave it."""
        if content is None and path.suffix.lower() == ".gz":
            content = unpacked(path)
        with path.open("rb") if content is None else io.BytesIO(content) as file:
            start = file.read(SAMPLE)
            whole = not file.read(1)
        if start.startswith((b"\xff\xfe", b"\xfe\xff")):  # as Excel writes "Unicode text"
            content = (path.read_bytes() if content is None else content).decode("utf-16").encode()
            start, whole = content[:SAMPLE], len(content) <= SAMPLE
        delimiter, header = _find_delimiter(start.decode("utf-8-sig", "replace"), whole, known, path, name)
        return cls(path, content, delimiter, header)

    def read(self, as_text: Sequence[str], *, alone: bool = False) -> Any:
        """``as_text``: columns whose types are not to be found; ``alone``: no others."""
        size = self.path.stat().st_size if self.content is None else len(self.content)
        try:
            return pyarrow.csv.read_csv(
                self.path if self.content is None else pa.BufferReader(self.content),
                # One thread: only then do messages name the line.
                read_options=pyarrow.csv.ReadOptions(use_threads=False, block_size=min(BLOCK, size + 1)),
                parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True, delimiter=self.delimiter),
                convert_options=pyarrow.csv.ConvertOptions(
                    column_types=dict.fromkeys(as_text, pa.string()), include_columns=list(as_text) if alone else None
                ),
            )
        except pa.ArrowInvalid as error:
            self.check_letters()
            if " columns, got " not in str(error):
                raise
            cells = f"cannot be read with {DELIMITERS[self.delimiter]} between cells: {first_line(error)}"
            raise UnderstudyError(f"{self.path} {cells}; put quotes around cells that hold one") from error

    def check_letters(self) -> None:
        """Refuses another encoding than UTF-8, and says on which line it shows."""
        content = self.path.read_bytes() if self.content is None else self.content
        try:
            content.decode()
        except UnicodeDecodeError as error:
            number = content.count(b"\n", 0, error.start) + 1
            start = re.split(rb"[\s,;|]", content[max(0, error.start - 40) : error.start])[-1]
            end = re.split(rb"[\s,;|]", content[error.start : error.start + 40])[0]
            word = (start + end).decode("cp1252", "replace")[:40]
            held = f"line {number} is not UTF-8 text (as Windows-1252 it holds {word!r})"
            raise UnderstudyError(f"{self.path}: {held}; save it as UTF-8, in Excel as 'CSV UTF-8'") from error

    def line(self, row: int) -> int:
        return self._lines[row]

    @cached_property
    def _lines(self) -> list[int]:
        """The line where each row begins; cells may hold line breaks, and empty lines are no rows."""
        found, before = list[int](), 0
        source: IO[bytes] = self.path.open("rb") if self.content is None else io.BytesIO(self.content)
        with io.TextIOWrapper(source, encoding="utf-8-sig", newline="") as file:
            cells = csv.reader(file, delimiter=self.delimiter)
            for row in cells:
                found += [before + 1] if row else []
                before = cells.line_num
        return found[1:]  # without the header


def _find_delimiter(text: str, whole: bool, known: Collection[str], path: Path, name: str) -> tuple[str, list[str]]:
    """The delimiter, and the header it makes. ``name``: of the one that the user names."""
    among = {sign: words for sign, words in DELIMITERS.items() if name in ("", words.split()[-1].removesuffix("s"))}
    if not among:
        raise UnderstudyError(f"{path}#{name}: a delimiter is named comma, semicolon, tab or bar; correct it")
    headers, fits = {}, []
    for delimiter in among:
        try:
            rows = [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if row]
        except csv.Error:  # for pyarrow to complain about
            rows = []
        rows = rows if whole else rows[:1] + rows[1:-1]  # the last one is cut
        headers[delimiter] = rows[0] if rows else []
        if {len(row) for row in rows} == {len(headers[delimiter])} and len(headers[delimiter]) > 1:
            fits.append(delimiter)
    if not fits:  # one column, or a row with too many cells: the reader names it
        found = max(among, key=lambda each: len(headers[each]))
        return found, headers[found]
    by_name = [each for each in fits if any(name in known or is_reserved(name) for name in headers[each])]
    if len(fits) > 1 and len(by_name) != 1:
        both = " and ".join(DELIMITERS[each] for each in fits)
        cure = f"name it behind the file: {path.name}#{DELIMITERS[fits[0]].split()[-1].removesuffix('s')}"
        raise UnderstudyError(f"{path}: {both} split all lines alike, so either may be the delimiter; {cure}")
    found = (by_name if len(fits) > 1 else fits)[0]
    return found, headers[found]


def _spelling(mark: str) -> str:
    """A number with this decimal mark; blanks, or the other mark, between thousands."""
    groups = "|".join(rf"[0-9]{{1,3}}(?:{each}[0-9]{{3}})+" for each in (_OTHER[mark], _BLANKS))
    return rf"^[+-]?(?:[0-9]+|{groups})(?:[{mark}][0-9]+)?(?:[eE][+-]?[0-9]+)?$"


def find_numbers(file: Delimited, columns: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Columns that pyarrow takes for text, or (points where commas do not delimit) for other numbers; and what to say.

    A column with two readings follows those with one, where they agree; else it stays text.
    """
    points = [name for name, column in columns.items() if pa.types.is_floating(column.type)]
    letters = {name: column for name, column in columns.items() if pa.types.is_string(column.type)}
    if file.delimiter != "," and points:
        letters |= dict(zip(points, file.read(points, alone=True).columns, strict=True))
    # The first rows show that most columns are words.
    likely = [name for name, cells in letters.items() if _marks(_plain(cells.slice(0, 100)))]
    cells = {name: _plain(letters[name]) for name in likely}
    marks = {name: found for name in likely if (found := _marks(cells[name]))}
    agreed = {found[0] for found in marks.values() if len(found) == 1} | {"." for _ in points if file.delimiter == ","}
    numbers, notes = {}, []
    for name, found in marks.items():
        odd = next((cell for cell in cells[name].to_pylist() if cell is not None and not cell.isdigit()), "")
        if len(found) > 1 and len(agreed) != 1 and _any(cells[name], "[.,]"):
            numbers[name] = letters[name]
            both = f"{odd!r} may have a decimal mark, or one of thousands"
            warn(f"{file.path}: column {name!r} is read as text: {both}; write it so that one reading is possible")
            continue
        mark = found[0] if len(found) == 1 else next(iter(agreed), ".")
        if name not in points or mark == ",":
            plain = pc.replace_substring_regex(cells[name], rf"{_BLANKS}|{_OTHER[mark]}|^\+", "")
            plain = pc.replace_substring(plain, mark, ".")
            numbers[name] = plain.cast(pa.float64() if _any(plain, "[.eE]|[0-9]{19}") else pa.int64())
            value = numbers[name][pc.index(cells[name], odd).as_py()]
            notes.append(f"column {name!r} holds numbers: {odd!r} is {value}")
    return numbers, notes


def _marks(cells: Any) -> list[str]:
    """The decimal marks with which all cells are numbers."""
    empty = cells.null_count == len(cells)
    return [mark for mark in _OTHER if not empty and pc.all(pc.match_substring_regex(cells, _spelling(mark))).as_py()]


def _any(cells: Any, pattern: str) -> bool:
    return bool(pc.any(pc.match_substring_regex(cells, pattern)).as_py())


def _plain(column: Any) -> Any:
    """Cells without blanks around them; None where they are empty."""
    trimmed = pc.utf8_trim_whitespace(column)
    return pc.if_else(pc.is_in(trimmed, _EMPTY), pa.scalar(None, pa.string()), trimmed)
