"""Columns of numbers and of categories, and which columns become which."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.impute import SimpleImputer

from understudy.errors import UnderstudyError, UnderstudyWarning
from understudy.features.featuriser import FeatureOptions, Featuriser


def _texts(*values: str) -> np.ndarray[Any, Any]:
    return np.array(values, dtype=object)


def _fit(columns: dict[str, Any], /, **request: Any) -> Featuriser:
    return Featuriser.fit(columns, FeatureOptions(**request), where="train.csv")


def test_scaling_by_hand() -> None:
    # mean 3, deviations −2, 0, 2: population deviation √(8/3).
    columns = {"age": np.array([1, 3, 5])}
    fitted = _fit(columns)
    step = 2 / np.sqrt(8 / 3)
    np.testing.assert_allclose(fitted(columns, where=""), [[-step], [0], [step]], rtol=1e-6)
    # New rows are scaled by what training saw, not by themselves.
    np.testing.assert_allclose(fitted({"age": np.array([7.0])}, where=""), [[2 * step]], rtol=1e-6)


def test_scaling_as_scikit_learn_scales(rng: np.random.Generator) -> None:
    from sklearn.preprocessing import StandardScaler

    # Seconds since 1970: the deviation is a millionth of the mean.
    columns = {"a": rng.normal(size=500), "time": 1.7e9 + rng.normal(size=500) * 1e3}
    wanted = StandardScaler().fit_transform(np.stack(list(columns.values()), 1))
    np.testing.assert_allclose(_fit(columns)(columns, where=""), wanted, atol=1e-6)


def test_a_constant_column_is_zero() -> None:
    # The mean of ten times 0.3 is not 0.3 in floating point: the computed deviation is not 0 either.
    columns = {"same": np.full(10, 0.3), "other": np.arange(10.0)}
    fitted = _fit(columns)
    assert (fitted(columns, where="")[:, 0] == 0).all()
    assert fitted({"same": np.array([5.0]), "other": np.array([4.5])}, where="").tolist() == [[0, 0]]


def test_without_scaling_values_stay() -> None:
    columns = {"a": np.array([1.5, -2]), "b": np.array([3, 4], dtype=np.int8)}
    x = _fit(columns, scale=False)(columns, where="")
    assert x.dtype == np.float32 and x.tolist() == [[1.5, 3], [-2, 4]]


def test_missing_numbers_say_where() -> None:
    columns = {"age": np.array([1.0, np.nan, 3.0])}
    with pytest.raises(UnderstudyError, match=r"train\.csv: column 'age' row 1 holds no number .*--missing median"):
        _fit(columns, missing="error")
    fitted = _fit(columns)
    with pytest.raises(UnderstudyError, match=r"new\.csv: column 'age' row 0 holds infinity"):
        fitted({"age": np.array([np.inf])}, where="new.csv")
    with pytest.raises(UnderstudyError, match=r"column 'age' holds nothing; leave it out"):
        _fit({"age": np.full(3, np.nan)}, columns=("age",))


def test_missing_numbers_become_the_median_beside_an_indicator(tmp_path: Path) -> None:
    # By hand: of 20, 40 and 90 the mean is 50, the deviation √((30² + 10² + 40²) / 3), the median 40.
    columns = {"age": np.array([20.0, np.nan, 40.0, 90.0]), "full": np.array([1, 2, 3, 4])}
    fitted = _fit(columns)
    deviation = (2600 / 3) ** 0.5
    x = fitted(columns, where="")
    np.testing.assert_allclose(x[:, 0], [-30 / deviation, -10 / deviation, -10 / deviation, 40 / deviation], rtol=1e-6)
    assert x[:, 2].tolist() == [0, 1, 0, 0] and fitted.shape == (3,)
    assert fitted.notes() == ["empty cells become the training median ('age' 40), marked by a column each"]
    # As scikit-learn imputes and marks, whatever the scale.
    impute = SimpleImputer(strategy="median", add_indicator=True)
    theirs = impute.fit_transform(np.stack([columns["age"], columns["full"]], axis=1))
    np.testing.assert_array_equal(_fit(columns, scale=False)(columns, where=""), theirs)
    # A run does the same with another file, and says what training has not seen.
    fitted.save(tmp_path)
    with pytest.warns(UnderstudyWarning, match=r"'full': 1 of 2 cells are empty, none was in training; .* median 2\.5"):
        new = Featuriser.load(tmp_path)({"age": np.array([20.0, np.nan]), "full": np.array([np.nan, 2.5])}, where="new")
    np.testing.assert_allclose(new, [[-30 / deviation, 0, 0], [-10 / deviation, 0, 1]], rtol=1e-6)


def test_numbers_beyond_float32() -> None:
    with pytest.raises(UnderstudyError, match="row 1 is too large for float32"):
        _fit({"a": np.array([0, 1e100])}, scale=False)({"a": np.array([0, 1e100])}, where="")
    with pytest.raises(UnderstudyError, match="'a' holds numbers too large to scale"):
        _fit({"a": np.array([0, 1e300])})


def test_categories_by_hand() -> None:
    columns = {"colour": _texts("red", "blue", "red", "blue"), "old": np.array([True, False, False, True])}
    fitted = _fit(columns)
    assert fitted.shape == (4,)
    # blue, red | False, True
    assert fitted(columns, where="").tolist() == [[0, 1, 0, 1], [1, 0, 1, 0], [0, 1, 1, 0], [1, 0, 0, 1]]


def test_unknown_categories_are_zero_and_counted() -> None:
    fitted = _fit({"colour": _texts("red", "blue", "red", "blue")})
    new = {"colour": np.array(["green", "red", "RED"])}
    with pytest.warns(UnderstudyWarning, match=r"2 of 3 rows hold a value .* \(row 0: 'green'\)"):
        x = fitted(new, where="new.csv")
    assert x.tolist() == [[0, 0], [0, 1], [0, 0]]


@pytest.mark.parametrize("first", [1, 150])
def test_an_empty_category_is_a_value_wherever_it_stands(first: int) -> None:
    values: list[Any] = ["a", "b"] * 100
    values[first] = None
    columns = {"job": np.array(values, dtype=object), "n": np.arange(200.0)}
    fitted = _fit(columns, scale=False)
    assert fitted.names == ("n", "job")
    found = fitted(columns, where="")
    assert found[first].tolist() == [first, 1, 0, 0] and found[0].tolist() == [0, 0, 1, 0]
    # As the same column is in CSV.
    written = {**columns, "job": np.array(["" if value is None else value for value in values], dtype=object)}
    assert (fitted(written, where="") == found).all()
    with pytest.raises(UnderstudyError, match=f"row {first} holds nothing, not a text"):
        _fit(columns, text="job")


def test_categories_as_scikit_learn_encodes_them(rng: np.random.Generator) -> None:
    from sklearn.preprocessing import OneHotEncoder

    column = rng.choice(["ä", "z", "Z", "", "日本"], size=60)
    wanted = OneHotEncoder(sparse_output=False).fit_transform(column[:, None])
    assert (_fit({"c": column})({"c": column}, where="") == wanted).all()


def test_too_many_values_are_no_category() -> None:
    names = np.array([f"name {number}" for number in range(300)])
    columns = {"name": names, "age": np.arange(300)}
    with pytest.warns(UnderstudyWarning, match=r"'name' left out.*; say --text 'name' to use it"):
        assert _fit(columns).names == ("age",)
    with pytest.warns(UnderstudyWarning, match="left out.*; name a column of texts by --text, one of ids by --id"):
        assert _fit({**columns, "name": np.array([f"name{number}" for number in range(300)])}).names == ("age",)
    with pytest.raises(UnderstudyError, match=r"300 distinct values, more than the 100 of a category.*--text"):
        _fit(columns, columns=("name",))
    with pytest.raises(UnderstudyError, match=r"has no features.*'name' could be the text"):
        _fit({"name": names})
    assert _fit(columns, columns=("name",), max_categories=300).shape == (300,)


def test_a_kind_decided_in_training_stays() -> None:
    with pytest.raises(UnderstudyError, match=r"new\.csv: column 'age' holds texts; it must hold numbers"):
        _fit({"age": np.array([1, 2])})({"age": _texts("1", "2")}, where="new.csv")
    with pytest.raises(UnderstudyError, match="holds whole numbers; it must hold one text per row"):
        _fit({"zip": _texts("1", "2", "1", "2")})({"zip": np.array([1, 2])}, where="new.csv")
    with pytest.raises(UnderstudyError, match=r"new\.csv has no column 'age', which is a feature"):
        _fit({"age": np.array([1, 2])})({"height": np.array([1, 2])}, where="new.csv")
    with pytest.warns(UnderstudyWarning, match="1 of 2 rows hold a value that training did not know .row 1: ''"):
        _fit({"zip": _texts("1", "2", "1", "2")})({"zip": np.array(["1", None], dtype=object)}, where="new.csv")


def test_reserved_columns_are_never_features() -> None:
    columns = {"id": np.arange(3), "label": np.arange(3), "teacher_label": np.arange(3), "age": np.arange(3)}
    assert _fit(columns).names == ("age",)
    for name in ("id", "label", "teacher_probs"):
        with pytest.raises(UnderstudyError, match="cannot be a feature"):
            _fit({**columns, "teacher_probs": np.ones((3, 2))}, columns=("age", name))


def test_x_is_passed_through(tmp_path: Any) -> None:
    x = np.memmap(tmp_path / "x", dtype=np.float16, mode="w+", shape=(5, 2, 3))
    columns = {"x": x, "age": np.arange(5)}
    fitted = _fit(columns)
    assert fitted.names == ("x",) and fitted.shape == (2, 3)
    assert fitted(columns, where="") is x
    with pytest.raises(UnderstudyError, match=r"rows of shape \(4,\), but \(2, 3\) in training"):
        fitted({"x": np.zeros((2, 4))}, where="new.npz")


def test_several_kinds_side_by_side() -> None:
    columns = {"c": _texts("a", "b", "a", "b"), "n": np.array([1.0, 2, 3, 4]), "x": np.arange(8).reshape(4, 2)}
    fitted = _fit(columns, columns=("c", "n", "x"), scale=False)
    assert fitted.shape == (5,)
    # Arrays, then numbers, then categories, whatever the order they were named in.
    assert fitted(columns, where="")[1].tolist() == [2, 3, 2, 0, 1]


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"text": "a", "image": "b"}, "from a text or from an image"),
        ({"image": "b", "columns": ("c",)}, "whole input"),
        ({"missing": "zero"}, "choose one of median, error"),
        ({"image_mode": "RGBA"}, "choose one of L, RGB"),
        ({"max_terms": 0}, "max_terms is 0"),
        ({"image_size": (0, 5)}, "image_size is 0"),
    ],
)
def test_impossible_requests(request_: dict[str, Any], message: str) -> None:
    with pytest.raises(UnderstudyError, match=message):
        FeatureOptions(**request_)
