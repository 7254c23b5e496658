"""Small pools as folders of Parquet shards, and a run to apply to them."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch

import understudy as us
from understudy.store.arrow import to_parquet

CLASSES, WIDTH = 3, 4


def write_pool(folder: Path, sizes: list[int], *, ids: bool = True, seed: int = 0, **extra: Any) -> dict[str, Any]:
    """Shards of these many rows; the columns of all of them together."""
    rng = np.random.default_rng(seed)
    rows = sum(sizes)
    y = rng.integers(0, CLASSES, rows)
    x = (rng.normal(size=(rows, WIDTH)) + 2 * np.eye(CLASSES, WIDTH)[y]).astype(np.float32)
    columns: dict[str, Any] = {"x": x, "label": y, **extra}
    if ids:
        columns = {"id": np.array([f"r{row}" for row in range(rows)], dtype=object), **columns}
    folder.mkdir(parents=True, exist_ok=True)
    ends = np.cumsum([0, *sizes])
    for number, (start, stop) in enumerate(pairwise(ends)):
        part = {name: column[start:stop] for name, column in columns.items()}
        (folder / f"part-{number:03d}.parquet").write_bytes(to_parquet(part))
    return columns


def write_run(folder: Path, *, ema: bool = False) -> us.Run:
    draw = torch.Generator().manual_seed(0)
    y = torch.arange(60) % CLASSES
    x = torch.randn(60, WIDTH, generator=draw) + 2.0 * torch.nn.functional.one_hot(y, WIDTH)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        student = us.models.mlp(inputs=WIDTH, classes=CLASSES, hidden=(8,))
    average = us.EMA(student) if ema else None
    return us.train(
        student, us.Gold(x, y), None, us.vanilla(), epochs=3, lr=0.05, out=folder, progress=False, ema=average,
        notes={"features": "x"},
    )  # fmt: skip
