"""Sizes are looked at before memory is taken: what a file declares need not be what a machine can hold.

check_memory(rows * width * 4, "pool.parquet: column 'x'")
"""

import os
from pathlib import Path

from understudy.errors import UnderstudyError

# What is left to everything else when one column is read.
SHARE = 0.9


def available_memory() -> int | None:
    """Bytes that can still be had: of the machine, or of the container where that is less; None where nobody says."""
    found = [value for value in (_of_machine(), _of_container()) if value is not None]
    return min(found, default=None)


def check_memory(wanted: int, where: str, *, cure: str = "split the file, or use a machine with more memory") -> None:
    free = available_memory()
    if free is not None and wanted > SHARE * free:
        raise UnderstudyError(f"{where} would take {in_words(wanted)}, {in_words(free)} are free; {cure}")


def in_words(size: int) -> str:
    for unit, scale in (("TB", 40), ("GB", 30), ("MB", 20)):
        if size >= 1 << scale:
            return f"{size / (1 << scale):,.1f} {unit}"
    return f"{size / 1024:,.1f} kB"


def _of_machine() -> int | None:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return None


def _of_container() -> int | None:
    """What a control group leaves; the file cache counts as used there but is given up on demand."""
    group = Path("/sys/fs/cgroup")
    try:
        most = int((group / "memory.max").read_text())
        used = int((group / "memory.current").read_text())
        kinds = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        return max(0, most - used + int(kinds.get("file", 0)))
    except (OSError, ValueError):
        return None
