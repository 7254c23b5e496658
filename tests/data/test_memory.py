"""Files larger than memory: what fits, where large results go, which rows the kernel reads ahead."""

import ctypes
import gc
import mmap
import os
from collections import namedtuple
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import understudy.data.checks as checks
import understudy.inference.passes as module
from understudy.active.loop import score
from understudy.data.checks import total_memory
from understudy.data.rows import MappedRows, block_rows
from understudy.errors import UnderstudyError
from understudy.inference.passes import penultimate, predict, room_for
from understudy.models import mlp
from understudy.store.files import cache_folder

Usage = namedtuple("Usage", "total used free")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("UNDERSTUDY_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_memory_is_the_machines_or_less() -> None:
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert 0 < total_memory() <= machine


def test_a_block_is_a_quarter_of_a_megabyte() -> None:
    assert block_rows(768) == 341
    assert block_rows(1 << 30) == 1
    assert block_rows(0) == 256 << 10


def test_large_results_lie_in_a_file_that_vanishes(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LARGE", 1_000)
    assert not (cache.exists())
    small, large = room_for((25, 10), torch.float32), room_for((26, 10), torch.float32)
    mapped = [line for line in Path("/proc/self/maps").read_text().splitlines() if str(cache) in line]
    assert len(mapped) == 1 and "(deleted)" in mapped[0]
    assert list(cache.iterdir()) == []
    large[:] = torch.arange(260.0).reshape(26, 10)
    small[:] = 1
    assert large.sum() == 259 * 130
    del large
    gc.collect()
    assert str(cache) not in Path("/proc/self/maps").read_text()


def test_a_disk_without_room_is_refused_before_anything_is_written(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LARGE", 1_000)
    monkeypatch.setattr(checks, "disk_usage", lambda folder: Usage(10, 9, 1_039))
    with pytest.raises(UnderstudyError, match=r"shape \(26, 10\) needs 0\.00 GB .* set UNDERSTUDY_CACHE"):
        room_for((26, 10), torch.float32)
    assert list(cache.iterdir()) == []
    monkeypatch.setattr(checks, "disk_usage", lambda folder: Usage(10, 9, 1_040))
    assert room_for((26, 10), torch.float32).shape == (26, 10)


def test_a_cache_that_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("UNDERSTUDY_CACHE", str(tmp_path / "file" / "inside"))
    with pytest.raises(UnderstudyError, match="set UNDERSTUDY_CACHE"):
        cache_folder()


def test_passes_give_the_same_numbers_from_a_file(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    net, x = mlp(5, 3, hidden=(4,)), torch.randn(70, 5)
    in_memory = (predict(net, x, batch_size=16), penultimate(net, x, batch_size=16), *score(net, x)[:2])
    monkeypatch.setattr(module, "LARGE", 10)
    on_disk = (predict(net, x, batch_size=16), penultimate(net, x, batch_size=16), *score(net, x)[:2])
    assert str(cache) in Path("/proc/self/maps").read_text()
    for one, other in zip(in_memory, on_disk, strict=True):
        assert one.equal(other)
        # Ordinary tensors: a caller may train on them.
        (other * torch.ones(1, requires_grad=True)).sum().backward()


@pytest.mark.parametrize("part", [slice(None), slice(7, 90)])
def test_readahead_names_the_bytes_of_the_rows(part: slice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.arange(300, dtype=np.int16).reshape(100, 3)
    np.save(tmp_path / "x.npy", x)
    advised: list[tuple[bytes, int]] = []

    def madvise(start: ctypes.c_void_p, length: ctypes.c_size_t, advice: int) -> None:
        assert start.value is not None and start.value % mmap.PAGESIZE == 0
        advised.append((ctypes.string_at(start.value, length.value), advice))

    monkeypatch.setattr(ctypes, "CDLL", lambda name: SimpleNamespace(madvise=madvise))
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")[part]
    rows = MappedRows(mapped, shuffle=4)
    rows.will_need(torch.tensor([3, 41, 44, 12]), mixed=True)
    # Rows 3, 12 and 41 to 44 lie in blocks 0, 3 and 10 to 11: three requests, each from the begin of a page.
    assert [advice for _, advice in advised] == [mmap.MADV_RANDOM, *[mmap.MADV_WILLNEED] * 3]
    wanted = [x[part], x[part][0:4], x[part][12:16], x[part][40:48]]
    assert all(read.endswith(rows.tobytes()) for (read, _), rows in zip(advised, wanted, strict=True))
    advised.clear()
    rows.will_need(None)
    assert [advice for _, advice in advised] == [mmap.MADV_NORMAL, mmap.MADV_WILLNEED]
    assert all(read.endswith(x[part].tobytes()) for read, _ in advised)
    advised.clear()
    rows.will_need(torch.empty(0, dtype=torch.long))
    assert [advice for _, advice in advised] == [mmap.MADV_NORMAL]


def test_advice_about_a_file_that_is_gone_is_no_error(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((10, 3)))
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    (tmp_path / "x.npy").unlink()
    MappedRows(mapped).will_need(None)
    # Every other column: no rows of bytes to speak of.
    MappedRows(mapped[:, ::2]).will_need(None)
