"""``us.compare`` beside the same trainings one after another: Fashion-MNIST, 6 methods × 5 seeds, one thread each.

Both train the same 30 students (MLP 784-128-10, 2,000 pool rows, 300 gold rows, 20 epochs, 1,000 test rows): one after
another by ``us.train`` in one process, and spread over processes by ``us.compare``, whose time includes starting the
processes, writing the cells and the table. Wall time, so both cores must be quiet. Target: at most 0.6 on two cores.

    python -m benchmarks.compare_speed
"""

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from experiments.data import images

import understudy as us
from benchmarks.figures import Figure, main
from understudy.parallel.executors import usable_cores

METHODS = ("slam", "weighted", "forward")  # beside gold only, vanilla and confident, which are always there
SEEDS, GOLD, POOL, TEST, EPOCHS = 5, 300, 2_000, 1_000, 20
RECIPE: Any = {"epochs": EPOCHS, "lr": 1e-3, "batch_size": 128}


def student() -> torch.nn.Module:
    return us.models.mlp(inputs=784, hidden=(128,), classes=10)


def data() -> tuple[us.Gold, us.Pool, us.Gold]:
    x, y, _, _ = images("fashion_mnist")
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))[: 1_000 + GOLD + POOL + TEST]
    own, gold, pool, test = order.split([1_000, GOLD, POOL, TEST])
    teacher = us.train(student, us.Gold(x[own], y[own]), None, us.vanilla(), epochs=10, progress=False).student
    labels = {name: us.teach(teacher, x[rows]) for name, rows in (("gold", gold), ("pool", pool))}
    return (
        us.Gold(x[gold], y[gold], teacher=labels["gold"]),
        us.Pool(x[pool], labels["pool"]),
        us.Gold(x[test], y[test]),
    )


def one_after_another(gold: us.Gold, pool: us.Pool, test: us.Gold) -> None:
    for seed in range(SEEDS):
        common: Any = {**RECIPE, "seed": seed, "test": test, "refine": False, "progress": False}
        repeat = 1 + len(pool) // len(gold)
        us.train(student, gold, None, us.vanilla(), gold_repeat=repeat, **common)
        for method in ("vanilla", "confident", *METHODS):
            us.train(student, gold, pool, us.METHODS[method](), **common)


def figures(repeats: int = 3) -> list[Figure]:
    gold, pool, test = data()
    times: dict[str, list[float]] = {"alone": [], "compare": []}
    for _ in range(repeats):
        start = time.perf_counter()
        one_after_another(gold, pool, test)
        times["alone"].append(time.perf_counter() - start)
        with tempfile.TemporaryDirectory() as folder:
            start = time.perf_counter()
            us.compare(
                student, gold, pool, METHODS, test=test, select=0.0, seeds=SEEDS, out=Path(folder) / "out",
                progress=False, **RECIPE,
            )  # fmt: skip
            times["compare"].append(time.perf_counter() - start)
    ours, peer = (statistics.median(times[name]) for name in ("compare", "alone"))
    what = f"us.compare, 6 methods × {SEEDS} seeds, {usable_cores()} processes"
    return [Figure(what, "s", ours, "the same trainings one after another", peer, ours / peer, "≤ 0.6")]


if __name__ == "__main__":
    main(figures)
