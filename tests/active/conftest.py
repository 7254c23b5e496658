"""A small pool that trains in no time."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import understudy as us
from understudy import active

CLASSES = 4


def blobs(rows: int, seed: int = 0, spread: float = 1.0) -> tuple[Tensor, Tensor]:
    """Four overlapping blobs in six dimensions."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(CLASSES, (rows,), generator=generator)
    return 2 * torch.eye(CLASSES, 6)[y] + spread * torch.randn(rows, 6, generator=generator), y


def student() -> torch.nn.Module:
    return us.models.mlp(6, CLASSES, hidden=(16,))


@pytest.fixture
def make_loop(tmp_path: Path) -> Callable[..., active.Loop]:
    """A loop over 300 rows: 20 labels to start, 10 a round to 50. Keywords change it."""
    x, y = blobs(300)

    def make(**changes: Any) -> active.Loop:
        settings: dict[str, Any] = {
            "student": student, "x": x, "oracle": y, "strategy": "s_badge", "out": tmp_path / "loop", "start": 20,
            "batch": 10, "budget": 50, "epochs": 3, "batch_size": 16, "lr": 1e-2, "test": blobs(200, seed=1),
            "progress": False,
        }  # fmt: skip
        settings |= changes
        return active.Loop(settings.pop("student"), settings.pop("x"), settings.pop("oracle"), **settings)

    return make
