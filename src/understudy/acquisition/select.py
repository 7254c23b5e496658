"""Choose the n examples most worth a label, by name: `select("badge", 100, probs=p, hidden=h)`.

| strategy | needs | picks |
| --- | --- | --- |
| random | size=, or any array | uniformly |
| confidence, margin, entropy | probs | the least certain |
| coreset | hidden | the farthest from all labelled and picked |
| badge | probs, hidden | k-means++ on last-layer gradients |
| s_badge | probs, hidden, hidden_ema | the same, scaled by the distance to the moving average |
| lhd | probs, probs_ema, hidden, hidden_ema | k-means++ on the difference to the moving average |

probs are class probabilities (N, C), hidden penultimate features (N, d); `_ema` the same from the moving
average of the parameters. A new strategy is a function in its own file and a line in STRATEGIES.
"""

import warnings
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from understudy.acquisition.arrays import (
    Array,
    as_labelled,
    as_matrix,
    as_probabilities,
    available_rows,
    common_length,
)
from understudy.acquisition.badge import badge
from understudy.acquisition.confidence import confidence
from understudy.acquisition.coreset import coreset
from understudy.acquisition.entropy import entropy
from understudy.acquisition.lhd import lhd
from understudy.acquisition.margin import margin
from understudy.acquisition.random import random
from understudy.acquisition.s_badge import s_badge
from understudy.errors import UnderstudyError, UnderstudyWarning


class Strategy(NamedTuple):
    """`pick(n, *, available, generator, <needs>)` returns n distinct ones of the available row numbers."""

    pick: Callable[..., Tensor]
    needs: tuple[str, ...]


STRATEGIES: dict[str, Strategy] = {
    "random": Strategy(random, ()),
    "confidence": Strategy(confidence, ("probs",)),
    "margin": Strategy(margin, ("probs",)),
    "entropy": Strategy(entropy, ("probs",)),
    "coreset": Strategy(coreset, ("hidden",)),
    "badge": Strategy(badge, ("probs", "hidden")),
    "s_badge": Strategy(s_badge, ("probs", "hidden", "hidden_ema")),
    "lhd": Strategy(lhd, ("probs", "probs_ema", "hidden", "hidden_ema")),
}


def select(
    strategy: str,
    n: int,
    *,
    probs: Array | None = None,
    hidden: Array | None = None,
    hidden_ema: Array | None = None,
    probs_ema: Array | None = None,
    labelled: Array | None = None,
    size: int | None = None,
    seed: int = 0,
) -> Tensor:
    """n distinct row numbers (int64), in the order picked; the same for the same arrays and seed.

    `labelled`: row numbers or a boolean mask (N,) of rows never to be picked; core-set starts from them.
    `size`: the pool's length, needed only where no array tells it. Arrays that a strategy does not need are
    ignored, except that their shapes must fit.
    """
    if strategy not in STRATEGIES:
        raise UnderstudyError(f"unknown strategy {strategy!r}: use one of {', '.join(STRATEGIES)}")
    given = {"probs": probs, "probs_ema": probs_ema, "hidden": hidden, "hidden_ema": hidden_ema}
    pick, needs = STRATEGIES[strategy]
    missing = [name for name in needs if given[name] is None]
    if missing:
        raise UnderstudyError(f"strategy {strategy!r} needs {' and '.join(missing)}: pass {missing[0]}=…")

    arrays = {name: _checked(name, value) for name, value in given.items() if value is not None}
    for name in ("probs", "hidden"):
        _check_same_columns(arrays, name, f"{name}_ema")
    rows = None if labelled is None else as_labelled(labelled)
    available = available_rows(rows, common_length(arrays, rows, size))
    left = int(available.sum())
    if not 0 <= n <= left:
        raise UnderstudyError(f"n = {n}, but {left} of {len(available)} rows are not labelled yet: ask for 0 to {left}")
    if "hidden_ema" in needs and torch.equal(arrays["hidden"], arrays["hidden_ema"]):
        warnings.warn(
            f"the student's features are those of its moving average on every row, so {strategy} picks at random (a "
            "linear student has no features of its own); use badge, or a student with a hidden layer",
            UnderstudyWarning,
            stacklevel=2,
        )
    generator = torch.Generator().manual_seed(seed)
    return pick(n, available=available, generator=generator, **{name: arrays[name] for name in needs})


def _checked(name: str, value: Array) -> Tensor:
    return as_probabilities(value, name) if name.startswith("probs") else as_matrix(value, name)


def _check_same_columns(arrays: dict[str, Tensor], name: str, other: str) -> None:
    if name in arrays and other in arrays and arrays[name].shape[1] != arrays[other].shape[1]:
        raise UnderstudyError(
            f"{name} has {arrays[name].shape[1]} columns, {other} has {arrays[other].shape[1]}: "
            "both must come from the same architecture"
        )
