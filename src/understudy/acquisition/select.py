"""Choose the n examples most worth a label, by name: `select("badge", 100, probs=p, hidden=h)`.

probs are class probabilities (N, C), hidden penultimate features (N, d); `_ema` the same from the moving average of the
parameters. Each strategy, and which of these it needs, is a file in ``strategies/``; random needs only `size=`.

What the user passes is checked once: numpy or torch in, finite CPU tensors out, one length for all. Nothing is
repaired. Float32 and float64 arrays are used where they lie, without a copy; other types become float32.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from understudy.acquisition.strategies import STRATEGIES
from understudy.acquisition.strategy import ArrayRows, Reasons, ScoredRows, Strategy
from understudy.data.checks import check_finite, to_tensor
from understudy.errors import UnderstudyError, warn
from understudy.store.option_fields import checked

Array = Tensor | ArrayLike


class Scores(NamedTuple):
    """What the strategies look at, of every pool row."""

    probs: Tensor
    hidden: Tensor
    probs_ema: Tensor | None = None
    hidden_ema: Tensor | None = None

    def arrays(self) -> dict[str, Tensor]:
        """As ``us.select`` takes them."""
        return {name: value for name, value in self._asdict().items() if value is not None}


def strategy_named(name: str) -> Strategy:
    if name not in STRATEGIES:
        raise UnderstudyError(f"unknown strategy {name!r}: use one of {', '.join(STRATEGIES)}")
    return STRATEGIES[name]


@checked
def select(
    strategy: str, n: int, *, probs: Array | None = None, hidden: Array | None = None, hidden_ema: Array | None = None,
    probs_ema: Array | None = None, labelled: Array | None = None, size: int | None = None, seed: int = 0,
) -> Tensor:  # fmt: skip
    """n distinct row numbers (int64), in the order picked; the same for the same arrays and seed.

    `labelled`: row numbers or a boolean mask (N,) of rows never to be picked; core-set starts from them.
    `size`: the pool's length, needed only where no array tells it. Arrays that a strategy does not need are
    ignored, except that their shapes must fit.
    """
    given = {"probs": probs, "probs_ema": probs_ema, "hidden": hidden, "hidden_ema": hidden_ema}
    return pick_rows(strategy, n, *_given_rows(strategy, given, labelled, size), seed=seed)


@checked
def selection_probability(
    strategy: str, n: int, *, probs: Array | None = None, labelled: Array | None = None, size: int | None = None
) -> Tensor:
    """The probability with which ``select`` picks each row, (N,) float64, over all seeds; they sum to n.

    Known of "random" and "proportional", whose labels can therefore estimate: ``us.Gold(…, probability=…)``.
    """
    rows, available = _given_rows(strategy, {"probs": probs}, labelled, size)
    probability = inclusion(strategy, n, rows, available)
    if probability is None:
        known = "random and proportional"
        raise UnderstudyError(f"{strategy} picks rows with probabilities that are not known; use {known}")
    return probability


def pick_rows(strategy: str, n: int, rows: ScoredRows, available: Tensor, *, seed: int) -> Tensor:
    """n of the available rows, (N,) bool, wherever they lie."""
    chosen = strategy_named(strategy)
    _check_size(n, available)
    if "hidden_ema" in chosen.needs and rows.same_features:
        why = "(a linear student has no features of its own); use badge, or a student with a hidden layer"
        warn(f"the student's features are those of its moving average, so {strategy} picks at random {why}")
    return chosen.pick(n, rows, available=available, generator=torch.Generator().manual_seed(seed))


def inclusion(strategy: str, n: int, rows: ScoredRows, available: Tensor) -> Tensor | None:
    """With which probability each row is one of n picks; None where the strategy does not know it."""
    _check_size(n, available)
    return strategy_named(strategy).inclusion(n, rows, available=available)


def _check_size(n: int, available: Tensor) -> None:
    left = int(available.sum())
    if not 0 <= n <= left:
        raise UnderstudyError(f"n = {n}, but {left} of {len(available)} rows are not labelled yet: ask for 0 to {left}")


def explain(
    strategy: str, picks: Tensor, scores: Scores, labelled: Tensor, *, names: Sequence[str] | None = None
) -> Reasons:
    """Scores and phrases of the picks, in their order. ``labelled``: row numbers that had labels before."""
    names = names or [str(number) for number in range(scores.probs.shape[1])]
    return strategy_named(strategy).explain(picks, scores.arrays(), labelled=labelled, names=names)


def checked_arrays(given: Mapping[str, Array | None]) -> dict[str, Tensor]:
    """The arrays that are there, as matrices; those of the moving average as wide as the student's."""
    arrays = {name: _as_matrix(value, name) for name, value in given.items() if value is not None}
    for name, other in (("probs", "probs_ema"), ("hidden", "hidden_ema")):
        columns = [arrays[each].shape[1] for each in (name, other) if each in arrays]
        if len(set(columns)) > 1:
            raise UnderstudyError(f"{name} has {columns[0]} columns, {other} has {columns[1]}: use one model")
    return arrays


def _as_matrix(value: Array, name: str) -> Tensor:
    """A finite (N, columns) tensor on the CPU; of distributions, where it is named so."""
    matrix = _as_tensor(value, name)
    if matrix.ndim != 2 or matrix.shape[1] == 0:
        raise UnderstudyError(f"{name} has shape {tuple(matrix.shape)}: pass one row per example, (N, columns)")
    if matrix.dtype not in (torch.float32, torch.float64):
        matrix = matrix.float()
    check_finite(matrix, name)
    # 1% allows for half-precision softmax outputs; logits are off by far more.
    if name.startswith("probs") and bool((wrong := ((matrix.sum(1) - 1).abs() > 1e-2) | (matrix.amin(1) < 0)).any()):
        row = int(wrong.nonzero()[0])
        held = f"sum {float(matrix[row].sum()):.4g}, smallest entry {float(matrix[row].min()):.4g}"
        raise UnderstudyError(f"{name} row {row} is not a distribution ({held}): pass logits.softmax(-1)")
    return matrix


def _given_rows(
    strategy: str, given: Mapping[str, Array | None], labelled: Array | None, size: int | None
) -> tuple[ArrayRows, Tensor]:
    """The arrays, checked, and which rows may be picked."""
    missing = [name for name in strategy_named(strategy).needs if given.get(name) is None]
    if missing:
        raise UnderstudyError(f"strategy {strategy!r} needs {' and '.join(missing)}: pass {missing[0]}=…")
    arrays = checked_arrays(given)
    available = _available_rows(arrays, labelled, size)
    return ArrayRows(arrays, len(available)), available


def _available_rows(arrays: Mapping[str, Tensor], labelled: Array | None, size: int | None) -> Tensor:
    """(N,) bool: the rows that are not labelled yet, in a pool on whose length everything given has to agree."""
    lengths = {name: len(matrix) for name, matrix in arrays.items()}
    rows = torch.empty(0, dtype=torch.long) if labelled is None else _as_labelled(labelled)
    if rows.dtype == torch.bool:
        lengths["labelled"] = len(rows)
    if size is not None:
        lengths["size"] = size
    if not lengths:
        raise UnderstudyError("the pool's size is unknown: pass size=, a boolean labelled mask, or any of the arrays")
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name}: {length}" for name, length in lengths.items())
        raise UnderstudyError(f"arrays of different lengths ({listed}): all must have one row per pool example")
    length = next(iter(lengths.values()))
    if rows.dtype == torch.bool:
        return ~rows
    outside = rows[(rows < 0) | (rows >= length)]
    if len(outside) > 0:
        raise UnderstudyError(f"labelled holds row number {int(outside[0])}, the pool has rows 0 to {length - 1}")
    return torch.ones(length, dtype=torch.bool).index_fill(0, rows, False)


def _as_labelled(value: Array) -> Tensor:
    """Row numbers (int64) or a mask (bool), one-dimensional."""
    labelled = _as_tensor(value, "labelled")
    if labelled.numel() == 0 and labelled.dtype != torch.bool:
        labelled = labelled.long()
    if labelled.ndim != 1 or labelled.is_floating_point():
        held = f"shape {tuple(labelled.shape)} and type {labelled.dtype}"
        raise UnderstudyError(f"labelled has {held}: pass row numbers or a boolean mask (N,)")
    return labelled if labelled.dtype == torch.bool else labelled.long()


def _as_tensor(value: Array, name: str) -> Tensor:
    if isinstance(value, np.ndarray) and any(stride < 0 for stride in value.strides):
        value = np.ascontiguousarray(value)  # a reversed view, which torch cannot hold
    return to_tensor(value, name).cpu()
