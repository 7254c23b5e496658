"""Three blobs with a teacher that errs, in every form that its labels may have, and a student of a few numbers."""

from typing import Any

import torch
from torch import Tensor

import understudy as us
from understudy.training.options import TrainingOptions

CLASSES = 3
RECIPE = TrainingOptions(epochs=3, lr=0.02, batch_size=64)
FAST: dict[str, Any] = {"epochs": 3, "lr": 0.02, "batch_size": 64, "progress": False}


class Items(torch.utils.data.Dataset[Any]):
    """Rows one by one, as a map-style data set gives them."""

    def __init__(self, x: torch.Tensor) -> None:
        self.x = x

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.x[index]


def student() -> torch.nn.Module:
    return us.models.mlp(inputs=4, classes=CLASSES, hidden=(16,))


def points(rows: int = 360, seed: int = 0) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(seed)
    y = torch.arange(rows) % CLASSES
    return torch.randn(rows, 4, generator=draw) + 2.0 * torch.nn.functional.one_hot(y, 4), y


def labels(y: Tensor, form: str = "hard", noise: float = 0.4, seed: int = 1) -> Any:
    """Every wrong label is the next class."""
    draw = torch.Generator().manual_seed(seed)
    named = torch.where(torch.rand(len(y), generator=draw) < noise, (y + 1) % CLASSES, y)
    probs = torch.nn.functional.one_hot(named, CLASSES) * 0.6 + torch.rand(len(y), CLASSES, generator=draw) * 0.2
    probs = probs / probs.sum(1, keepdim=True)
    if form == "hard":
        return us.Hard(named, classes=CLASSES)
    if form == "hard_confidence":
        return us.Hard(named, confidence=probs.max(1).values, classes=CLASSES)
    if form == "soft":
        return us.Soft(probs)
    if form == "topk":
        best = probs.topk(2, dim=1)
        return us.TopK(best.indices, best.values, classes=CLASSES)
    assert form == "votes"
    flips = torch.rand(len(y), 3, generator=draw) < noise
    votes = torch.where(flips, (y.unsqueeze(1) + 1) % CLASSES, y.unsqueeze(1))
    votes[torch.rand(len(y), 3, generator=draw) < 0.3] = -1
    return us.Votes(votes, classes=CLASSES)


def world(form: str = "hard", *, gold: int = 60, noise: float = 0.4, **options: Any) -> tuple[us.Gold, us.Pool, Tensor]:
    """Gold, the pool, and the truth of the pool."""
    x, y = points()
    said = labels(y, form, noise)
    first, rest = torch.arange(gold), torch.arange(gold, len(y))
    return us.Gold(x[first], y[first], said.take(first), **options), us.Pool(x[rest], said.take(rest)), y[rest]
