"""Commands on shards at an address give the bits of local ones; in memory, since only the file system is not S3's."""

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import understudy as us
from shard_pools import write_pool, write_run
from understudy.cli import app
from understudy.io.table import read_table
from understudy.store.arrow import to_parquet


def understudy(*words: Any, code: int = 0) -> str:
    done = CliRunner().invoke(app, [*map(str, words)])
    assert done.exit_code == code, done.output
    return done.output


@pytest.fixture
def bucket(memory: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A run and a pool, here and there."""
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "run")
    write_pool(tmp_path / "pool", [30, 1, 29])
    for name in ("run", "pool"):
        memory.put(str(tmp_path / name), f"/bucket/{name}", recursive=True)
    return memory


def test_shards_are_taught_audited_and_selected_from(bucket: Any) -> None:
    there = "memory://bucket"
    said = understudy("teach", f"{there}/run", f"{there}/pool", "--out", f"{there}/labelled", "--quiet")
    assert said.splitlines()[-1] == f"60 rows labelled: {there}/labelled"
    understudy("teach", "run", "pool", "--out", "labelled", "--quiet")
    assert len(bucket.find("/bucket/labelled")) == 4, "three shards and what was passed over"
    for file in Path("labelled").glob("*.parquet"):
        assert bucket.cat_file(f"/bucket/labelled/{file.name}") == file.read_bytes()
    assert "is unchanged: 4 files" in understudy("verify", f"{there}/labelled")

    some = {name: column[:20] for name, column in read_table("labelled").columns.items()}
    bucket.pipe_file("/bucket/gold.parquet", to_parquet(some))
    Path("gold.parquet").write_bytes(to_parquet(some))
    understudy("audit", "--gold", f"{there}/gold.parquet", "--pool", f"{there}/labelled", "--out", f"{there}/a.json")
    understudy("audit", "--gold", "gold.parquet", "--pool", "labelled", "--out", "a.json")
    assert bucket.cat_file("/bucket/a.json") == Path("a.json").read_bytes()

    for where, more in ((f"{there}/", ["--workers", 2]), ("", [])):
        understudy("select", f"{where}run", f"{where}pool", "-n", 5, "--out", f"{where}b.csv", "--quiet", *more)
    assert bucket.cat_file("/bucket/b.csv") == Path("b.csv").read_bytes()
    understudy("export", f"{there}/run", "--out", f"{there}/student.safetensors")
    assert bucket.cat_file("/bucket/student.safetensors")


def test_a_lock_that_was_copied_with_its_folder_is_told_of_as_what_it_may_be(bucket: Any) -> None:
    bucket.pipe_file("/bucket/labels/.lock", b"1234\n")
    store = us.LabelStore("memory://bucket/labels", 2, "hard")
    said = r"perhaps the lock of a local folder that was copied there.*understudy unlock"
    with pytest.raises(us.UnderstudyError, match=said):
        store.append([1], [0])
    understudy("unlock", "memory://bucket/labels")
    store.append([1], [0])
    store.close()
