"""Days, weeks, months and years as groups of rows, from a column of dates.

split_window("week:created_at")                              # ("week", "created_at"); ("", name) without one
time_windows(["2024-03-07T09:30:00Z"], "week", "created_at")     # ["2024-03-04"]: its Monday
"""

from collections.abc import Sequence

import numpy as np

from understudy.errors import UnderstudyError
from understudy.features.raw_columns import RawColumns, find_kind
from understudy.store.arrow import Array

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
