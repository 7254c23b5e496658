"""A Parquet column as a memory map: the same numbers, found again, whole or not there, refused where it is wrong."""

import fcntl
import os
from collections import namedtuple
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import understudy as us
import understudy.data.checks as memory
import understudy.io.readers.parquet as module
from understudy.errors import UnderstudyError
from understudy.io.readers.parquet import map_column

Usage = namedtuple("Usage", "total used free")


def _lists(values: np.ndarray, kind: Any) -> pa.Array:
    inner = pa.array(values.reshape(-1))
    if kind == "fixed":
        return pa.FixedSizeListArray.from_arrays(inner, values.shape[1])
    return pa.array(list(values), type=pa.list_(inner.type))


def _write(path: Path, values: Any, column: str = "x", **options: Any) -> Path:
    pq.write_table(pa.table({"id": np.arange(len(values)), column: values}), path, **options)
    return path


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.mark.parametrize("kind", ["fixed", "list"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.uint8, np.int64])
def test_shards_of_lists_are_one_array(
    kind: str, dtype: Any, tmp_path: Path, cache: Path, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BATCH_ROWS", 10)
    x = (rng.random((95, 7)) * 50).astype(dtype)
    parts = [x[:40], x[40:41], x[41:]]
    files = [_write(tmp_path / f"{i}.parquet", _lists(part, kind), row_group_size=17) for i, part in enumerate(parts)]
    mapped = map_column(files, "x", cache=cache)
    assert isinstance(mapped, np.memmap)
    assert mapped.dtype == dtype
    assert np.array_equal(mapped, x)
    as_read = np.concatenate([np.stack(pq.read_table(file)["x"].to_numpy()) for file in files])
    assert np.array_equal(mapped, as_read)
    # Not the other way round: the files' order is the rows' order.
    assert np.array_equal(map_column(files[::-1], "x", cache=cache), np.concatenate(parts[::-1]))


def test_numbers_and_lists_of_lists(tmp_path: Path, cache: Path, rng: np.random.Generator) -> None:
    x = rng.random((20, 2, 3))
    inner = pa.FixedSizeListArray.from_arrays(pa.array(x.reshape(-1)), 3)
    file = _write(tmp_path / "x.parquet", pa.FixedSizeListArray.from_arrays(inner, 2))
    assert np.array_equal(map_column([file], "x", cache=cache), x)
    ids = map_column([file], "id", cache=cache)
    assert ids.tolist() == list(range(20))


def test_a_mapped_column_is_a_pool(tmp_path: Path, cache: Path, rng: np.random.Generator) -> None:
    x = rng.standard_normal((50, 4)).astype(np.float16)
    mapped = map_column([_write(tmp_path / "x.parquet", _lists(x, "fixed"))], "x", cache=cache)
    pool = us.Pool(mapped, (x[:, 0] > 0).astype(int))
    assert pool.rows.is_mapped
    assert pool.rows.take(torch.tensor([41, 3])).numpy().tolist() == x[[41, 3]].tolist()


def test_found_again_until_the_file_changes(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = _write(tmp_path / "x.parquet", np.arange(5.0))
    map_column([file], "x", cache=cache)
    times: list[int] = []
    real = module._write

    def counted(*given: Any) -> None:
        times.append(1)
        real(*given)

    monkeypatch.setattr(module, "_write", counted)
    assert map_column([file], "x", cache=cache).tolist() == [0, 1, 2, 3, 4]
    assert not times
    _write(file, np.arange(5.0) + 1)
    os.utime(file, ns=(1, 1))
    assert map_column([file], "x", cache=cache).tolist() == [1, 2, 3, 4, 5]
    assert len(times) == 1


def test_a_file_cut_short_is_made_again(tmp_path: Path, cache: Path) -> None:
    file = _write(tmp_path / "x.parquet", np.arange(500.0))
    map_column([file], "x", cache=cache)
    (made,) = cache.iterdir()
    for length in (0, 60, len(made.read_bytes()) - 1):
        made.write_bytes(made.read_bytes()[:length])
        assert map_column([file], "x", cache=cache).tolist() == list(range(500))


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(28, "No space left on device")])
def test_nothing_half_written_has_the_final_name(
    error: Any, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Broken off after the second piece; seen from inside as well, before the end."""
    monkeypatch.setattr(module, "BATCH_ROWS", 10)
    file = _write(tmp_path / "x.parquet", np.arange(100.0))
    real, pieces = module._numbers, []

    def breaks(*given: Any) -> Any:
        pieces.append(1)
        assert not list(cache.glob("*.npy"))
        if len(pieces) == 3:
            raise error
        return real(*given)

    monkeypatch.setattr(module, "_numbers", breaks)
    with pytest.raises((KeyboardInterrupt, UnderstudyError)) as raised:
        map_column([file], "x", cache=cache)
    if isinstance(error, OSError):
        assert "No space left on device" in str(raised.value)
    assert list(cache.iterdir()) == []


def test_a_killed_process_leaves_only_a_temporary_name(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BATCH_ROWS", 10)
    file = _write(tmp_path / "x.parquet", np.arange(100.0))
    child = os.fork()
    if child == 0:
        real = module._numbers
        module._numbers = lambda values, where, start: os._exit(9) if start else real(values, where, start)
        map_column([file], "x", cache=cache)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    (left,) = cache.iterdir()
    assert left.name.startswith(".column-")
    other = cache / ".column-0123.npy.0123456789abcdef"
    with other.open("wb") as at_work:
        fcntl.flock(at_work, fcntl.LOCK_EX)
        assert len(map_column([file], "x", cache=cache)) == 100
        assert not left.exists()  # nobody writes to it any more
        assert other.exists()
    _write(file, np.arange(90.0))
    assert len(map_column([file], "x", cache=cache)) == 90
    assert not other.exists()


def test_a_full_disk_is_refused_beforehand(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = _write(tmp_path / "x.parquet", np.arange(1000.0))
    monkeypatch.setattr(memory, "disk_usage", lambda folder: Usage(10**9, 10**9, 7999))
    with pytest.raises(UnderstudyError, match=r"column 'x' needs .* free some space"):
        map_column([file], "x", cache=cache)
    assert list(cache.iterdir()) == []
    monkeypatch.setattr(memory, "disk_usage", lambda folder: Usage(10**9, 0, 10**9))
    assert len(map_column([file], "x", cache=cache)) == 1000


def test_the_cache_is_where_the_environment_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNDERSTUDY_CACHE", str(tmp_path / "mine"))
    map_column([_write(tmp_path / "x.parquet", np.arange(3.0))], "x")
    assert len(list((tmp_path / "mine").glob("column-*.npy"))) == 1


def _nan() -> np.ndarray:
    x = np.zeros((30, 2), dtype=np.float32)
    x[23, 1] = np.inf
    return x


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (_lists(_nan(), "fixed"), "row 23 holds NaN or infinity"),
        (pa.array([[1.0, 2.0]] * 25 + [[1.0]]), "row 25 holds 1 values|rows of shape"),
        (pa.array([[1.0, 2.0]] * 20 + [[1.0]] * 20), "one length"),
        (pa.array([1.0] * 17 + [None]), "row 17 is empty"),
        (pa.array([[1.0]] * 17 + [[None]]), "row 17 has an empty entry"),
        (pa.array(["a", "b"]), "holds texts;"),
        (pa.array([[]], type=pa.list_(pa.float32())), "row 0 is an empty list"),
        (pa.array([], type=pa.float32()), "no rows"),
        (pa.array([[]], type=pa.list_(pa.string())), "empty list"),
        (pa.array([["a"]]), "holds arrays of texts;"),
    ],
)
def test_refused(values: pa.Array, message: str, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BATCH_ROWS", 10)
    file = _write(tmp_path / "bad.parquet", values)
    with pytest.raises(UnderstudyError, match=message) as raised:
        map_column([file], "x", cache=cache)
    assert "bad.parquet" in str(raised.value)
    assert not list(cache.glob("*")) if cache.exists() else True


def test_files_that_do_not_fit_each_other(tmp_path: Path, cache: Path) -> None:
    good = _write(tmp_path / "good.parquet", np.zeros(3, dtype=np.float32))
    with pytest.raises(UnderstudyError, match=r"other\.parquet: column 'x' is double, in good\.parquet float"):
        map_column([good, _write(tmp_path / "other.parquet", np.zeros(3))], "x", cache=cache)
    with pytest.raises(UnderstudyError, match=r"y\.parquet: column 'x' is missing"):
        map_column([good, _write(tmp_path / "y.parquet", np.zeros(3), column="y")], "x", cache=cache)
    with pytest.raises(UnderstudyError, match="no column 'z'; there are id, x"):
        map_column([good], "z", cache=cache)
    with pytest.raises(UnderstudyError, match="check the path"):
        map_column([tmp_path / "nowhere.parquet"], "x", cache=cache)
    with pytest.raises(UnderstudyError, match="no files"):
        map_column([], "x", cache=cache)
    torn = tmp_path / "torn.parquet"
    torn.write_bytes(good.read_bytes()[:-7])
    with pytest.raises(UnderstudyError, match="as Parquet"):
        map_column([torn], "x", cache=cache)


def test_a_file_that_changes_while_it_is_read(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = _write(tmp_path / "x.parquet", np.arange(5.0))
    real = module._write

    def meddled(*given: Any) -> None:
        real(*given)
        os.utime(file, ns=(1, 1))

    monkeypatch.setattr(module, "_write", meddled)
    with pytest.raises(UnderstudyError, match="changed while they were read"):
        map_column([file], "x", cache=cache)
    assert list(cache.iterdir()) == []
