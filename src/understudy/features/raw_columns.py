"""Columns as they come from a file or a frame, and what they hold: numbers, true or false, dates, texts.

    raw = RawColumns({"joined": np.array(["31.12.2024", "1.2.2025"], dtype=object)}, "pool.csv")
    find_kind(raw["joined"])                                 # "dates %d.%m.%Y"
    raw = replace(raw, kinds={"joined": "dates %d.%m.%Y"})   # as a run has it, for every later file
    raw["joined"], raw["month of joined"]                    # dates, however they are written; 12 and 2

Texts are true or false where all of them are one of ``TRUE`` and ``FALSE``; they are dates where one way to write dates
explains all of them. 03/04/2025 is a day of March or of April: where no other cell decides, such a column stays text.

Days, weeks, months and years are groups of rows, from a column of dates:

    split_window("week:created_at")                              # ("week", "created_at"); ("", name) without one
    time_windows(["2024-03-07T09:30:00Z"], "week", "created_at")     # ["2024-03-04"]: its Monday
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from understudy.data.checks import check_texts, describe
from understudy.errors import UnderstudyError
from understudy.store.arrow import Array, object_column

TRUE, FALSE = {"true", "1", "1.0", "yes"}, {"false", "0", "0.0", "no"}
#: What a date becomes: numbers, and categories. Days since 2000: which day is the first is lost in the scaling.
DATE_NUMBERS, DATE_CATEGORIES = ("day", "hour"), ("month", "weekday")
DERIVED = re.compile(f"({'|'.join((*DATE_NUMBERS, *DATE_CATEGORIES))}) of (.*)", re.DOTALL)
_HOUR = np.timedelta64(1, "h")
#: How dates are written.
ISO = "ISO"
_FORMATS = (
    ISO,
    *(f"{day}{time}" for day in ("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y") for time in ("", " %H:%M", " %H:%M:%S")),
)
NUMBER = r"^\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*$"
_KINDS = dict.fromkeys("iuf", "numbers") | {"b": "flags", "M": "dates", "U": "texts", "T": "texts"}


def no_column(where: str, name: str, names: Iterable[str], why: str = "") -> UnderstudyError:
    """There is no such column: with the one that is probably meant, and all there are. ``why`` it is wanted."""
    names = list(names)
    alike = {each.casefold().strip(): each for each in reversed(names)}
    near = get_close_matches(name.casefold().strip(), alike, n=1)
    meant = f"did you mean {alike[near[0]]!r}? " if near else ""
    listed = ", ".join(map(repr, names[:20])) + (f" … ({len(names)})" if len(names) > 20 else "")
    return UnderstudyError(f"{where} has no column {name!r}{why}; {meant}it has {listed}")


@dataclass(frozen=True)
class RawColumns:
    """Columns as they come from a file, and where they came from, for the messages."""

    columns: Mapping[str, Array]
    #: The file, as messages name it.
    where: str
    #: What relative paths of images are relative to.
    folder: Path | None = Path()
    #: What columns held in training (``find_kind``): flags and dates are read as such, however they are written.
    kinds: Mapping[str, str] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Array:
        if (of_date := DERIVED.fullmatch(name)) and self.kinds.get(of_date[2], "").startswith("dates"):
            return date_parts(self[of_date[2]])[of_date[1]]
        if name not in self.columns:
            raise no_column(self.where, name, self.columns, ", which is a feature")
        given: Any = self.columns[name]
        # Arrow's arrays tell their numbers, but not their texts, to np.asarray without a copy to fixed width.
        column: Array = given if isinstance(given, np.ndarray) else np.asarray(given.to_numpy(zero_copy_only=False))
        kind = self.kinds.get(name, "")
        if kind == "flags" and column.dtype.kind != "b":
            return _as_flags(column, self.at(name))
        if kind.startswith("dates") and column.dtype.kind != "M":
            return _as_dates(column, kind.removeprefix("dates").strip() or ISO, self.at(name))
        return column

    def at(self, name: str, row: int | None = None) -> str:
        column = f"{self.where}: column {name!r}"
        return column if row is None else f"{column} row {row}"

    def numbers(self, name: str) -> Array:
        column = self[name]
        if column.dtype.kind not in "biuf":
            raise UnderstudyError(f"{self.at(name)} holds {describe(column)}; it must hold numbers, like 3.5")
        return column

    def texts(self, name: str) -> list[str]:
        column = self[name]
        if column.ndim != 1 or column.dtype.kind not in "UTO":
            raise UnderstudyError(f"{self.at(name)} holds {describe(column)}; it must hold one text per row")
        texts: list[str] = column.tolist()
        check_texts(texts, self.at(name))
        return texts

    def categories(self, name: str) -> list[str]:
        """The values as texts; ``True`` and ``False`` are two of them, an empty cell is one like another."""
        column = self[name]
        if column_kind(column) == "flags":
            return ["" if value is None else str(value) for value in column.tolist()]
        if column.ndim == 1 and column.dtype.kind == "O":
            return RawColumns({name: np.where(column == None, "", column)}, self.where).texts(name)  # noqa: E711
        return self.texts(name)


def column_kind(column: Array) -> str:
    """``array``, ``flags``, ``numbers``, ``dates``, ``texts`` or ``other``."""
    kind = column.dtype.kind
    if column.ndim > 1:
        return "array" if kind in "biuf" else "other"
    if kind == "O":
        some = [value for value in column[:100].tolist() if value is not None]
        # Columns that begin with a hundred empty cells are rare.
        some = some or [value for value in column.tolist() if value is not None][:100]
        types = {type(value) for value in some}
        return "texts" if types and types <= {str, np.str_} else "flags" if types == {bool} else "other"
    return _KINDS.get(kind, "other")


def is_empty(column: Array) -> bool:
    """Whether no row holds anything."""
    if column.ndim > 1 or column.dtype.kind not in "OfM":
        return False
    if column.dtype.kind == "O":
        return not any(_plain(value) for value in column)
    return bool((np.isnat(column) if column.dtype.kind == "M" else np.isnan(column)).all())


def find_kind(column: Array) -> str:
    """As ``column_kind``; and texts that are true or false (``flags``), or dates (``dates`` and their format)."""
    kind, formats = column_kind(column), [*_FORMATS, "flags"]
    if kind != "texts" or is_empty(column):
        return kind
    for cells in (column[:100], column):  # the first rows show that most columns are words
        formats = [
            each for each in formats if (_are_flags(cells) if each == "flags" else _parsed(cells, each) is not None)
        ]
    return kind if len(formats) != 1 else "flags" if formats == ["flags"] else f"dates {formats[0]}"


def date_kind(column: Array, written: str, where: str) -> str:
    """As ``find_kind``, of a column that the user says holds dates, written as ``written`` where that is given."""
    if column.dtype.kind == "M":
        return "dates"
    found = [each for each in ([written] if written else [*_FORMATS, "%Y%m%d"]) if _parsed(column, each) is not None]
    if len(found) == 1:
        return f"dates {found[0]}"
    held = f" has no dates like {written}" if written else f": {column[0]!r} is a date in {len(found)} ways"
    raise UnderstudyError(f"{where}{held}; say how they are written, e.g. --types NAME=date:%d/%m/%Y")


def _plain(value: Any) -> str:
    """A cell's letters; none where it is empty."""
    return "" if value is None or value != value else str(value).strip()


def _are_flags(column: Array) -> bool:
    words = {_plain(value).lower() for value in column.tolist()} - {""}
    return words <= {"true", "false"} or words <= {"yes", "no"}


def _as_flags(column: Array, where: str) -> Array:
    """True, False or None."""
    words = [_plain(value).lower() for value in column.tolist()]
    for row, word in enumerate(words):
        if word and word not in TRUE | FALSE:
            raise UnderstudyError(f"{where} row {row} is {column[row]!r}, but training had true and false; write these")
    return object_column([word in TRUE if word else None for word in words])


def _as_dates(column: Array, written: str, where: str) -> Array:
    if not is_empty(column) and column_kind(column) != "texts":
        raise UnderstudyError(f"{where} holds {describe(column)}; it held dates in training")
    dates = _parsed(column, written)
    dates = _parsed(column, ISO) if dates is None else dates  # which has one reading
    if dates is None:
        row = next(row for row in range(len(column)) if _parsed(column[row : row + 1], written) is None)
        like = f"{datetime(2025, 1, 31):{'%Y-%m-%d' if written == ISO else written}}"
        raise UnderstudyError(f"{where} row {row} is {column[row]!r}; write dates as in training, like {like}")
    return dates


def _parsed(column: Array, written: str) -> Array | None:
    """Texts as dates, empty ones as no time (NaT); None where one of them is not written so."""
    texts = pa.array([_plain(value) or None for value in column.tolist()], pa.string())
    if written == ISO:
        for kind in (pa.timestamp("us"), pa.timestamp("us", "UTC")):
            with suppress(pa.ArrowInvalid):
                return np.asarray(texts.cast(kind).to_numpy(zero_copy_only=False))
        return None
    if written not in _FORMATS:  # a user's own
        with suppress(ValueError):
            dates = [None if text is None else datetime.strptime(text, written) for text in texts.to_pylist()]
            return np.array(dates, dtype="datetime64[us]")
        return None
    # A year of two digits would be one of antiquity.
    dated = pc.if_else(pc.match_substring_regex(texts, "[0-9]{4}"), texts, pa.scalar(None, pa.string()))
    dates = pc.strptime(dated, written, "s", error_is_null=True)
    if dates.null_count > texts.null_count:
        return None
    # 31 February would be 2 March.
    days = pc.list_element(pc.split_pattern_regex(texts, "[./]"), 0 if written.startswith("%d") else 1)
    wrong = pc.any(pc.not_equal(pc.day(dates), days.cast(pa.int64()))).as_py()
    return None if wrong else np.asarray(dates.to_numpy(zero_copy_only=False))


def date_parts(dates: Array) -> dict[str, Array]:
    """Days since 2000 and the hour, NaN where there is no date; month and weekday (Monday: 1), None where there is
    none."""
    empty, days = np.isnat(dates), dates.astype("datetime64[D]")
    numbers = {"day": (days - np.datetime64("2000-01-01")).astype(np.float64), "hour": (dates - days) / _HOUR}
    counts = {"month": days.astype("datetime64[M]").astype(int) % 12 + 1, "weekday": (days.astype(int) + 3) % 7 + 1}
    return {name: np.where(empty, np.nan, each) for name, each in numbers.items()} | {
        name: np.where(empty, np.array(None), each.astype(str).astype(object)) for name, each in counts.items()
    }


#: NumPy's unit of each window.
WINDOWS = {"day": "D", "week": "W", "month": "M", "year": "Y"}
# NumPy's weeks begin on Thursdays, as 1970 did.
THURSDAY_TO_MONDAY = 3


def split_window(by: str) -> tuple[str, str]:
    window, colon, column = by.partition(":")
    return (window, column) if colon and window in WINDOWS else ("", by)


def time_windows(dates: Sequence[str] | Array, window: str, name: str) -> Array:
    """The first day (month, year) of each date's window; dates begin with YYYY-MM-DD, or all are written in one of the
    other ways that features know (31.12.2024)."""
    texts = np.asarray(dates, dtype=str)
    if (kind := find_kind(texts.astype(object))).startswith("dates %"):
        texts = (
            RawColumns({name: texts.astype(object)}, name, kinds={name: kind})[name].astype("datetime64[D]").astype(str)
        )
    try:
        days = texts.astype("U10").astype("datetime64[D]")
    except ValueError as error:
        raise UnderstudyError(f"column {name!r} holds {_odd(texts)!r}, no date; write dates like 2024-03-07") from error
    if np.isnat(days).any():
        row = int(np.isnat(days).argmax())
        raise UnderstudyError(f"column {name!r} has no date in row {row}; fill it in, or leave the row out")
    if window == "week":
        days = (days + THURSDAY_TO_MONDAY).astype("datetime64[W]").astype("datetime64[D]") - THURSDAY_TO_MONDAY
        return days.astype(str)
    return days.astype(f"datetime64[{WINDOWS[window]}]").astype(str)


def _odd(texts: Array) -> str:
    for text in np.unique(texts).tolist():
        try:
            np.datetime64(text[:10], "D")
        except ValueError:
            return str(text)
    return ""
