"""Selection: speed and memory beside bmdal_reg 3.0.2, scikit-activeml 1.0.1 and small-text 2.0.0.dev4, same arrays.

    UNDERSTUDY_PEERS=.peers/bin/python python -m benchmarks.selection

The peers live in an environment of their own (benchmarks/peers.txt); without it their rows say "not installed". Every
measurement is a fresh process of one thread: it loads the arrays, warms up on 1,000 rows, then times the selection
alone and reads how far the resident memory rose above the loaded arrays (Linux). Libraries alternate, the table shows
medians. scikit-activeml and small-text build the whole N × C·d embedding and run once; a process may take 16 GB, and
one that wants more is shown as out of memory. About 8 minutes.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.figures import Figure, main

# task: rows, features, classes, picks, labelled rows
TASKS = {
    "badge, C = 10": (50_000, 512, 10, 100, 0),
    "badge, C = 100": (50_000, 512, 100, 100, 0),
    "core-set, 1,000 labelled": (50_000, 512, 10, 100, 1000),
    "badge, a million rows": (1_000_000, 128, 10, 1000, 0),
}
PEERS = {
    "badge, C = 10": ("bmdal_reg", "scikit-activeml", "small-text"),
    "badge, C = 100": ("bmdal_reg", "small-text"),
    "core-set, 1,000 labelled": ("bmdal_reg", "small-text"),
    "badge, a million rows": (),
}
# These take minutes: one run each.
SLOW = ("scikit-activeml", "small-text")
# At least so many times as fast.
FASTER = {"bmdal_reg": {"badge": 5, "core-set": 3}, "scikit-activeml": {"badge": 40}}
MEMORY_LIMIT, TIME_LIMIT = 16 << 30, 600


def draw_arrays(rows: int, columns: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Features of loose classes and a model with high accuracy: bounds go stale as in real pools."""
    rng = np.random.default_rng(0)
    truth = rng.integers(classes, size=rows)
    centres = rng.standard_normal((classes, columns), dtype=np.float32)
    hidden = rng.standard_normal((rows, columns), dtype=np.float32)
    hidden += centres[truth]
    np.maximum(hidden, 0, out=hidden)
    logits = 2 * rng.standard_normal((rows, classes), dtype=np.float32)
    logits[np.arange(rows), truth] += 4
    probs = np.exp(logits - logits.max(1, keepdims=True))
    probs /= probs.sum(1, keepdims=True)
    return probs, hidden


def make_arrays(task: str, folder: Path) -> None:
    probs, hidden = draw_arrays(*TASKS[task][:3])
    np.save(folder / "hidden.npy", hidden)
    np.save(folder / "probs.npy", probs)


def ours(probs: np.ndarray, hidden: np.ndarray, n: int, labelled: int) -> Any:
    from understudy.acquisition.select import select

    if labelled:
        return select("coreset", n, hidden=hidden, labelled=np.arange(labelled))
    return select("badge", n, probs=probs, hidden=hidden)


def bmdal(probs: np.ndarray, hidden: np.ndarray, n: int, labelled: int) -> Any:
    import torch

    np.Inf = np.inf  # noqa: NPY201  (bmdal_reg 3.0.2 uses the name that numpy 2 dropped)
    from bmdal_reg.bmdal.feature_data import ListFeatureData, TensorFeatureData
    from bmdal_reg.bmdal.feature_maps import IdentityFeatureMap, ProductFeatureMap
    from bmdal_reg.bmdal.features import Features
    from bmdal_reg.bmdal.selection import KmeansppSelectionMethod, MaxDistSelectionMethod

    h = torch.from_numpy(hidden)
    if labelled:
        features = Features(IdentityFeatureMap(h.shape[1]), TensorFeatureData(h))
        train, pool = features[slice(0, labelled)], features[slice(labelled, len(h))]
        return labelled + MaxDistSelectionMethod(pool, train, sel_with_train=True, verbosity=0).select(n)
    a = torch.from_numpy(probs) - torch.nn.functional.one_hot(torch.from_numpy(probs).argmax(1), probs.shape[1])
    maps = ProductFeatureMap([IdentityFeatureMap(a.shape[1]), IdentityFeatureMap(h.shape[1])])
    pool = Features(maps, ListFeatureData([TensorFeatureData(a), TensorFeatureData(h)]))
    return KmeansppSelectionMethod(pool, pool, sel_with_train=False, verbosity=0).select(n)


def skactiveml(probs: np.ndarray, hidden: np.ndarray, n: int, labelled: int) -> Any:
    from skactiveml.base import SkactivemlClassifier
    from skactiveml.pool import Badge

    class Precomputed(SkactivemlClassifier):
        def fit(self, X, y, sample_weight=None):  # type: ignore[no-untyped-def]
            return self

        def predict_proba(self, X):  # type: ignore[no-untyped-def]
            return probs, hidden

    unlabelled = np.full(len(hidden), np.nan)
    classifier = Precomputed(classes=list(range(probs.shape[1])))
    return Badge(random_state=0).query(hidden, unlabelled, classifier, fit_clf=False, batch_size=n)


def small_text(probs: np.ndarray, hidden: np.ndarray, n: int, labelled: int) -> Any:
    from small_text.integrations.pytorch.query_strategies.strategies import BADGE
    from small_text.query_strategies.coresets import greedy_coreset

    rows = np.arange(len(hidden))
    if labelled:
        return greedy_coreset(hidden, rows[labelled:], rows[:labelled], n, distance_metric="euclidean")
    return BADGE(probs.shape[1]).sample(None, None, rows, rows[:0], None, n, hidden, probs.copy())


RUNNERS = {"understudy": ours, "bmdal_reg": bmdal, "scikit-activeml": skactiveml, "small-text": small_text}


def resident_megabytes(field: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(field))


def worker(library: str, task: str, folder: Path) -> None:
    """Runs in a process of its own, under the library's Python; prints one JSON line."""
    import torch

    torch.set_num_threads(1)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    _, _, _, n, labelled = TASKS[task]
    probs, hidden = np.load(folder / "probs.npy"), np.load(folder / "hidden.npy")
    run = RUNNERS[library]
    run(probs[:1000], hidden[:1000], 5, min(labelled, 100))
    Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts again from here
    before = resident_megabytes("VmRSS")
    start = time.perf_counter()
    picks = run(probs, hidden, n, labelled)
    seconds = time.perf_counter() - start
    extra = resident_megabytes("VmHWM") - before
    distinct = len({int(i) for i in picks})
    print(json.dumps({"seconds": seconds, "extra_mb": extra, "distinct": distinct}))


def measure(library: str, task: str, folder: Path, python: str) -> dict[str, float] | str:
    """Seconds, extra megabytes and distinct picks; or what became of it instead."""
    command = [python, str(Path(__file__).resolve()), "--worker", library, task, str(folder)]
    path = str(Path(__file__).parents[1])
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": path}
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=TIME_LIMIT)
    except subprocess.TimeoutExpired:
        return f"over {TIME_LIMIT} s"
    if done.returncode == 0:
        return dict(json.loads(done.stdout.splitlines()[-1]))
    if done.returncode == -9 or "MemoryError" in done.stderr or "not enough memory" in done.stderr:
        return "out of memory"
    print(f"{library}, {task}: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
    return "failed"


def measure_all(task: str, repeats: int) -> dict[str, list[dict[str, float] | str]]:
    peers = os.environ.get("UNDERSTUDY_PEERS")
    found: dict[str, list[dict[str, float] | str]] = {library: [] for library in ("understudy", *PEERS[task])}
    with tempfile.TemporaryDirectory() as folder:
        make_arrays(task, Path(folder))
        for repeat in range(repeats):
            for library, results in found.items():
                python = sys.executable if library == "understudy" else peers
                if python is None:
                    results.append("not installed")
                elif repeat == 0 or library not in SLOW:
                    results.append(measure(library, task, Path(folder), python))
    return found


def figures(repeats: int = 5) -> list[Figure]:
    table = []
    for task in TASKS:
        found = measure_all(task, repeats)
        own = _medians(found.pop("understudy"))
        limit = "< 1000" if "million" in task else "< 150"
        table.append(Figure(f"{task}: extra memory", "MB", own["extra_mb"], value=own["extra_mb"], target=limit))
        if not found:
            table.append(Figure(task, "s", own["seconds"], value=own["seconds"], target="< 60"))
        for library, results in found.items():
            notes = [result for result in results if isinstance(result, str)]
            if notes:
                table.append(Figure(task, "s", own["seconds"], library, note=notes[0]))
                continue
            theirs = _medians(results)
            wanted = FASTER.get(library, {}).get(task.split(",")[0])
            peer = f"{library} ({theirs['extra_mb']:,.0f} MB extra)"
            ratio, target = theirs["seconds"] / own["seconds"], f"≥ {wanted}" if wanted else ""
            table.append(Figure(task, "s", own["seconds"], peer, theirs["seconds"], ratio, target))
    return table


def _medians(results: list[dict[str, float] | str]) -> dict[str, float]:
    numbers = [result for result in results if not isinstance(result, str)]
    return {key: statistics.median(one[key] for one in numbers) for key in ("seconds", "extra_mb", "distinct")}


if __name__ == "__main__":
    if "--worker" in sys.argv:
        library, task, folder = sys.argv[2:]
        worker(library, task, Path(folder))
    else:
        main(figures)
