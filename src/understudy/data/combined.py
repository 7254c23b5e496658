"""Rows made of other rows: some of them, or several sources one after the other. Nothing is copied."""

from typing import Any

import torch
from torch import Tensor

from understudy.data.rows import Batch, Rows, TensorRows, collate_items, join, shared_collator


class SubsetRows(Rows):
    """Some rows of others."""

    def __init__(self, base: Rows, index: Tensor) -> None:
        self.base, self.index, self.collate = base, index, base.collate
        self.per_row, self.on_disk = base.per_row, base.on_disk
        # Neighbours here are near each other in the file only if they are in its order.
        if base.preferred_block is not None and bool((index[1:] >= index[:-1]).all()):
            self.preferred_block = base.preferred_block

    def __len__(self) -> int:
        return len(self.index)

    def items(self, index: Tensor) -> list[Any]:
        return self.base.items(self.index[index])

    def take(self, index: Tensor) -> Batch:
        return self.base.take(self.index[index])

    def will_need(self, index: Tensor | None) -> None:
        if index is not None:
            self.base.will_need(self.index[index])
        elif 2 * len(self) > len(self.base):
            self.base.will_need(None)


class ConcatRows(Rows):
    """Rows of several sources, one after the other."""

    def __init__(self, parts: list[Rows]) -> None:
        self.parts, self.collate = parts, shared_collator(parts)
        self.per_row = any(part.per_row for part in parts)
        self.ends = torch.tensor([len(part) for part in parts]).cumsum(0)

    def __len__(self) -> int:
        return int(self.ends[-1])

    def items(self, index: Tensor) -> list[Any]:
        items: list[Any] = [None] * len(index)
        for part, positions, theirs in self._split(index):
            for position, item in zip(positions.tolist(), part.items(theirs), strict=True):
                items[position] = item
        return items

    def take(self, index: Tensor) -> Batch:
        if self.collate is not None:
            return collate_items(self.collate, self.items(index))
        split = self._split(index)
        batch = join([part.take(theirs) for part, _, theirs in split])
        return _reorder(batch, torch.cat([positions for _, positions, _ in split]).argsort())

    def _split(self, index: Tensor) -> list[tuple[Rows, Tensor, Tensor]]:
        """Per source that is asked: positions in ``index``, and the rows there."""
        source = torch.searchsorted(self.ends, index, right=True)
        split = []
        for number, part in enumerate(self.parts):
            positions = (source == number).nonzero().squeeze(1)
            if len(positions):
                split.append((part, positions, index[positions] - int(self.ends[number]) + len(part)))
        return split


def _reorder(batch: Batch, order: Tensor) -> Batch:
    if isinstance(batch, Tensor):
        return batch[order]
    return {key: value[order] for key, value in batch.items()}


def concatenate(a: Rows, b: Rows) -> Rows:
    if isinstance(a, TensorRows) and isinstance(b, TensorRows) and a.x.shape[1:] == b.x.shape[1:]:
        # The wider of the two types: integers joined to floats must not be cut, nor the other way round.
        kind = torch.promote_types(a.x.dtype, b.x.dtype)
        return TensorRows(torch.cat([a.x.to(kind), b.x.to(kind)]))
    return ConcatRows([a, b])
