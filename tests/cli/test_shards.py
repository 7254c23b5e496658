"""``teach``, ``predict`` and ``select`` on folders of shards: what they do with a file, one shard at a time."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from shard_pools import write_pool, write_run
from understudy.cli import app
from understudy.io.table import read_table
from understudy.store.arrow import from_parquet, to_parquet


def understudy(*words: Any, code: int = 0) -> str:
    done = CliRunner().invoke(app, [*map(str, words)])
    assert done.exit_code == code, done.output
    return done.output


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "run", ema=True)
    whole = write_pool(tmp_path / "pool", [30, 20, 1, 29])
    (tmp_path / "pool.parquet").write_bytes(to_parquet(whole))
    return tmp_path


def test_predictions_are_those_of_the_file(folder: Path) -> None:
    said = understudy("predict", "run", "pool", "--out", "shards", "--quiet")
    assert said.splitlines()[-1] == "80 predictions: shards"
    assert said.splitlines()[0] == understudy("predict", "run", "pool.parquet", "--out", "one.parquet").splitlines()[0]
    shards, one = read_table("shards").columns, from_parquet(folder / "one.parquet")
    assert list(shards["id"]) == list(one["id"]) and list(shards["label"]) == list(one["label"])
    assert np.allclose(shards["probabilities"], one["probabilities"], atol=1e-6)
    assert "is unchanged: 5 files" in understudy("verify", "shards")
    # Asked again, there is nothing left to do; other rows would be another pass.
    understudy("predict", "run", "pool", "--out", "shards", "--quiet")
    assert "another function" in understudy("predict", "run", "pool", "--out", "shards", "--batch-size", 7, code=2)


def test_a_labelled_pool_is_one_to_train_on(folder: Path) -> None:
    understudy("teach", "run", "pool", "--out", "labelled", "--quiet")
    made, given = read_table("labelled"), read_table("pool")
    assert tuple(made.names) == ("id", "x", "label", "teacher_gold", "teacher_probs")
    assert np.array_equal(made.columns["x"], given.columns["x"])
    understudy("predict", "run", "pool", "--out", "shards", "--quiet")
    assert np.array_equal(made.columns["teacher_probs"], read_table("shards").columns["probabilities"])
    (folder / "gold.parquet").write_bytes(to_parquet({name: given.columns[name][:30] for name in ("id", "label")}))
    told = ["--student", "linear", "--epochs", 1, "--method", "vanilla", "--quiet"]
    understudy("train", "--gold", "gold.parquet", "--pool", "labelled", "--out", "second", *told)


def test_encoded_shards_are_those_of_the_file(folder: Path) -> None:
    assert understudy("encode", "run", "pool", "--out", "encoded", "--quiet").endswith("80 rows encoded: encoded\n")
    understudy("encode", "run", "pool.parquet", "--out", "one.parquet")
    shards, one = read_table("encoded").columns, read_table("one.parquet").columns
    assert list(shards["id"]) == list(one["id"]) and np.array_equal(shards["x"], one["x"])
    assert "for folders of shards" in understudy(
        "encode", "run", "pool.parquet", "--out", "a.npz", "--ray", "x", code=2
    )


def test_the_best_classes_alone(folder: Path) -> None:
    understudy("teach", "run", "pool", "--out", "best", "--top", 2, "--labels-only", "--workers", 2, "--quiet")
    made = read_table("best")
    assert tuple(made.names)[:4] == ("id", "teacher_gold", "teacher_topk_index", "teacher_topk_prob")
    understudy("teach", "run", "pool.parquet", "--out", "best.parquet", "--top", 2, "--labels-only")
    assert np.array_equal(
        made.columns["teacher_topk_index"], from_parquet(folder / "best.parquet")["teacher_topk_index"]
    )


@pytest.mark.parametrize("strategy", ["badge", "lhd", "coreset", "margin", "random"])
def test_picks_are_those_of_the_file(strategy: str, folder: Path) -> None:
    given = read_table("pool").columns
    labelled = np.array([3, 31, 50, 70])
    (folder / "gold.parquet").write_bytes(to_parquet({"id": given["id"][labelled], "label": given["label"][labelled]}))
    told = ["--strategy", strategy, "-n", 12, "--labelled", "gold.parquet", "--seed", 4]
    said = [
        understudy("select", "run", pool, *told, "--out", out, *more)
        for pool, out, more in (("pool", "shards.csv", ["--quiet"]), ("pool.parquet", "one.csv", []))
    ]
    shards, one = (Path(name).read_text().splitlines() for name in ("shards.csv", "one.csv"))
    assert [line.split(",")[0] for line in shards] == [line.split(",")[0] for line in one]
    assert not {line.split(",")[0] for line in shards} & set(given["id"][labelled])
    assert "regions where labels look random" in said[0] and not Path("shards.scores").exists()


def test_rows_with_a_label_in_the_pool_are_left_out(folder: Path) -> None:
    write_pool(folder / "some", [10, 10], label=np.array([0, 1, 2] * 4 + [-1] * 8))
    said = understudy("select", "run", "some", "-n", 8, "--out", "a.csv", "--labelled", "some", "--quiet")
    assert {line.split(",")[0] for line in Path("a.csv").read_text().splitlines()[1:]} == {
        f"r{n}" for n in range(12, 20)
    }
    assert "n = 9, but 8 of 20" in understudy(
        "select", "run", "some", "-n", 9, "--out", "b.csv", "--labelled", "some", code=2
    )
    alone = understudy("select", "run", "some", "-n", 8, "--out", "c.csv", "--quiet")
    assert Path("c.csv").read_text() == Path("a.csv").read_text(), said
    assert "12 rows left out: some" in alone and "column 'label' has a label of them" in alone


def test_what_is_refused(folder: Path) -> None:
    assert "--workers is for folders of shards" in understudy("predict", "run", "pool.parquet", "--workers", 2, code=2)
    (folder / "empty").mkdir()
    assert "no folder of .parquet shards" in understudy("predict", "run", "empty", "--out", "new", code=2)
    assert "nowhere is not there" in understudy("teach", "run", "nowhere", "--out", "new", code=2)
    (folder / "gold.csv").write_text("id,label\nr3 ,1\n")
    told = ["select", "run", "pool", "-n", 3, "--labelled", "gold.csv", "--out", "b.csv", "--quiet"]
    assert "spaces" in understudy(*told, code=2)
    twice = np.array(["a", "b", "c", "a"], dtype=object)
    write_pool(folder / "twice", [2, 2], id=twice)
    (folder / "gold.csv").write_text("id,label\na,1\n")
    told[2] = "twice"
    assert "two shards hold id 'a'" in understudy(*told, code=2)
