"""Kept and loaded again: the same bits, and damage is noticed."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from understudy.data.inputs import as_rows
from understudy.errors import UnderstudyError, UnderstudyWarning
from understudy.features.featuriser import FeatureOptions, Featuriser


@pytest.fixture
def columns(rng: np.random.Generator) -> dict[str, Any]:
    image = io.BytesIO()
    pytest.importorskip("PIL.Image").fromarray(rng.integers(0, 255, (6, 5), dtype=np.uint8)).save(image, "PNG")
    pictures = np.empty(40, dtype=object)
    pictures[:] = [image.getvalue()] * 40
    words = rng.choice(["gut", "schlecht", "Übung", "film", "日本語", "ñandú"], size=(40, 6))
    return {
        "id": np.arange(40),
        "n": rng.normal(size=40) * 1e-7 + 1 / 3,
        "m": rng.integers(0, 10**12, size=40),
        "c": rng.choice(["a", "é", ""], size=40),
        "b": rng.random(40) < 0.5,
        "text": np.array([" ".join(row) for row in words], dtype=object),
        "picture": pictures,
        "x": rng.normal(size=(40, 3)).astype(np.float16),
    }


REQUESTS = {
    "array": FeatureOptions(),
    "numbers": FeatureOptions(columns=("n", "m")),
    "unscaled": FeatureOptions(columns=("n",), scale=False),
    "categories": FeatureOptions(columns=("c", "b")),
    "text": FeatureOptions(text="text"),
    "image": FeatureOptions(image="picture"),
    "all": FeatureOptions(text="text", columns=("n", "c", "b", "m", "x")),
}


def _dense(x: Any) -> torch.Tensor:
    rows = as_rows(x, "x")
    return rows.take(torch.arange(len(rows)))


@pytest.mark.parametrize("name", REQUESTS)
def test_the_same_bits_after_loading(columns: dict[str, Any], tmp_path: Path, name: str) -> None:
    train, new = ({key: column[part] for key, column in columns.items()} for part in (slice(30), slice(30, 40)))
    fitted = Featuriser.fit(train, REQUESTS[name], where="t")
    fitted.save(tmp_path)
    loaded = Featuriser.load(tmp_path)
    assert loaded.names == fitted.names and loaded.shape == fitted.shape
    x = _dense(fitted(new, where="t"))
    assert x.shape == (10, *fitted.shape) and x.dtype == torch.float32
    assert _dense(loaded(new, where="t")).equal(x)
    assert not [path for path in tmp_path.iterdir() if not path.name.startswith("features.")]
    # Saved again it is the same file.
    before = (tmp_path / "features.json").read_bytes()
    loaded.save(tmp_path)
    assert (tmp_path / "features.json").read_bytes() == before


def test_rows_do_not_depend_on_their_neighbours(columns: dict[str, Any]) -> None:
    fitted = Featuriser.fit(columns, REQUESTS["all"], where="t")
    x = _dense(fitted(columns, where="t"))
    alone = _dense(fitted({key: column[7:8] for key, column in columns.items()}, where="t"))
    assert alone.equal(x[7:8])


@pytest.mark.parametrize("name", REQUESTS)
def test_damaged_files_are_noticed(
    columns: dict[str, Any], tmp_path: Path, name: str, rng: np.random.Generator
) -> None:
    fitted = Featuriser.fit(columns, REQUESTS[name], where="t")
    fitted.save(tmp_path)
    for path in sorted(tmp_path.iterdir()):
        whole = path.read_bytes()
        for _ in range(30):
            damaged = bytearray(whole)
            damaged[rng.integers(len(damaged))] ^= 1 << int(rng.integers(7))
            _refused_or_same(tmp_path, path, bytes(damaged), fitted)
            _refused_or_same(tmp_path, path, whole[: rng.integers(len(whole))], fitted)
        path.write_bytes(whole)


def _refused_or_same(folder: Path, path: Path, content: bytes, fitted: Featuriser) -> None:
    """A flipped bit in the white space of the JSON does no harm; anything else is an error of one line."""
    path.write_bytes(content)
    try:
        loaded = Featuriser.load(folder)
    except UnderstudyError as error:
        assert "\n" not in str(error)
    else:
        assert [part.values() for part in loaded.parts] == [part.values() for part in fitted.parts]


@pytest.mark.parametrize("content", ["", "null", "[]", "{}", '{"parts": 3}', '{"format": 1, "parts": [{}]}', "\ufeff{"])
def test_other_json_is_an_error(tmp_path: Path, content: str) -> None:
    (tmp_path / "features.json").write_text(content, encoding="utf-8")
    with pytest.raises(UnderstudyError, match=r"features\.json"):
        Featuriser.load(tmp_path)


def test_other_formats_and_missing_files_are_errors(columns: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(UnderstudyError, match=r"cannot read .*features\.json"):
        Featuriser.load(tmp_path)
    Featuriser.fit(columns, REQUESTS["text"], where="t").save(tmp_path)
    stored = json.loads((tmp_path / "features.json").read_text())
    (tmp_path / "features.json").write_text(json.dumps({**stored, "format": 2}))
    with pytest.raises(UnderstudyError, match="is of format 2, this version reads 1"):
        Featuriser.load(tmp_path)
    (tmp_path / "features.json").write_text(json.dumps(stored))
    (tmp_path / "features.safetensors").unlink()
    with pytest.raises(UnderstudyError, match=r"features\.safetensors cannot be read .* train again"):
        Featuriser.load(tmp_path)


def test_columns_beside_a_text_are_together_as_long_as_the_text() -> None:
    texts = ["red red", "green", "red blue", "blue green"] * 30
    columns = {"text": np.array(texts, object), "n": np.array([1.0, 3.0] * 60), "c": np.array(["u", "v"] * 60, object)}
    fitted = Featuriser.fit(columns, FeatureOptions(text="text", columns=("n", "c")), where="pool")
    # Rows of TF-IDF have length 1; the number is ±1 and the category a 1: 2 in the square.
    assert fitted.beside == pytest.approx(0.5**0.5)
    assert np.allclose(_dense(fitted(columns, where="pool"))[:, -3:].abs().sum(1).numpy(), 2 * 0.5**0.5)
    assert Featuriser.fit(columns, FeatureOptions(columns=("n", "c")), where="pool").beside == 1


def test_numbers_with_a_sign_are_named() -> None:
    columns = {"n": np.arange(4.0), "use": np.array(["45%", "7 %"] * 2, object)}
    with pytest.warns(UnderstudyWarning, match="'use': '45%' is a number and a sign, so it is a category"):
        Featuriser.fit(columns, FeatureOptions(), where="pool")
