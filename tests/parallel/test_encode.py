"""Features made once: what a featuriser fitted on the whole makes of each shard, beside the columns that are none."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import understudy as us
from understudy.features.featuriser import FeatureOptions, Featuriser
from understudy.io.gold_pool import features_of
from understudy.io.table import read_table
from understudy.parallel.run_on_file import Encode
from understudy.store.arrow import to_parquet


def write_texts(folder: Path) -> dict[str, Any]:
    words = np.array(["red", "green", "blue", "stone", "river"])
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(words, rng.integers(1, 6))) for _ in range(12)]
    columns = {
        "id": np.array([f"r{row}" for row in range(12)], dtype=object), "text": np.array(texts, dtype=object),
        "stars": rng.normal(size=12), "teacher_label": rng.integers(0, 2, 12), "note": np.array(list("abcdefghijkl")),
    }  # fmt: skip
    folder.mkdir()
    for number, rows in enumerate((slice(0, 7), slice(7, 8), slice(8, 12))):
        part = {name: column[rows] for name, column in columns.items()}
        (folder / f"{number}.parquet").write_bytes(to_parquet(part))
    return columns


def test_encoded_shards_are_the_features_of_the_whole(tmp_path: Path) -> None:
    columns = write_texts(tmp_path / "pool")
    options = FeatureOptions(text="text", columns=("stars",))
    featuriser = Featuriser.fit(columns, options, where="pool")
    us.map_shards(Encode(featuriser), tmp_path / "pool", tmp_path / "encoded", workers=2, progress=False)
    made = read_table(tmp_path / "encoded")
    rows = features_of(read_table(tmp_path / "pool"), featuriser)
    expected: Any = rows.take(torch.arange(12))
    assert made.columns["x"].shape == (12, *featuriser.shape) and np.array_equal(made.columns["x"], expected.numpy())
    assert set(made.names) == {"id", "x", "teacher_label", "note"}, "what is a feature now is not there twice"
    assert all(made.columns[name].tolist() == columns[name].tolist() for name in ("id", "teacher_label", "note"))


def test_texts_that_the_student_reads_are_not_encoded(tmp_path: Path) -> None:
    columns = write_texts(tmp_path / "pool")
    featuriser = Featuriser.fit(columns, FeatureOptions(text="text", encoder="student"), where="pool")
    with pytest.raises(us.UnderstudyError, match="nothing to encode"):
        us.map_shards(Encode(featuriser), tmp_path / "pool", tmp_path / "encoded", progress=False)
