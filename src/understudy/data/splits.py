"""Gold split by purpose, seeded and stratified: one row never serves two purposes that must not meet.

parts = us.split(gold, estimate=300, select=0.2, test=1000, seed=0)    # the rest is parts.train
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from understudy.data.examples import Gold
from understudy.errors import UnderstudyError


class Splits(NamedTuple):
    """train: teaches. estimate: measures the teacher. select: picks the epoch. test: the last word."""

    train: Gold | None
    estimate: Gold | None
    select: Gold | None
    test: Gold | None


def split(
    gold: Gold,
    *,
    estimate: int | float = 0,
    select: int | float = 0,
    test: int | float = 0,
    train: int | float | None = None,
    seed: int = 0,
    stratify: bool = True,
) -> Splits:
    """Cut gold into disjoint parts. Sizes are row counts (int) or shares (float); ``train=None`` takes the rest."""
    wanted = {"estimate": estimate, "select": select, "test": test} | ({} if train is None else {"train": train})
    counts: dict[str, int] = {}
    share = 0.0
    for name, size in wanted.items():
        _check_size(name, size)
        if isinstance(size, float):
            # Rounded where the shares so far end, so that shares that add up to 1 take every row exactly once.
            counts[name] = round((share + size) * len(gold)) - round(share * len(gold))
            share += size
        else:
            counts[name] = size
    if train is None:
        counts["train"] = max(len(gold) - sum(counts.values()), 0)
    if sum(counts.values()) > len(gold):
        asked = ", ".join(f"{name}={count}" for name, count in counts.items() if count)
        raise UnderstudyError(f"gold has {len(gold)} rows, too few for {asked}; ask for less or add gold")
    order = _order(gold.y, seed, stratify)
    parts: dict[str, Gold | None] = {}
    start = 0
    for name in ("estimate", "select", "test", "train"):
        index = order[start : start + counts[name]]
        parts[name] = gold.take(index.sort().values) if len(index) else None
        start += counts[name]
    return Splits(**parts)


def _check_size(name: str, size: int | float) -> None:
    if isinstance(size, float) and not 0 <= size <= 1:
        raise UnderstudyError(f"split({name}={size}): a share lies between 0 and 1; use an int for a row count")
    if size < 0:
        raise UnderstudyError(f"split({name}={size}): a row count is not negative")


def _order(y: Tensor, seed: int, stratify: bool) -> Tensor:
    """A random order whose every stretch has nearly the classes' shares (when stratified)."""
    rng = np.random.default_rng(seed)
    if not stratify:
        return torch.from_numpy(rng.permutation(len(y)))
    labels = y.numpy()
    place = np.empty(len(labels))
    for label in np.unique(labels):
        mine = np.flatnonzero(labels == label)
        # The j-th of a class's n rows sits near (j + u) / n of the whole.
        place[rng.permutation(mine)] = (np.arange(len(mine)) + rng.random()) / len(mine)
    return torch.from_numpy(np.argsort(place, kind="stable"))
