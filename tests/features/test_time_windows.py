"""Dates as days, weeks, months and years."""

import numpy as np
import pytest

from understudy.errors import UnderstudyError
from understudy.features.raw_columns import split_window, time_windows


def test_weeks_begin_on_mondays() -> None:
    days = np.datetime64("2023-12-25") + np.arange(21)
    weeks = time_windows(days.astype(str), "week", "day")
    # Python's own calendar: Monday is 0.
    wanted = [(day - np.timedelta64(day.astype(object).weekday(), "D")).astype(str) for day in days]
    assert weeks.tolist() == wanted and weeks[7] == "2024-01-01"


def test_days_months_and_years_of_times() -> None:
    dates = ["2024-03-07T23:59:59Z", "2024-03-08 00:00", "2023-12-31"]
    assert time_windows(dates, "day", "at").tolist() == ["2024-03-07", "2024-03-08", "2023-12-31"]
    assert time_windows(dates, "month", "at").tolist() == ["2024-03", "2024-03", "2023-12"]
    assert time_windows(dates, "year", "at").tolist() == ["2024", "2024", "2023"]


def test_dates_as_spreadsheets_write_them() -> None:
    assert time_windows(["07.03.2024", "31.12.2023"], "month", "at").tolist() == ["2024-03", "2023-12"]
    assert time_windows(["3/31/2024 23:59", "4/1/2024 00:00"], "week", "at").tolist() == ["2024-03-25", "2024-04-01"]
    with pytest.raises(UnderstudyError, match="holds '03/04/2024', no date"):  # of March, or of April
        time_windows(["03/04/2024"], "month", "at")
    with pytest.raises(UnderstudyError, match="no date in row 1"):
        time_windows(["07.03.2024", ""], "month", "at")


def test_a_column_that_is_called_like_a_window_is_a_column() -> None:
    assert split_window("week:created_at") == ("week", "created_at")
    assert split_window("week") == ("", "week") and split_window("a:b") == ("", "a:b")


@pytest.mark.parametrize(("date", "said"), [("07.03.2024", "holds '07.03.2024', no date"), ("", "no date in row 1")])
def test_what_is_no_date_is_refused(date: str, said: str) -> None:
    with pytest.raises(UnderstudyError, match=said):
        time_windows(["2024-03-07", date], "month", "at")
