"""Rows of features, wherever they live: a tensor, an array, a memory map or a map-style Dataset.

All the training loop needs is ``len(rows)`` and ``rows.take(index) -> batch``. An array in memory or on disk is one
indexing call per batch; a Dataset is asked row by row and collated, which is what its DataLoader workers are for. A
memory map may also say how its rows are best shuffled:

    us.Pool(np.load("x.npy", mmap_mode="r"), probs)                       # by its size
    us.Pool(mapped_rows("x.npy", shuffle="block"), probs)                 # or "full", or the rows of a block
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import default_collate

from understudy.data.checks import check_finite, to_tensor
from understudy.data.paging import COMFORTABLE, Readahead, block_rows, total_memory
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

    @property
    def on_disk(self) -> bool:
        """True where ``will_need`` is of use."""
        return False

    @property
    def preferred_block(self) -> int | None:
        """How many neighbouring rows are best read together; None where every row is as near as any other."""
        return None

    def will_need(self, index: Tensor | None) -> None:
        """Advice that these rows (None: all) are read soon; also from another thread."""
        return


class TensorRows(Rows):
    def __init__(self, x: Tensor) -> None:
        self.x = x

    def __len__(self) -> int:
        return len(self.x)

    def take(self, index: Tensor) -> Tensor:
        rows = self.x.index_select(0, index.to(self.x.device))
        # Models are float32 by default; integers (token ids, say) stay what they are.
        return rows.to(torch.get_default_dtype()) if rows.is_floating_point() else rows


class MappedRows(TensorRows):
    """A memory-mapped file; only what a batch asks for is ever read into memory of our own."""

    def __init__(self, array: np.memmap[Any, Any], *, shuffle: str | int = "auto", where: str = "x") -> None:
        super().__init__(to_tensor(array, where))
        self.ahead = Readahead(array)
        self.block = _block_of(array, shuffle)

    @property
    def on_disk(self) -> bool:
        return True

    @property
    def preferred_block(self) -> int | None:
        return self.block

    def will_need(self, index: Tensor | None) -> None:
        if index is None:
            self.ahead.whole(len(self))
        else:
            self.ahead.rows(index, self.block or block_rows(self.ahead.row_bytes))


def mapped_rows(x: np.memmap[Any, Any] | str | Path, *, shuffle: str | int = "auto") -> MappedRows:
    """A memory map, or the name of an ``.npy`` file, as rows that are shuffled in a way of your choice.

    "full": every row with every other. "block": see ``data/batches.py``; a number: so many rows per block. "auto":
    "full" while the file fills no more than half of the memory, else "block".
    """
    if isinstance(x, str | Path):
        try:
            x = np.load(x, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError) as error:
            raise UnderstudyError(f"cannot map {x} as .npy: {error}; write it with np.save") from error
    if not isinstance(x, np.memmap) or not x.ndim:
        raise UnderstudyError(
            f"mapped_rows takes a memory map of rows, not a {type(x).__name__}; use np.load(…, mmap_mode='r')"
        )
    return MappedRows(x, shuffle=shuffle)


def _block_of(array: np.memmap[Any, Any], shuffle: str | int) -> int | None:
    best = block_rows(array.nbytes // max(1, len(array)))
    if shuffle == "auto":
        return best if array.nbytes > COMFORTABLE * total_memory() else None
    if isinstance(shuffle, str) and shuffle in ("full", "block"):
        return best if shuffle == "block" else None
    if isinstance(shuffle, bool) or not isinstance(shuffle, int) or shuffle < 1:
        raise UnderstudyError(f"shuffle={shuffle!r} is unknown; use 'auto', 'full', 'block' or the rows of a block")
    return shuffle


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

    @property
    def on_disk(self) -> bool:
        return self.base.on_disk

    @cached_property
    def preferred_block(self) -> int | None:
        # Neighbours here are near each other in the file only if they are in its order.
        rising = bool((self.index[1:] >= self.index[:-1]).all())
        return self.base.preferred_block if rising else None

    def will_need(self, index: Tensor | None) -> None:
        if index is not None:
            self.base.will_need(self.index[index])
        elif 2 * len(self) > len(self.base):
            self.base.will_need(None)


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
    # What was computed from a map is still called one, and lies in memory.
    if isinstance(x, np.memmap) and x.ndim and x.offset is not None:
        return MappedRows(x, where=where)
    if isinstance(x, Tensor | np.ndarray | list | tuple):
        tensor = to_tensor(x, where)
        if tensor.dim() == 0:
            raise UnderstudyError(f"{where} is a single number; it holds one row per example")
        if tensor.is_floating_point():
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
