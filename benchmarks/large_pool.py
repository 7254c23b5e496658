"""A pool larger than we want in memory: 4,000,000 × 384 float16 rows (3 GB) in a file, ten classes, 2,000 gold rows.

One epoch of a linear student (``us.train``, batch 128) under ``weighted`` and ``slam``, features and the teacher's soft
labels memory-mapped, the run written to a folder: rows per second beside the same training of the same rows in
memory, and how far anonymous plus shared memory (RssAnon + RssShmem, sampled through the run) rose above an interpreter
with torch imported. "warm": the file is in the page cache; "cold": it was dropped from it just before, and is read by
the block shuffle that maps too large for memory get; "limited": the same in a control group whose memory, page cache
and torch included, is half the file (this needs the right to make one). Each measurement is a process of its own, kinds
alternate; with --repeats the table shows medians. Processor seconds include the kernel's for the map, but not waiting
for a disk or for other processes; wall time has both. Targets: at least 0.9 of the speed from memory, at most 1,000 MB.

    python -m benchmarks.large_pool                  # 8 minutes, 3.3 GB of disk in a folder that is removed
    python -m benchmarks.large_pool --rows 400000 --folder /data/scratch
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.figures import Figure, main

ROWS, FEATURES, CLASSES, GOLD, PIECE = 4_000_000, 384, 10, 2_000, 1 << 16
METHODS = ("weighted", "slam")
KINDS = ("memory", "warm", "cold", "limited")
#: The folder of a control group's memory and the name of its limit, version 1 and 2.
GROUPS = (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max"))


def make_pool(folder: Path, rows: int, features: int = FEATURES) -> None:
    """``x.npy``, ``probs.npy`` (a teacher right on about 70%) and a gold ``gold.npz``; written piece by piece."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((CLASSES, features), dtype=np.float32) * 0.1
    create: Any = np.lib.format.open_memmap
    x = create(folder / "x.npy", mode="w+", dtype=np.float16, shape=(rows, features))
    probs = create(folder / "probs.npy", mode="w+", dtype=np.float16, shape=(rows, CLASSES))
    for start in range(0, rows, PIECE):
        piece = _piece(rng, centres, min(PIECE, rows - start))
        x[start : start + PIECE], probs[start : start + PIECE] = piece[0], piece[1]
    x.flush()
    probs.flush()
    gold = _piece(rng, centres, GOLD)
    np.savez(folder / "gold.npz", x=gold[0].astype(np.float32), teacher=gold[1], y=gold[2])


def _piece(rng: np.random.Generator, centres: np.ndarray, rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    truth = rng.integers(0, CLASSES, rows)
    x = rng.standard_normal((rows, centres.shape[1]), dtype=np.float32)
    x += centres[truth]
    logits = rng.standard_normal((rows, CLASSES), dtype=np.float32)
    logits[np.arange(rows), truth] += rng.gamma(2.0, 1.2, rows).astype(np.float32)
    probs = np.exp(logits)
    return x.astype(np.float16), (probs / probs.sum(1, keepdims=True)).astype(np.float16), truth


class MemoryWatch(threading.Thread):
    """The largest RssAnon + RssShmem of this process while the ``with`` block runs, in megabytes (Linux)."""

    def __init__(self, every: float = 0.01) -> None:
        super().__init__(daemon=True)
        self.every, self.peak, self.over = every, 0.0, threading.Event()

    def run(self) -> None:
        while not self.over.wait(self.every):
            self.peak = max(self.peak, private_megabytes())

    def __enter__(self) -> "MemoryWatch":
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.over.set()
        self.join()


def private_megabytes() -> float:
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return sum(int(fields[name].split()[0]) for name in ("RssAnon", "RssShmem")) / 1024


def drop_from_cache(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(handle)


def worker(kind: str, method: str, folder: Path) -> None:
    """Runs in a process of its own; prints one JSON line."""
    import torch

    torch.set_num_threads(1)
    before = private_megabytes()
    import understudy as us
    from understudy.data.rows import mapped_rows

    x, probs = (np.load(folder / name, mmap_mode="r") for name in ("x.npy", "probs.npy"))
    if kind == "memory":
        x, probs = np.array(x), np.array(probs)
    elif kind == "warm":
        for start in range(0, len(x), PIECE):
            x[start : start + PIECE].max()
    with np.load(folder / "gold.npz", allow_pickle=False) as data:
        gold = us.Gold(data["x"], data["y"], teacher=data["teacher"])
    student = us.models.linear(x.shape[1], CLASSES)
    # Imports and first calls cost seconds.
    us.train(student, gold, us.Pool(x[:64], probs[:64]), us.METHODS[method](), epochs=1, progress=False)
    if kind in ("cold", "limited"):
        drop_from_cache(folder / "x.npy")
    fixed = private_megabytes() - before
    rows = mapped_rows(x, shuffle="full" if kind == "warm" else "block") if isinstance(x, np.memmap) else x
    with MemoryWatch() as watch, tempfile.TemporaryDirectory(dir=folder) as out:
        start, processor = time.perf_counter(), time.process_time()
        run = us.train(
            student, gold, us.Pool(rows, probs), us.METHODS[method](), epochs=1, out=Path(out) / "run", progress=False
        )
        seconds, processor = time.perf_counter() - start, time.process_time() - processor
    wanted = {"weighted": ("debias.weight",), "slam": ("slam.alpha", "slam.k")}[method]
    assert all(len(run.columns[name]) == len(x) for name in wanted)
    print(
        json.dumps(
            {
                "rows_per_second": len(x) / seconds,
                "rows_per_cpu_second": len(x) / processor,
                "epoch_rows_per_second": len(x) / run.history[0]["seconds"],
                "extra_mb": watch.peak - before,
                "fixed_mb": fixed,
            }
        )
    )


@contextmanager
def limited_group(bytes_: int) -> Iterator[Path | None]:
    """A control group of so much memory; None where this process may not make one."""
    for root, limit in GROUPS:
        group = Path(root, f"large_pool_{os.getpid()}")
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            with suppress(OSError):
                (group / limit).write_text(str(bytes_))
            yield group if (group / limit).exists() else None
            return
        finally:
            group.rmdir()
    yield None


def measure(kind: str, method: str, folder: Path, group: Path | None) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.large_pool", "--worker", kind, method, "--folder", str(folder)]
    if kind == "limited":
        command = ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh", *command]
    done = subprocess.run(command, env=os.environ | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{kind}, {method}: {done.stderr.strip()}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def medians(rows: int, repeats: int, folder: Path | None) -> dict[tuple[str, str], dict[str, float]]:
    """(method, kind) -> its medians."""
    found = {}
    with tempfile.TemporaryDirectory(dir=folder) as name, limited_group(rows * FEATURES) as group:
        make_pool(Path(name), rows)
        kinds = KINDS if group else KINDS[:-1]
        for method in METHODS:
            each: dict[str, list[dict[str, float]]] = {kind: [] for kind in kinds}
            for _ in range(repeats):
                for kind in kinds:
                    each[kind].append(measure(kind, method, Path(name), group))
            for kind, ones in each.items():
                found[method, kind] = {key: statistics.median(one[key] for one in ones) for key in ones[0]}
    return found


def figures(rows: int = ROWS, repeats: int = 1, folder: Path | None = None) -> list[Figure]:
    found = medians(rows, repeats, folder)
    table = []
    for method in METHODS:
        memory = found[method, "memory"]
        for kind in [kind for of, kind in found if of == method and kind != "memory"]:
            mine, what = found[method, kind], f"{method}, {rows:,} × {FEATURES} from a file, {kind}"
            for unit, key in (("rows/s", "rows_per_second"), ("rows/cpu s", "rows_per_cpu_second")):
                target = "≥ 0.9" if unit == "rows/s" else ""
                ratio = mine[key] / memory[key]
                table.append(Figure(what, unit, mine[key], "the same rows in memory", memory[key], ratio, target))
            extra = mine["extra_mb"]
            table.append(Figure(f"{what}: memory above torch", "MB", extra, value=extra, target="≤ 1,000"))
    return table


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="where the pool is written (default: the temporary folder)")
    parser.add_argument("--worker", nargs=2, metavar=("KIND", "METHOD"), help=argparse.SUPPRESS)
    options, rest = parser.parse_known_args()
    if options.worker:
        worker(*options.worker, options.folder)
    else:
        main(partial(figures, options.rows, options.repeats, options.folder), rest)
