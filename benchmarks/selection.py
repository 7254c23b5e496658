"""Selection speed and memory beside bmdal_reg 3.0.2 and scikit-activeml 1.0.1, on the same arrays, one thread.

    python benchmarks/selection.py --peers /path/to/peer-env/bin/python [--once-slow]

The peers live in an environment of their own (pip install torch==2.13.0 bmdal_reg==3.0.2 scikit-activeml==1.0.1);
its Python comes from --peers or $UNDERSTUDY_PEERS, and without it their rows say "not installed". Every measurement is
a fresh process: it loads the arrays, warms up on 1,000 rows, then times the selection alone and reads how far the
resident memory rose above the loaded arrays (Linux). Libraries alternate, the table shows medians. About 5 minutes;
--once-slow adds one run of scikit-activeml, which builds the whole embedding (about 80 s and 4 GB).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

# task: rows, features, classes, picks, labelled rows
TASKS = {
    "badge, C = 10": (50_000, 512, 10, 100, 0),
    "badge, C = 100": (50_000, 512, 100, 100, 0),
    "core-set, 1,000 labelled": (50_000, 512, 10, 100, 1000),
    "badge, a million rows": (1_000_000, 128, 10, 1000, 0),
}
LIBRARIES = ["understudy", "bmdal_reg", "scikit-activeml"]


def make_arrays(task: str, folder: Path) -> None:
    """Features of ten loose classes and a model that is right on most rows: bounds go stale as in real pools."""
    rows, columns, classes, _, _ = TASKS[task]
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


RUNNERS = {"understudy": ours, "bmdal_reg": bmdal, "scikit-activeml": skactiveml}


def resident_megabytes(field: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(field))


def worker(library: str, task: str, folder: Path) -> None:
    """Runs in a process of its own, under the library's Python; prints one JSON line."""
    import torch

    torch.set_num_threads(1)
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


def measure(library: str, task: str, folder: Path, python: str) -> dict[str, float] | None:
    command = [python, str(Path(__file__).resolve()), "--worker", library, task, str(folder)]
    done = subprocess.run(
        command, env=os.environ | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        print(f"{library}, {task}: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
        return None
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def wanted(task: str, slow: bool) -> list[str]:
    if task == "badge, a million rows":
        return ["understudy"]
    return [*LIBRARIES[:2], *(["scikit-activeml"] if slow and task == "badge, C = 10" else [])]


def run(peers: str | None = None, repeats: int = 5, once_slow: bool = False) -> list[dict[str, Any]]:
    """One row per task and library: median seconds, extra megabytes, and how many times slower than ours."""
    peers = peers or os.environ.get("UNDERSTUDY_PEERS")
    rows: list[dict[str, Any]] = []
    for task in TASKS:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            make_arrays(task, folder)
            results: dict[str, list[dict[str, float]]] = {library: [] for library in wanted(task, once_slow)}
            for repeat in range(repeats):
                for library in results:
                    python = sys.executable if library == "understudy" else peers
                    once = library == "scikit-activeml" or task == "badge, a million rows"
                    if python is None or (once and repeat > 0):
                        continue
                    result = measure(library, task, folder, python)
                    results[library] += [result] if result is not None else []
        rows += [summary(task, library, results) for library in results]
    return rows


def summary(task: str, library: str, results: dict[str, list[dict[str, float]]]) -> dict[str, Any]:
    row: dict[str, Any] = {"task": task, "library": library, "runs": len(results[library])}
    if not results[library]:
        return row | {"seconds": None, "extra_mb": None, "distinct": None, "times_ours": None}
    row |= {key: statistics.median(r[key] for r in results[library]) for key in ("seconds", "extra_mb", "distinct")}
    own = [r["seconds"] for r in results["understudy"]]
    return row | {"times_ours": row["seconds"] / statistics.median(own) if own else None}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", help="the Python of the environment that has the peer libraries")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--once-slow", action="store_true", help="also run scikit-activeml, once")
    parser.add_argument("--worker", nargs=3, metavar=("LIBRARY", "TASK", "FOLDER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        library, task, folder = options.worker
        worker(library, task, Path(folder))
        return
    print(f"{'task':26}{'library':18}{'seconds':>10}{'× ours':>9}{'extra MB':>10}{'distinct':>10}{'runs':>6}")
    for row in run(options.peers, options.repeats, options.once_slow):
        if row["seconds"] is None:
            print(f"{row['task']:26}{row['library']:18}{'not installed':>10}")
        else:
            print(
                f"{row['task']:26}{row['library']:18}{row['seconds']:10.3f}{row['times_ours']:9.1f}"
                f"{row['extra_mb']:10.0f}{row['distinct']:10.0f}{row['runs']:6d}"
            )


if __name__ == "__main__":
    main()
