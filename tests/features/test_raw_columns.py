"""What columns hold: dates and truth values however they are written, and the names of columns that are not there."""

import warnings
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from understudy.errors import UnderstudyError, UnderstudyWarning
from understudy.features.featuriser import FeatureOptions, Featuriser
from understudy.features.raw_columns import RawColumns, column_kind, date_parts, find_kind, no_column
from understudy.io.read import read_examples
from understudy.io.table import read_table

DAYS = [datetime(2024, 2, 28) + timedelta(days=7.3 * step) for step in range(30)]


def _texts(*values: Any) -> np.ndarray[Any, Any]:
    return np.array([*values, None], dtype=object)[:-1]


def _fit(columns: dict[str, Any], **request: Any) -> Featuriser:
    return Featuriser.fit(columns, FeatureOptions(**request), where="train.csv")


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["2024-01-31", "2024-02-01"], "dates ISO"),
        (["2024-01-31T10:00:00", None], "dates ISO"),
        (["2024-01-31T10:00:00.25Z", "2024-01-31T10:00:00+02:00"], "dates ISO"),
        (["31.12.2024", "1.2.2025"], "dates %d.%m.%Y"),
        (["31/12/2024", "01/02/2025"], "dates %d/%m/%Y"),
        (["12/31/2024 23:59", "01/02/2025 00:00"], "dates %m/%d/%Y %H:%M"),
        # The day or the month first; a year of two digits; a day that is none; not all of them.
        (["03/04/2025", "05/06/2025"], "texts"),
        (["31.12.24", "01.02.25"], "texts"),
        (["31.02.2024", "01.02.2024"], "texts"),
        (["2024-01-31", "later"], "texts"),
        ([*["2024-01-31"] * 150, "later"], "texts"),
        (["Yes", "no", "", None], "flags"),
        (["TRUE", "false "], "flags"),
        (["yes", "no", "maybe"], "texts"),
        (["yes", "true"], "texts"),
        ([True, None, False], "flags"),
        ([None, None], "other"),
        (["", " "], "texts"),
    ],
)
def test_what_a_column_holds(values: list[Any], kind: str) -> None:
    assert find_kind(_texts(*values)) == kind


def test_parts_of_dates_by_hand_and_as_the_standard_library_has_them() -> None:
    # 2024-02-29 is a Thursday, 8,825 days after 2000-01-01 (24 years of 365, 6 leap days, 31 + 28 days).
    parts = date_parts(np.array(["2024-02-29T18:30", "NaT"], dtype="datetime64[s]"))
    assert 24 * 365 + 6 + 31 + 28 == 8825
    assert [parts[name][0] for name in ("day", "hour", "month", "weekday")] == [8825, 18.5, "2", "4"]
    assert np.isnan(parts["day"][1]) and np.isnan(parts["hour"][1]) and parts["month"][1] is parts["weekday"][1] is None
    many = [datetime(1965, 1, 1) + timedelta(days=311.17 * step) for step in range(100)]
    parts = date_parts(np.array(many, dtype="datetime64[us]"))
    assert parts["month"].tolist() == [str(day.month) for day in many]
    assert parts["weekday"].tolist() == [str(day.isoweekday()) for day in many]
    assert parts["day"].tolist() == [(day - datetime(2000, 1, 1)).days for day in many]


@pytest.mark.parametrize("written", ["%Y-%m-%d %H:%M:%S", "%d.%m.%Y %H:%M:%S", "%m/%d/%Y %H:%M:%S", None])
def test_dates_become_the_same_features_however_they_are_written(written: str | None, tmp_path: Path) -> None:
    plain = np.array(DAYS, dtype="datetime64[s]")
    given = plain if written is None else _texts(*(f"{day:{written}}" for day in DAYS))
    fitted = _fit({"joined": given})
    shown = "" if written is None else " ISO" if written.startswith("%Y") else f" {written}"
    assert fitted.names == ("joined",)
    assert fitted.notes() == [f"dates ('joined'{shown}) become day, hour, month, weekday"]
    x = fitted({"joined": given}, where="")
    np.testing.assert_array_equal(x, _fit({"joined": plain})({"joined": plain}, where=""))
    days = np.array([(day.date() - DAYS[0].date()).days for day in DAYS])
    np.testing.assert_allclose(x[:, 0], (days - days.mean()) / days.std(), rtol=1e-5, atol=1e-6)
    assert fitted.shape == (2 + len({day.month for day in DAYS}) + 7,)
    # Another file may have typed dates, or gaps; not another way of writing.
    fitted.save(tmp_path)
    loaded = Featuriser.load(tmp_path)
    np.testing.assert_array_equal(loaded({"joined": plain[:3]}, where=""), x[:3])
    np.testing.assert_array_equal(loaded({"joined": _texts(*map(str, plain[:3]))}, where=""), x[:3])
    if written is not None:
        np.testing.assert_array_equal(loaded({"joined": given[:3]}, where=""), x[:3])
    with pytest.raises(
        UnderstudyError, match=r"new: column 'joined' row 1 is '31st'; write dates as in training, like"
    ):
        loaded({"joined": _texts("", "31st")}, where="new")
    with pytest.raises(UnderstudyError, match="it held dates in training"):
        loaded({"joined": np.array([1.0])}, where="new")


def test_dates_without_times_and_with_gaps() -> None:
    given = {"joined": np.array(["2024-01-01", "NaT", "2024-03-01", "2024-03-08"], dtype="datetime64[D]")}
    x = _fit(given)(given, where="")
    # day, whether it is empty; month "", 1, 3; weekday "", Monday, Friday.
    assert x.shape == (4, 2 + 3 + 3) and x[:, 1].tolist() == [0, 1, 0, 0]
    assert x[:, 2:].tolist() == [[0, 1, 0, 0, 1, 0], [1, 0, 0, 1, 0, 0], [0, 0, 1, 0, 0, 1], [0, 0, 1, 0, 0, 1]]


def test_truth_values_are_the_same_however_they_are_written() -> None:
    ways = [
        np.array([True, False, True, False]),
        _texts("yes", "No", "yes ", "no"),
        _texts("true", "FALSE", "True", "false"),
    ]
    fits = [_fit({"ok": way}) for way in ways]
    assert all(fitted.types == {"ok": "flags"} for fitted in fits)
    for fitted in fits:
        for way in (*ways, np.array([1, 0, 1, 0]), _texts("1", "0", "1", "0")):
            assert fitted({"ok": way}, where="").tolist() == [[0, 1], [1, 0]] * 2
        with pytest.raises(UnderstudyError, match="row 1 is 'maybe', but training had true and false"):
            fitted({"ok": _texts("yes", "maybe")}, where="")
    gaps = _texts(True, None, False, True)
    assert column_kind(gaps) == "flags"
    assert _fit({"ok": gaps})({"ok": gaps}, where="").tolist() == [[0, 0, 1], [1, 0, 0], [0, 1, 0], [0, 0, 1]]


def test_empty_columns_are_left_out_and_named() -> None:
    numbers = np.arange(4.0)
    columns = {"n": numbers, "a": np.full(4, np.nan), "b": _texts(*[None] * 4), "c": _texts("", " ", "", "")}
    with pytest.warns(UnderstudyWarning, match=r"train\.csv: 'a', 'b', 'c' not used: empty in every row"):
        assert _fit(columns).names == ("n",)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (["1", "2", "3", "4", "1", "?"] * 2, "holds numbers and '?', so it is a category; leave such cells empty, "),
        (["1,5", "80,25", "3", "4.100,75", "1", "k. A."] * 2, "holds numbers and 'k. A.', so it is a category; leave "),
        ([f"{n}/3/2025" for n in range(1, 13)], "'1/3/2025' may be a day or a month first, so it is left out; say "),
    ],
)  # fmt: skip
def test_what_looks_like_numbers_or_dates_and_is_not_is_said(values: list[str], said: str) -> None:
    with pytest.warns(UnderstudyWarning) as caught:
        _fit({"c": _texts(*values), "n": np.arange(12.0)})
    assert any(said in str(each.message) for each in caught)
    with warnings.catch_warnings(record=True) as other:
        warnings.simplefilter("always")
        _fit({"c": _texts(*values), "n": np.arange(12.0)}, types={"c": "text"})
    assert not any(said in str(each.message) for each in other)


def test_a_named_column_that_is_nearly_numbers_is_said_before_it_is_refused() -> None:
    cells = [f"{n},25" for n in range(120)] + ["n/a"]
    with (
        pytest.warns(UnderstudyWarning, match="holds numbers and 'n/a'"),
        pytest.raises(UnderstudyError, match="121 distinct values"),
    ):
        Featuriser.fit({"price": _texts(*cells)}, FeatureOptions(columns=("price",)), where="train.csv")


def test_dates_alone_do_not_stand_for_a_table_with_texts() -> None:
    texts = _texts(*(f"a sentence of its own {n}" for n in range(30)))
    with pytest.raises(UnderstudyError, match=r"has no features.*'message' could be the text \(--text\)"):
        _fit({"message": texts, "joined": np.array(DAYS, dtype="datetime64[s]")})


def test_a_wrong_name_is_answered_with_the_right_ones() -> None:
    wrong = "a.csv has no column 'mesage'; did you mean 'Message'? it has 'id', 'Message'"
    assert str(no_column("a.csv", "mesage", ["id", "Message"])) == wrong
    assert str(no_column("a.csv", "x", map(str, range(30)))).endswith("'18', '19' … (30)")
    with pytest.raises(
        UnderstudyError, match=r"new\.csv has no column 'age', which is a feature; did you mean 'Age'\?"
    ):
        RawColumns({"Age": np.arange(3)}, "new.csv")["age"]


@pytest.mark.parametrize(
    ("cells", "kind", "found"),
    [
        ("20240131 20240201", "date", ["2024-01-31", "2024-02-01"]),
        ("03/04/2024 05/06/2024", "date:%d/%m/%Y", ["2024-04-03", "2024-06-05"]),
        ("03/04/2024 05/06/2024", "date:%m/%d/%Y", ["2024-03-04", "2024-05-06"]),
        ("03-Jan-24 04-Feb-24", "date:%d-%b-%y", ["2024-01-03", "2024-02-04"]),
        ("2024-01-31 2024-02-01", "date", ["2024-01-31", "2024-02-01"]),
    ],
)
def test_a_column_is_dates_where_the_user_says_so(cells: str, kind: str, found: list[str], tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("joined,label\n" + "".join(f"{cell},{i}\n" for i, cell in enumerate(cells.split())))
    options = FeatureOptions(types={"joined": kind})
    featuriser = read_examples(gold=tmp_path / "a.csv", features=options).featuriser
    again = read_table(tmp_path / "a.csv")
    again.expect(featuriser.types)
    raw = RawColumns(again.columns, "a.csv", kinds=featuriser.types)
    assert raw["joined"].astype("datetime64[D]").astype(str).tolist() == found and featuriser.names == ("joined",)


def test_dates_with_two_readings_or_none_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("joined,label\n03/04/2024,0\n05/06/2024,1\n")
    for kind, said in {
        "date": r"'03/04/2024' is a date in 2 ways; say how they are written, e.g. --types NAME=date:%d/%m/%Y",
        "date:%Y": r"column 'joined' has no dates like %Y; say how",
        "time": "type 'time' of column 'joined' is unknown; use one of text, number, date",
    }.items():
        with pytest.raises(UnderstudyError, match=said):
            read_examples(gold=tmp_path / "a.csv", features=FeatureOptions(types={"joined": kind}))
