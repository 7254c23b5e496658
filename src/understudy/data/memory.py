"""Large files and memory: how much is free, where results too large for it go, which rows are read next.

A memory-mapped array costs no memory of the process: the kernel keeps as much of the file as it has room for. While the
whole file fits, any row is a memory access away; beyond that a random row is a read from disk, and rows should be read
in blocks. Which of the two it is depends on the machine's memory and the file's size alone, not on the moment, so that
a training repeated on one machine draws the same batches.

Sizes are checked before memory is allocated: a file may declare more than a machine can hold.

    check_memory(rows * width * 4, "pool.parquet: column 'x'")
"""

import contextlib
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from shutil import disk_usage
from typing import Any

import numpy as np
import torch
from torch import Tensor

from understudy.data.checks import to_tensor
from understudy.errors import UnderstudyError
from understudy.store.files import cache_folder

# A disk that takes 1 ms to find a place reads 256 KB in about as long; the kernel's own readahead is 128 KB.
BLOCK_BYTES = 256 << 10
# Files up to this share of the memory stay in it once read, beside what the training itself needs.
COMFORTABLE = 0.5
# Results of a pass up to this size are ordinary memory.
LARGE = 256 << 20
# Bytes that any machine has: what is free is not looked up for them.
SMALL = 1 << 16
# What one column may take of the memory that is free; the rest is left to everything else.
SHARE = 0.9


def total_memory() -> int:
    """Bytes this process may use: the machine's memory, or its container's limit."""
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for limit in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with contextlib.suppress(OSError, ValueError):  # not there, or "max"
            limits.append(int(Path(limit).read_text()))
    return min(limits)


def available_memory() -> int | None:
    """Bytes that are free: of the machine, or of the container where that is less; None where it is unknown."""
    free = []
    with contextlib.suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        free.append(1024 * int(next(line for line in lines if line.startswith("MemAvailable:")).split()[1]))
    group = Path("/sys/fs/cgroup")
    with contextlib.suppress(OSError, ValueError):
        limit, used = (int((group / name).read_text()) for name in ("memory.max", "memory.current"))
        kinds = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        # The file cache counts as used, but the kernel gives it up on demand.
        free.append(max(0, limit - used + int(kinds.get("file", 0))))
    return min(free, default=None)


def check_memory(wanted: int, where: str, *, cure: str = "split the file, or use a machine with more memory") -> None:
    """Refuses what would not fit into the free memory."""
    free = available_memory() if wanted > SMALL else None
    if free is not None and wanted > SHARE * free:
        raise UnderstudyError(f"{where} would take {format_bytes(wanted)}, {format_bytes(free)} are free; {cure}")


def format_bytes(size: int) -> str:
    for unit, scale in (("TB", 40), ("GB", 30), ("MB", 20)):
        if size >= 1 << scale:
            return f"{size / (1 << scale):,.1f} {unit}"
    return f"{size / 1024:,.1f} kB"


def block_rows(row_bytes: int) -> int:
    """How many rows make a block worth a read of its own."""
    return max(1, BLOCK_BYTES // max(1, row_bytes))


def check_space(folder: Path, needed: int, what: str) -> None:
    """Refuses what would not fit onto the disk of ``folder``."""
    free = disk_usage(folder).free
    if free < needed:
        raise UnderstudyError(
            f"{what} needs {needed / 1e9:.2f} GB in {folder}, which has {free / 1e9:.2f} GB left; free some space or "
            "set UNDERSTUDY_CACHE to a folder on a larger disk"
        )


def room_for(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """An uninitialised tensor for results: memory while they are small, else a file that vanishes with the tensor."""
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    if size <= LARGE:
        return torch.empty(shape, dtype=dtype)
    folder = cache_folder()
    check_space(folder, size, f"a result of shape {shape}")
    kind = torch.empty(0, dtype=dtype).numpy().dtype
    handle, name = tempfile.mkstemp(dir=folder, prefix=".result.")
    try:
        # Reserved at once: a disk that fills up later would kill the process where the map is written.
        os.posix_fallocate(handle, 0, size)
        return to_tensor(np.memmap(name, dtype=kind, mode="r+", shape=shape), name)
    except OSError as error:
        raise UnderstudyError(
            f"cannot write {folder}: {error.strerror}; set UNDERSTUDY_CACHE to another disk"
        ) from error
    finally:
        os.close(handle)
        # The map keeps the file's contents for as long as it lives.
        os.unlink(name)


class Readahead:
    """Tells the kernel which rows of a mapped file come next, so that it reads them while the student computes."""

    def __init__(self, array: np.memmap[Any, Any]) -> None:
        self.path = getattr(array, "filename", None)
        self.row_bytes = array.nbytes // max(1, len(array))
        root: Any = array
        while isinstance(root.base, np.memmap):
            root = root.base
        # Where the first byte lies; ``offset`` is that of the map the array is a slice of.
        self.start = int(root.offset + array.ctypes.data - root.ctypes.data)
        self.contiguous = bool(array.flags.c_contiguous)

    def all_rows(self, rows: int) -> None:
        self._advise([(0, rows)])

    def rows(self, index: Tensor, block: int) -> None:
        """The blocks in which these rows lie, neighbouring ones in one request."""
        blocks = np.unique(index.numpy() // block)
        if not len(blocks):
            return
        breaks = np.flatnonzero(np.diff(blocks) > 1)
        first, last = blocks[np.append(0, breaks + 1)], blocks[np.append(breaks, len(blocks) - 1)]
        self._advise((int(a) * block, (int(b) + 1) * block) for a, b in zip(first, last, strict=True))

    def _advise(self, spans: Iterable[tuple[int, int]]) -> None:
        if self.path is None or not self.contiguous or not hasattr(os, "posix_fadvise"):
            return
        # Advice only: without it the same rows are read, a little later.
        with contextlib.suppress(OSError), open(self.path, "rb") as file:
            for first, stop in spans:
                start, length = self.start + first * self.row_bytes, (stop - first) * self.row_bytes
                os.posix_fadvise(file.fileno(), start, length, os.POSIX_FADV_WILLNEED)
