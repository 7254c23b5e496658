"""Passes over shards: order and ids, interruption, what is refused."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import understudy as us
from shard_pools import write_pool
from understudy.io.table import read_table
from understudy.parallel.executors import InProcess, WorkerProcesses
from understudy.parallel.map_shards import PASS, SHARD_PASS, UNFINISHED, PassFolder
from understudy.parallel.pool_shards import list_pool_shards, results_in_order
from understudy.store.arrow import from_parquet, to_parquet


def doubled(table: Any) -> dict[str, Any]:
    return {"twice": 2 * table.columns["x"]}


def test_every_row_once_in_the_order_of_the_pool(tmp_path: Path) -> None:
    whole = write_pool(tmp_path / "pool", [3, 5, 1, 4])
    out = us.map_shards(doubled, tmp_path / "pool", tmp_path / "out", progress=False)
    made = read_table(out).columns
    assert list(made["id"]) == list(whole["id"])
    assert np.array_equal(made["twice"], 2 * whole["x"])
    assert [file.name for file in sorted(out.glob("[!._]*"))] == [f"0000{number}.parquet" for number in range(4)]
    assert not (out / UNFINISHED).exists() and all(found.problem is None for found in SHARD_PASS.verify(out))


def test_rows_without_ids_are_numbered_over_all_shards(tmp_path: Path) -> None:
    write_pool(tmp_path / "pool", [3, 2, 4], ids=False)
    us.map_shards(doubled, tmp_path / "pool", tmp_path / "out", progress=False)
    assert read_table(tmp_path / "out").columns["row"].tolist() == list(range(9))


def test_processes_make_the_same_bytes(tmp_path: Path) -> None:
    write_pool(tmp_path / "pool", [3, 5, 1, 4, 2])
    for name, executor in (("here", InProcess()), ("processes", WorkerProcesses(2))):
        us.map_shards(doubled, tmp_path / "pool", tmp_path / name, executor=executor, progress=False)
    for file in (tmp_path / "here").glob("[!.]*"):
        assert (tmp_path / "processes" / file.name).read_bytes() == file.read_bytes()


class Stops:
    """Fails at one shard as long as a file is there; counts the shards it was asked about."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, table: Any) -> dict[str, Any]:
        with (self.folder / "asked").open("a") as file:
            file.write(table.path.name + "\n")
        if (self.folder / "stop").exists() and "002" in table.path.name:
            raise us.UnderstudyError("not now")
        return doubled(table)


def test_an_interrupted_pass_goes_on_and_does_nothing_twice(tmp_path: Path) -> None:
    write_pool(tmp_path / "pool", [3, 5, 1, 4])
    function = Stops(tmp_path)
    (tmp_path / "stop").touch()
    with pytest.raises(us.UnderstudyError, match="not now"):
        us.map_shards(function, tmp_path / "pool", tmp_path / "out", progress=False)
    assert [found.problem is not None for found in SHARD_PASS.verify(tmp_path / "out")] == [False, True]
    # What a killed worker put aside, and a shard that was moved but not recorded, are made again.
    (tmp_path / "out" / UNFINISHED / "2-0123456789abcdef.parquet").write_bytes(b"half")
    (tmp_path / "out" / "00002.parquet").write_bytes(b"old")
    (tmp_path / "stop").unlink()
    for _ in range(2):  # the second time there is nothing left to do
        us.map_shards(function, tmp_path / "pool", tmp_path / "out", progress=False)
    asked = (tmp_path / "asked").read_text().split()
    assert asked == [f"part-00{number}.parquet" for number in (0, 1, 2, 2, 3)]
    assert not (tmp_path / "out" / UNFINISHED).exists()
    us.map_shards(function, tmp_path / "pool", tmp_path / "again", progress=False)
    for file in (tmp_path / "again").glob("[!._]*"):
        assert (tmp_path / "out" / file.name).read_bytes() == file.read_bytes()


def test_a_shard_that_is_recorded_but_gone_is_made_again(tmp_path: Path) -> None:
    write_pool(tmp_path / "pool", [3, 5, 1, 4])
    function = Stops(tmp_path)
    (tmp_path / "stop").touch()
    with pytest.raises(us.UnderstudyError, match="not now"):
        us.map_shards(function, tmp_path / "pool", tmp_path / "out", progress=False)
    (tmp_path / "out" / "00001.parquet").unlink()
    (tmp_path / "stop").unlink()
    us.map_shards(function, tmp_path / "pool", tmp_path / "out", progress=False)
    assert len(read_table(tmp_path / "out")) == 13 and all(
        found.problem is None for found in SHARD_PASS.verify(tmp_path / "out")
    )


def test_nothing_is_recorded_before_it_is_in_its_place(tmp_path: Path) -> None:
    write_pool(tmp_path / "pool", [3, 5])
    folder = PassFolder(tmp_path / "out", list_pool_shards(tmp_path / "pool"))
    folder.path.mkdir()
    folder.open({"shards": "some"})
    folder.file(folder.shards[0]).write_bytes(b"of a process that was killed")
    with pytest.raises(FileNotFoundError):
        folder.take_over(folder.shards[0], {"checksum": "0123456789abcdef", "rows": 3, "summary": {}})
    assert [shard.number for shard in folder.missing()] == [0, 1]


def test_a_shard_of_other_rows_than_were_counted_is_refused(tmp_path: Path) -> None:
    write_pool(tmp_path / "pool", [3, 5])
    shards = list_pool_shards(tmp_path / "pool")
    write_pool(tmp_path / "pool", [3, 6])
    with pytest.raises(us.UnderstudyError, match="has 6 rows and had 5"):
        shards[1].read()


@pytest.mark.parametrize("change", ["replaced", "gone"])
def test_a_pool_that_changes_under_a_pass_makes_none(change: str, tmp_path: Path) -> None:
    """Of the same size and rows: whoever had read it before would not know."""
    write_pool(tmp_path / "pool", [3, 5, 4])
    file = tmp_path / "pool" / "part-000.parquet"
    other = write_pool(tmp_path / "other", [3, 5, 4], seed=1) and tmp_path / "other" / file.name

    def changing(table: Any) -> dict[str, Any]:
        if "002" in table.path.name:
            file.write_bytes(other.read_bytes()) if change == "replaced" else file.unlink()
        return doubled(table)

    with pytest.raises(us.UnderstudyError, match="was changed during the pass"):
        us.map_shards(changing, tmp_path / "pool", tmp_path / "out", progress=False)
    assert [found.problem is not None for found in SHARD_PASS.verify(tmp_path / "out")] == [False, True], "not finished"


def test_other_work_is_not_gone_on_with(tmp_path: Path) -> None:
    write_pool(tmp_path / "pool", [3, 5])
    us.map_shards(doubled, tmp_path / "pool", tmp_path / "out", progress=False)
    with pytest.raises(us.UnderstudyError, match=r"another function \(another run, function or option\)"):
        us.map_shards(Stops(tmp_path), tmp_path / "pool", tmp_path / "out", progress=False)
    os.utime(tmp_path / "pool" / "part-001.parquet", ns=(0, 0))  # another file of the same name and size
    with pytest.raises(us.UnderstudyError, match=r"another shards \(the files have changed\)"):
        us.map_shards(doubled, tmp_path / "pool", tmp_path / "out", progress=False)
    write_pool(tmp_path / "pool", [3, 6])
    with pytest.raises(us.UnderstudyError, match=r"another shards \(the files have changed\)"):
        us.map_shards(doubled, tmp_path / "pool", tmp_path / "out", progress=False)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").touch()
    with pytest.raises(us.UnderstudyError, match="is not empty and holds no pass"):
        us.map_shards(doubled, tmp_path / "pool", tmp_path / "full", progress=False)


def test_a_changed_shard_of_a_finished_pass_is_found(tmp_path: Path) -> None:
    write_pool(tmp_path / "pool", [3, 5])
    out = us.map_shards(doubled, tmp_path / "pool", tmp_path / "out", progress=False)
    (out / "00001.parquet").write_bytes(b"PAR1")
    assert [found.path.name for found in SHARD_PASS.verify(out) if found.problem] == ["00001.parquet"]
    with pytest.raises(us.UnderstudyError, match=r"00001.parquet is damaged"):
        us.map_shards(doubled, tmp_path / "pool", out, progress=False)


def test_what_is_refused(tmp_path: Path) -> None:
    write_pool(tmp_path / "pool", [3, 5])
    with pytest.raises(us.UnderstudyError, match="made 1 values of 'x' for 3 rows"):
        us.map_shards(lambda table: {"x": [1]}, tmp_path / "pool", tmp_path / "out", progress=False)
    with pytest.raises(us.UnderstudyError, match="is not there; check the path"):
        us.map_shards(doubled, tmp_path / "none", tmp_path / "out", progress=False)
    (tmp_path / "pool" / "part-009.parquet").write_bytes(to_parquet({"x": np.zeros((2, 4))}))
    with pytest.raises(us.UnderstudyError, match=r"part-009.parquet: column 'id' is missing"):
        list_pool_shards(tmp_path / "pool")


def test_empty_shards_are_passed_over(tmp_path: Path) -> None:
    write_pool(tmp_path / "pool", [3, 0, 2], ids=False)
    shards = list_pool_shards(tmp_path / "pool")
    assert [(shard.number, shard.first, shard.rows) for shard in shards] == [(0, 0, 3), (1, 3, 2)]
    us.map_shards(doubled, tmp_path / "pool", tmp_path / "out", progress=False)
    assert [len(from_parquet(file)["row"]) for file in sorted((tmp_path / "out").glob("*.parquet"))] == [3, 2]
    assert [each["rows"] for each in json.loads((tmp_path / "out" / PASS).read_text())["shards"]] == [3, 2]


class Backwards:
    def map(self, function: Any, cells: Any) -> Any:
        yield from reversed([(number, function(cell)) for number, cell in enumerate(cells)])


def test_reduces_see_shards_in_order_whoever_is_first(tmp_path: Path) -> None:
    write_pool(tmp_path / "pool", [3, 5, 1])
    found = list(results_in_order(Backwards(), lambda shard: shard.rows, list_pool_shards(tmp_path / "pool")))
    assert [(shard.number, rows) for shard, rows in found] == [(0, 3), (1, 5), (2, 1)]
