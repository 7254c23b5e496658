"""What the user passes, checked once: numpy or torch in, finite CPU tensors out, one length for all.

Nothing is repaired. Float32 and float64 arrays are used where they lie, without a copy; other types become
float32.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from understudy.errors import UnderstudyError

Array = Tensor | ArrayLike


def as_matrix(value: Array, name: str) -> Tensor:
    """A finite (N, columns) tensor on the CPU."""
    matrix = _as_tensor(value)
    if matrix.ndim != 2 or matrix.shape[1] == 0:
        raise UnderstudyError(f"{name} has shape {tuple(matrix.shape)}: pass one row per example, (N, columns)")
    if matrix.dtype not in (torch.float32, torch.float64):
        matrix = matrix.float()
    # NaN and infinity survive a sum, which needs no memory; only a suspicious sum is worth a look at each
    # entry.
    if not bool(torch.isfinite(matrix.sum())):
        bad = (~torch.isfinite(matrix)).any(1).nonzero()
        if len(bad) > 0:
            raise UnderstudyError(
                f"{name} row {int(bad[0])} holds NaN or infinity: fix or drop it ({len(bad)} such rows)"
            )
    return matrix


def as_probabilities(value: Array, name: str) -> Tensor:
    probs = as_matrix(value, name)
    # 1% allows for half-precision softmax outputs; logits are off by far more.
    wrong = ((probs.sum(1) - 1).abs() > 1e-2) | (probs.amin(1) < 0)
    if bool(wrong.any()):
        row = int(wrong.nonzero()[0])
        raise UnderstudyError(
            f"{name} row {row} is not a distribution (sum {float(probs[row].sum()):.4g}, smallest entry "
            f"{float(probs[row].min()):.4g}): pass probabilities, e.g. logits.softmax(-1)"
        )
    return probs


def common_length(matrices: Mapping[str, Tensor], labelled: Tensor | None, size: int | None) -> int:
    """The number of rows in the pool, on which everything given has to agree."""
    lengths = {name: len(matrix) for name, matrix in matrices.items()}
    if labelled is not None and labelled.dtype == torch.bool:
        lengths["labelled"] = len(labelled)
    if size is not None:
        lengths["size"] = size
    if not lengths:
        raise UnderstudyError("the pool's size is unknown: pass size=, a boolean labelled mask, or any of the arrays")
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name}: {length}" for name, length in lengths.items())
        raise UnderstudyError(f"arrays of different lengths ({listed}): all must have one row per pool example")
    return next(iter(lengths.values()))


def as_labelled(value: Array) -> Tensor:
    """Row numbers (int64) or a mask (bool), one-dimensional."""
    labelled = _as_tensor(value)
    if labelled.numel() == 0 and labelled.dtype != torch.bool:
        labelled = labelled.long()
    if labelled.ndim != 1 or labelled.is_floating_point() or labelled.is_complex():
        raise UnderstudyError(
            f"labelled has shape {tuple(labelled.shape)} and type {labelled.dtype}: "
            "pass row numbers or a boolean mask (N,)"
        )
    return labelled if labelled.dtype == torch.bool else labelled.long()


def available_rows(labelled: Tensor | None, length: int) -> Tensor:
    """(N,) bool: the rows that are not labelled yet."""
    available = torch.ones(length, dtype=torch.bool)
    if labelled is None:
        return available
    if labelled.dtype == torch.bool:
        return ~labelled
    outside = labelled[(labelled < 0) | (labelled >= length)]
    if len(outside) > 0:
        raise UnderstudyError(f"labelled holds row number {int(outside[0])}, the pool has rows 0 to {length - 1}")
    available[labelled] = False
    return available


def _as_tensor(value: Array) -> Tensor:
    if isinstance(value, Tensor):
        return value.detach().cpu()
    array = np.asarray(value)
    if any(stride < 0 for stride in array.strides):  # a reversed view, which torch cannot hold
        array = np.ascontiguousarray(array)
    with warnings.catch_warnings():  # a read-only memory map is welcome: nothing here writes
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(array)
