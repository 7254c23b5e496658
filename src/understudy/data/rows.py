"""Rows of features, wherever they live: a tensor, an array, a memory map or a map-style Dataset.

All the training loop needs is ``len(rows)`` and ``rows.take(index) -> batch``. An array in memory or on disk is one
indexing call per batch; a Dataset is asked row by row and collated, which is what its DataLoader workers are for.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import default_collate

from understudy.data.checks import check_finite, to_tensor
from understudy.errors import UnderstudyError

Batch = Any
"""What the student's forward takes: a tensor, or a mapping of tensors passed as keyword arguments."""


class Rows(ABC):
    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def take(self, index: Tensor) -> Batch: ...

    @property
    def per_row(self) -> bool:
        """True where rows are fetched one at a time, so that worker processes pay off."""
        return False


class TensorRows(Rows):
    def __init__(self, x: Tensor) -> None:
        self.x = x

    def __len__(self) -> int:
        return len(self.x)

    def take(self, index: Tensor) -> Tensor:
        rows = self.x.index_select(0, index.to(self.x.device))
        # Models are float32 by default; integers (token ids, say) stay what they are.
        return rows.to(torch.get_default_dtype()) if rows.is_floating_point() else rows


class DatasetRows(Rows):
    """A map-style Dataset whose items are x, or tuples that begin with x."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def take(self, index: Tensor) -> Batch:
        items = [self.dataset[i] for i in index.tolist()]
        return default_collate([item[0] if isinstance(item, tuple | list) else item for item in items])

    @property
    def per_row(self) -> bool:
        return True


class SubsetRows(Rows):
    """Some rows of others, without copying them."""

    def __init__(self, base: Rows, index: Tensor) -> None:
        self.base, self.index = base, index

    def __len__(self) -> int:
        return len(self.index)

    def take(self, index: Tensor) -> Batch:
        return self.base.take(self.index[index])

    @property
    def per_row(self) -> bool:
        return self.base.per_row


class ConcatRows(Rows):
    """Rows of several sources, one after the other."""

    def __init__(self, parts: list[Rows]) -> None:
        self.parts = parts
        self.ends = torch.tensor([len(part) for part in parts]).cumsum(0)

    def __len__(self) -> int:
        return int(self.ends[-1])

    def take(self, index: Tensor) -> Batch:
        source = torch.searchsorted(self.ends, index, right=True)
        pieces, places = [], []
        for number, part in enumerate(self.parts):
            here = (source == number).nonzero().squeeze(1)
            if len(here):
                offset = int(self.ends[number]) - len(part)
                pieces.append(part.take(index[here] - offset))
                places.append(here)
        return _reorder(join(pieces), torch.cat(places).argsort())

    @property
    def per_row(self) -> bool:
        return any(part.per_row for part in self.parts)


def join(batches: list[Batch]) -> Batch:
    """Batches stacked along the first axis; a single one is returned as it is."""
    if len(batches) == 1:
        return batches[0]
    if isinstance(batches[0], Tensor):
        return torch.cat(batches)
    return {key: torch.cat([batch[key] for batch in batches]) for key in batches[0]}


def _reorder(batch: Batch, order: Tensor) -> Batch:
    if isinstance(batch, Tensor):
        return batch[order]
    return {key: value[order] for key, value in batch.items()}


def as_rows(x: Any, where: str) -> Rows:
    """Whatever a user passes as ``x``. Arrays in memory are checked for NaN now; files and Datasets are not read."""
    if isinstance(x, Rows):
        return x
    if isinstance(x, Tensor | np.ndarray | list | tuple):
        tensor = to_tensor(x, where)
        if tensor.dim() == 0:
            raise UnderstudyError(f"{where} is a single number; it holds one row per example")
        if tensor.is_floating_point() and not isinstance(x, np.memmap):
            check_finite(tensor, where)
        return TensorRows(tensor)
    is_frame = hasattr(x, "columns")  # a DataFrame is indexed by column, not by row
    if hasattr(x, "__getitem__") and hasattr(x, "__len__") and not isinstance(x, str | Mapping) and not is_frame:
        return DatasetRows(x)
    raise UnderstudyError(
        f"{where} is a {type(x).__name__}; pass a tensor, an ndarray, a memory map or a map-style Dataset"
    )


def concatenate(a: Rows, b: Rows) -> Rows:
    if isinstance(a, TensorRows) and isinstance(b, TensorRows) and a.x.shape[1:] == b.x.shape[1:]:
        # The wider of the two types: integers joined to floats must not be cut, nor the other way round.
        kind = torch.promote_types(a.x.dtype, b.x.dtype)
        return TensorRows(torch.cat([a.x.to(kind), b.x.to(kind)]))
    return ConcatRows([a, b])
