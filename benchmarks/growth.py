"""How time and memory grow with rows, classes and features: a log-log plot with fitted exponents, one thread.

    UNDERSTUDY_PEERS=.peers/bin/python python -m benchmarks.growth        # writes docs/benchmarks_growth.png

Work: picking 100 rows by BADGE (ours, and bmdal_reg's), core-set with 1,000 labelled rows, and alpha and k of a pool
from 2,000 gold rows. From the base of 40,000 rows, 10 classes, 128 features one size is doubled at a time. Every point
is a process of its own: arrays loaded, a warm-up on 1,000 rows, then the median of three runs or more and the rise of
resident memory. The exponent is the slope of log(time) over log(size): 1 is linear. About 10 minutes.
"""

import json
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.figures import Figure, main
from benchmarks.selection import bmdal, draw_arrays, ours, resident_megabytes

BASE = {"rows": 40_000, "classes": 10, "features": 128}
SIZES = {
    "rows": (20_000, 40_000, 80_000, 160_000, 320_000),
    "classes": (5, 10, 20, 40, 80),
    "features": (64, 128, 256, 512, 1024),
}
PICTURE = Path(__file__).parents[1] / "docs" / "benchmarks_growth.png"


def reliability(probs: np.ndarray, hidden: np.ndarray) -> None:
    import understudy as us

    gold = min(2_000, len(probs) // 2)
    labels = np.where(np.arange(gold) % 5 == 0, probs[:gold].argmin(1), probs[:gold].argmax(1))
    us.Reliability.fit(probs[:gold], labels).alpha_and_k(us.Soft(probs[gold:]))


WORK = {
    "badge": lambda probs, hidden: ours(probs, hidden, 100, 0),
    "badge by bmdal_reg": lambda probs, hidden: bmdal(probs, hidden, 100, 0),
    "core-set": lambda probs, hidden: ours(probs, hidden, 100, min(1_000, len(hidden) // 2)),
    "alpha and k": reliability,
}
# What a size cannot change is not measured.
IGNORES = {"core-set": {"classes"}, "alpha and k": {"features"}}


def worker(work: str, rows: int, classes: int, features: int) -> None:
    import torch

    torch.set_num_threads(1)
    resource.setrlimit(resource.RLIMIT_AS, (16 << 30, 16 << 30))
    probs, hidden = draw_arrays(rows, features, classes)
    WORK[work](probs[:1000], hidden[:1000])
    Path("/proc/self/clear_refs").write_text("5")
    before = resident_megabytes("VmRSS")
    seconds: list[float] = []
    # What takes milliseconds is repeated for half a second.
    while len(seconds) < 3 or (sum(seconds) < 0.5 and len(seconds) < 50):
        start = time.process_time()
        WORK[work](probs, hidden)
        seconds.append(time.process_time() - start)
    extra = resident_megabytes("VmHWM") - before
    print(json.dumps({"seconds": statistics.median(seconds), "extra_mb": max(extra, 0.1)}))


def measure(work: str, sizes: dict[str, int]) -> dict[str, float] | None:
    python, root = sys.executable, Path(__file__).parents[1]
    if "bmdal" in work:
        python = os.environ.get("UNDERSTUDY_PEERS", "")
    if not python:
        return None
    path = os.pathsep.join([str(root), str(root / "src")])
    done = subprocess.run(
        [python, "-m", "benchmarks.growth", "--worker", work, *map(str, sizes.values())],
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": path}, capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode:
        print(f"{work}, {sizes}: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
        return None
    return dict(json.loads(done.stdout.splitlines()[-1]))


def curves() -> dict[str, dict[str, list[tuple[int, dict[str, float]]]]]:
    """size -> work -> points."""
    found: dict[str, dict[str, list[tuple[int, dict[str, float]]]]] = {}
    for size, values in SIZES.items():
        for work in WORK:
            if size in IGNORES.get(work, ()):
                continue
            points = [(value, measure(work, BASE | {size: value})) for value in values]
            known = [(value, point) for value, point in points if point is not None]
            if known:
                found.setdefault(size, {})[work] = known
    return found


def exponent(points: list[tuple[int, dict[str, float]]], key: str) -> float:
    sizes, values = zip(*((size, point[key]) for size, point in points), strict=True)
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0]) if len(points) > 1 else float("nan")


def plot(found: dict[str, dict[str, list[tuple[int, dict[str, float]]]]], path: Path) -> None:
    import matplotlib
    import matplotlib.ticker

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    looks = {work: (f"C{number}", "osD^"[number]) for number, work in enumerate(WORK)}
    figure, axes = plt.subplots(2, len(SIZES), figsize=(12, 6.5), layout="constrained")
    for column, size in enumerate(SIZES):
        for row, (key, name) in enumerate((("seconds", "seconds"), ("extra_mb", "extra MB"))):
            axis: Any = axes[row, column]
            for work, points in found.get(size, {}).items():
                label, (colour, marker) = f"{work}: {exponent(points, key):.2f}", looks[work]
                values = [value for value, _ in points], [point[key] for _, point in points]
                axis.loglog(*values, color=colour, marker=marker, label=label)
            axis.set(xlabel=size, ylabel=name)
            axis.set_xticks(SIZES[size], [f"{value:,}" for value in SIZES[size]], minor=False)
            axis.xaxis.set_minor_locator(matplotlib.ticker.NullLocator())
            axis.grid(alpha=0.3, which="both")
            axis.legend(fontsize=7, title="exponents", title_fontsize=7)
    figure.savefig(path, dpi=110)


def figures() -> list[Figure]:
    found = curves()
    plot(found, PICTURE)
    table = []
    for size, works in found.items():
        for work, points in works.items():
            (low, first), (high, last) = points[0], points[-1]
            for key, unit in (("seconds", "s"), ("extra_mb", "MB")):
                spent = f"{first[key]:.3g} to {last[key]:.3g} {unit}"
                what = f"{work}, {size} {low:,} to {high:,}: {spent}"
                table.append(Figure(what, "(exponent)", round(exponent(points, key), 2)))
    return table


if __name__ == "__main__":
    if "--worker" in sys.argv:
        worker(sys.argv[2], *map(int, sys.argv[3:]))
    else:
        main(figures)
