"""What is quoted of another library's error; lines beside row numbers."""

import re
from unittest import mock

import pytest
import torch

from understudy import errors
from understudy.errors import first_line


def test_the_first_line_says_enough() -> None:
    assert first_line(ValueError("\n  bad magic number.\nand a page more")) == "bad magic number"
    assert first_line(OSError()) == "OSError"
    try:
        torch.nn.Linear(2, 2).load_state_dict({})
    except RuntimeError as error:
        said = first_line(error)
    assert said.startswith("Error(s) in loading state_dict for Linear: Missing key(s)") and "\n" not in said
    assert len(first_line(ValueError("x" * 10_000))) == 200


def test_the_line_is_said_wherever_a_row_of_a_file_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(errors.LINES, "a+b.csv", lambda row: row + 2)
    for text, said in {
        "a+b.csv: column 'x' row 3 is empty": "a+b.csv line 5: column 'x' row 3 is empty",
        "a+b.csv: column 'x': 2 new values (row 3: 'q')": "a+b.csv line 5: column 'x': 2 new values (row 3: 'q')",
        "a+b.csv row 3 is not in p.csv": "a+b.csv line 5 row 3 is not in p.csv",
        "a+b.csv: column 'x' is empty": "a+b.csv: column 'x' is empty",
    }.items():
        assert errors.shown(text) == said


def test_a_message_costs_no_search_for_each_file_that_was_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors, "LINES", {f"file{number}.csv": int for number in range(2_000)})
    with mock.patch.object(errors.re, "search", wraps=re.search) as search:
        assert errors.shown("file7.csv: column 'x' row 3 is empty") == "file7.csv line 3: column 'x' row 3 is empty"
    assert search.call_count == 1


def test_the_ends_of_an_interval() -> None:
    from understudy.store.option_fields import check_interval

    for interval, inside in (("(0, 1]", [0.5, 1]), ("[0, 1)", [0, 0.5]), ("[1, inf)", [1, 10**9])):
        check_interval("f", interval, **{f"x{number}": value for number, value in enumerate(inside)})
    for interval, value in (("(0, 1]", 0), ("[0, 1)", 1), ("[1, inf)", float("inf")), ("[0, 1]", float("nan"))):
        with pytest.raises(errors.UnderstudyError, match=r"f\(x=.*\) must lie in [\[(]"):
            check_interval("f", interval, x=value)
