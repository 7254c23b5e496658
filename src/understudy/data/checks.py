"""Turning what users pass into tensors, and refusing what cannot be meant, with the place and the cure."""

import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from understudy.errors import UnderstudyError

# Rows per look at a large array: keeps temporary memory near 100 MB at 100 classes.
CHUNK = 1 << 17
# Softmax outputs stored as float16 miss 1 by up to about 1e-3.
SUM_TOLERANCE = 2e-3


def to_tensor(values: Any, where: str) -> Tensor:
    """A tensor that shares memory with ``values`` where it can (a read-only memory map included)."""
    if isinstance(values, Tensor):
        return values.detach()
    try:
        array = np.asanyarray(values)
        if array.dtype == object or array.dtype.kind in "USOMm":
            raise TypeError(f"it holds {array.dtype} values")
        with warnings.catch_warnings():
            # Read-only maps are only ever read here.
            warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
            return torch.from_numpy(np.asarray(array))
    except (TypeError, ValueError) as error:
        raise UnderstudyError(f"{where} is not a numeric array: {error}; pass a tensor or ndarray") from error


def first_bad(bad: Tensor) -> int:
    return int(bad.nonzero()[0, 0])


def check_length(actual: int, expected: int, what: str, other: str) -> None:
    if actual != expected:
        raise UnderstudyError(f"{what} has {actual} rows but {other} has {expected}; they must match row by row")


def check_probabilities(probs: Tensor, where: str, rows: Tensor | None = None) -> None:
    """Every row finite, non-negative, summing to 1. Nothing is renormalised behind the user's back.

    ``rows``: the numbers the user knows these rows by, for the message.
    """
    if probs.dim() != 2 or probs.shape[1] < 2:
        raise UnderstudyError(
            f"{where} has shape {tuple(probs.shape)}; probabilities are (rows, classes) with 2 classes or more"
        )
    if not probs.is_floating_point():
        raise UnderstudyError(f"{where} holds {probs.dtype}; probabilities are floating-point (hard labels: 1-d ints)")
    for start in range(0, len(probs), CHUNK):
        chunk = probs[start : start + CHUNK].float()
        total = chunk.sum(-1)
        # NaN and infinity make the sum NaN or infinite, so one pass finds them all.
        bad = ~((total - 1).abs() <= SUM_TOLERANCE) | (chunk < 0).any(-1)
        if bool(bad.any()):
            row = first_bad(bad)
            number = start + row if rows is None else int(rows[start + row])
            raise UnderstudyError(_describe_bad_row(chunk[row], number, where))


def _describe_bad_row(row: Tensor, number: int, where: str) -> str:
    if not bool(row.isfinite().all()):
        return f"{where} row {number} holds NaN or infinity; remove the row or have it labelled again"
    if bool((row < 0).any()):
        return (
            f"{where} row {number} holds a negative entry ({row.min():.3g}); pass probabilities, e.g. softmax(logits)"
        )
    return f"{where} row {number} sums to {row.sum():.4g}, not 1; pass probabilities, e.g. softmax(logits)"


def check_labels(labels: Any, where: str, *, missing_allowed: bool = False) -> Tensor:
    """Class numbers ``(n,)`` as int64. −1 means "no label" where that is allowed."""
    tensor = to_tensor(labels, where)
    if tensor.dim() != 1:
        raise UnderstudyError(f"{where} has shape {tuple(tensor.shape)}; class labels are one integer per row")
    if tensor.is_floating_point():
        bad = tensor != tensor.round()
        if bool(bad.any()):
            row = first_bad(bad)
            raise UnderstudyError(f"{where} row {row} is {tensor[row].item()}; class labels are whole numbers")
    tensor = tensor.long()
    bad = tensor < (-1 if missing_allowed else 0)
    if bool(bad.any()):
        row = first_bad(bad)
        raise UnderstudyError(f"{where} row {row} is {tensor[row].item()}; class labels count from 0")
    return tensor


def check_finite(x: Tensor, where: str) -> None:
    for start in range(0, len(x), CHUNK):
        finite = x[start : start + CHUNK].isfinite()
        if not bool(finite.all()):
            row = start + first_bad(~finite.reshape(len(finite), -1).all(-1))
            raise UnderstudyError(f"{where} row {row} holds NaN or infinity; remove the row or fill it in")


def check_ids(ids: Iterable[Any] | None, rows: int, where: str) -> np.ndarray[Any, Any] | None:
    """Row names, unique; kept as given (integers or strings)."""
    if ids is None:
        return None
    array = np.asarray(ids if isinstance(ids, Sequence | np.ndarray | Tensor) else list(ids))
    check_length(len(array), rows, f"{where}.ids", f"{where}.x")
    unique, counts = np.unique(array, return_counts=True)
    if len(unique) < len(array):
        twice = unique[counts > 1][0]
        raise UnderstudyError(f"{where}.ids holds {twice!r} more than once; ids must be unique")
    return array
