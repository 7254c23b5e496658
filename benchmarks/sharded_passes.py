"""Passes over 200 shards on this machine: in one process, and on Ray with one and two workers.

    python -m benchmarks.sharded_passes                # about 4 minutes on two quiet cores

Prints, each from a command or a call that it names: whether teach, predict and select give the same bytes in one
process and on two Ray workers; whether a pass whose worker is killed half way loses or doubles a row; how long Ray
takes to start; rows per second with 1 and 2 workers; and the peak memory of the workers and of the owner for a pool and
for one four times as large. Any difference ends it with an error.
"""

import argparse
import filecmp
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import understudy as us
from understudy.io.gold_pool import load_featuriser
from understudy.io.table import read_table
from understudy.labels.class_names import ClassNames
from understudy.parallel.executors import InProcess
from understudy.parallel.map_shards import ShardResult, run_pass
from understudy.parallel.pool_shards import list_pool_shards
from understudy.parallel.ray_tasks import connected
from understudy.parallel.run_on_file import Predict, StudentOnTables
from understudy.store.arrow import to_parquet

SHARDS, ROWS, WIDTH, CLASSES = 200, 2_000, 64, 10
PROGRAM = [sys.executable, "-m", "understudy"]


def write_pool(folder: Path, shards: int) -> None:
    folder.mkdir()
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(CLASSES, WIDTH))
    for number in range(shards):
        y = rng.integers(0, CLASSES, ROWS)
        x = (centres[y] + rng.normal(size=(ROWS, WIDTH))).astype(np.float32)
        ids = [f"r{number * ROWS + row}" for row in range(ROWS)]
        (folder / f"part-{number:04d}.parquet").write_bytes(to_parquet({"id": ids, "x": x}))


def write_run(folder: Path, hidden: int) -> us.Run:
    rng = torch.Generator().manual_seed(0)
    y = torch.arange(200) % CLASSES
    x = torch.randn(200, WIDTH, generator=rng) + 2 * torch.nn.functional.one_hot(y, WIDTH)
    student = us.models.mlp(inputs=WIDTH, classes=CLASSES, hidden=(hidden, hidden, 64))
    options: Any = {"epochs": 1, "progress": False, "out": folder, "notes": {"features": "x"}}
    return us.train(student, us.Gold(x, y), None, us.vanilla(), **options)


@dataclass(frozen=True)
class Measured:
    """A shard's function, and the most memory that its process has had."""

    function: Predict

    def __call__(self, table: Any) -> ShardResult:
        columns, _ = self.function(table)
        return ShardResult(
            columns, {"peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024, "process": os.getpid()}
        )


def predictions_of(run: Path, pool: Path) -> Measured:
    loaded = us.Run.load(run)
    featuriser = load_featuriser(run, loaded.config, read_table(list_pool_shards(pool)[0].path))
    return Measured(Predict(StudentOnTables(loaded.student, featuriser), ClassNames()))


def command(*words: Any) -> None:
    print("    understudy", *words, flush=True)
    subprocess.run([*PROGRAM, *map(str, words), "--quiet"], check=True, stdout=subprocess.DEVNULL)


def same_folders(one: Path, other: Path) -> int:
    """How many files both hold; an error where a byte differs."""
    names = sorted(file.name for file in one.glob("[!.]*"))
    _, wrong, missing = filecmp.cmpfiles(one, other, names, shallow=False)
    if wrong or missing or names != sorted(file.name for file in other.glob("[!.]*")):
        raise SystemExit(f"{one} and {other} differ: {wrong or missing}")
    return len(names)


def same_bytes(work: Path) -> None:
    for name, options in (("teach", []), ("predict", [])):
        command(name, work / "run", work / "pool", "--out", work / f"{name}-1", *options)
        command(name, work / "run", work / "pool", "--out", work / f"{name}-2", "--ray", "local", "--workers", 2)
        print(f"{name}: {same_folders(work / f'{name}-1', work / f'{name}-2')} files, the same bytes")
    for strategy in ("badge", "coreset", "entropy"):
        for where, ray in (("1", []), ("2", ["--ray", "local", "--workers", 2])):
            out = work / f"{strategy}-{where}.csv"
            command("select", work / "run", work / "pool", "--strategy", strategy, "-n", 100, "--out", out, *ray)
        if (work / f"{strategy}-1.csv").read_bytes() != (work / f"{strategy}-2.csv").read_bytes():
            raise SystemExit(f"{strategy}: other picks on Ray")
        print(f"select {strategy}: 100 picks, the same bytes")


def descendants(process: int) -> list[int]:
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parents.setdefault(int((entry / "stat").read_text().rpartition(")")[2].split()[1]), []).append(
                int(entry.name)
            )
        except OSError:
            continue
    found, todo = [], [process]
    while todo:
        children = parents.get(todo.pop(), [])
        found += children
        todo += children
    return found


def killed_half_way(work: Path) -> None:
    """SIGKILL for a worker that has a shard in hand, when half of the shards are there."""
    out = work / "killed"
    if not (work / "predict-1").exists():
        command("predict", work / "run", work / "pool", "--out", work / "predict-1")
    words = ["predict", work / "run", work / "pool", "--out", out, "--ray", "local", "--workers", "2", "--quiet"]
    running = subprocess.Popen([*PROGRAM, *map(str, words)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while len(list(out.glob("*.parquet"))) < SHARDS // 2:
        if running.poll() is not None:
            raise SystemExit("the pass ended before half of it was done")
        time.sleep(0.01)
    for process in descendants(running.pid):
        try:
            if "ray::understudy" in Path(f"/proc/{process}/cmdline").read_text():
                os.kill(process, signal.SIGKILL)
                break
        except OSError:
            continue
    else:
        raise SystemExit("no worker was found to kill")
    done = len(list(out.glob("*.parquet")))
    if running.wait() != 0:
        raise SystemExit("the pass did not survive the loss of a worker")
    ids = read_table(out).ids
    assert ids is not None
    files = same_folders(work / "predict-1", out)
    print(f"a worker killed after {done} shards: {files} files, the same bytes; {len(ids)} rows, {len(set(ids))} ids")


def speed(work: Path) -> None:
    """``run_pass`` with workers that are up: reading, the student, writing; medians of three."""
    began = time.perf_counter()
    engine = connected("local", 2)
    started = time.perf_counter()
    two = us.ray(workers=2)
    list(two.map(lambda cell: time.sleep(1), range(2)))
    up = time.perf_counter()
    print(f"Ray started in {started - began:.1f} s, two workers with PyTorch in {up - started - 1:.1f} s more")
    shards, function = list_pool_shards(work / "pool"), predictions_of(work / "run", work / "pool")
    seconds: dict[str, list[float]] = {}
    for turn in range(3):
        for name, executor in (
            ("one process", InProcess()),
            ("Ray, 1 worker", us.ray(workers=1)),
            ("Ray, 2 workers", two),
        ):
            out = work / f"speed-{turn}-{name.replace(' ', '')}"
            began = time.perf_counter()
            run_pass(function, shards, out, executor=executor, columns={}, title="", progress=False)
            seconds.setdefault(name, []).append(time.perf_counter() - began)
    rates = {name: shards.rows / float(np.median(each)) for name, each in seconds.items()}
    for name, rate in rates.items():
        print(f"predict, {name}: {rate:,.0f} rows/s ({rate / rates['Ray, 1 worker']:.2f} of Ray, 1 worker)")
    engine.shutdown()


def memory(work: Path) -> None:
    """Peaks of the workers, and of a process that passes over the shards alone, for 50 shards and for 200."""
    for name in ("small", "pool"):
        code = (
            "import resource, sys; from pathlib import Path; from benchmarks.sharded_passes import owner; "
            "owner(Path(sys.argv[1]), sys.argv[2])"
        )
        subprocess.run([sys.executable, "-c", code, str(work), name], check=True)


def owner(work: Path, name: str) -> None:
    shards, function = list_pool_shards(work / name), predictions_of(work / "run", work / name)
    options: Any = {"columns": {}, "title": "", "progress": False}
    alone = run_pass(function, shards, work / f"memory-1-{name}", executor=InProcess(), **options)
    found = run_pass(function, shards, work / f"memory-2-{name}", executor=us.ray("local", workers=2), **options)
    peaks = {each["process"]: each["peak"] for each in found}
    print(
        f"{len(shards)} shards, {shards.rows:,} rows: one process {max(each['peak'] for each in alone)} MB, workers "
        f"{' and '.join(map(str, sorted(peaks.values())))} MB",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", default="bytes,kill,speed,memory")
    parser.add_argument("--hidden", type=int, default=768, help="units of two of the student's layers")
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        write_pool(work / "pool", SHARDS)
        write_pool(work / "small", SHARDS // 4)
        write_run(work / "run", options.hidden)
        parts = {"bytes": same_bytes, "kill": killed_half_way, "speed": speed, "memory": memory}
        for name in options.parts.split(","):
            parts[name](work)


if __name__ == "__main__":
    main()
