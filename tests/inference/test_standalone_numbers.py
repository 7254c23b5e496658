"""Columns of numbers in an exported folder: empty cells, columns that never vary, and which cell is refused."""

import math
from typing import Any

import numpy as np
import pytest

from understudy.inference.standalone import ROW, Model, NumberPart

PART: dict[str, Any] = {
    "names": ["a", "b", "c"], "mean": [1.0, 5.0, 2.0], "deviation": [2.0, 0.0, 4.0], "median": [3.0, 7.0, 6.0],
    "gaps": ["c", "a"], "scale": True, "missing": "median",
}  # fmt: skip
MODEL = object.__new__(Model)


def numbers(columns: dict[str, list[Any]], first: int = 0, **changed: Any) -> Any:
    rows = range(first, first + len(columns["a"]))
    return NumberPart(PART | changed, MODEL)({**columns, ROW: rows})


def test_cells_are_scaled_and_empty_ones_filled_and_marked() -> None:
    columns = {"a": [5, None, "0,5"], "b": [9, 5.0, math.inf], "c": ["", 10.0, " 2 "]}
    found = numbers(columns)
    assert found.dtype == np.float32
    # a, b (which never varied), c; then whether a and c were empty.
    assert found.tolist() == [[2, 0, 1, 0, 1], [1, 0, 2, 1, 0], [-0.25, 0, 0, 0, 0]]
    as_they_are = numbers(columns, scale=False, gaps=[])
    assert as_they_are.tolist() == [[5, 9, 6], [3, 5, 10], [0.5, math.inf, 2]]
    by_mean = numbers({"a": [None], "b": [None], "c": [None]}, median=[])
    assert by_mean.tolist() == [[0, 0, 0, 1, 1]]


def test_the_first_column_with_a_bad_cell_is_named_with_its_first_bad_row() -> None:
    columns = {"a": [1.0, 2.0, 3.0], "b": [1.0, 2.0, None], "c": [None, 1.0, 1.0]}
    with pytest.raises(ValueError, match="row 66: 'b' holds no number"):
        numbers(columns, first=64, missing="error")
    with pytest.raises(ValueError, match=r"row 65: 'c' holds \[\], not a number"):
        numbers(columns | {"c": [None, [], "x"]}, first=64)
