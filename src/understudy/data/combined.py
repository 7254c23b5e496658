"""Rows made of other rows: some of them, or several sources one after the other. Nothing is copied."""

from collections.abc import Iterable
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from understudy.data.rows import Batch, Collate, Rows, TensorRows, collate_items
from understudy.errors import UnderstudyError


class SubsetRows(Rows):
    """Some rows of others."""

    def __init__(self, base: Rows, index: Tensor) -> None:
        self.base, self.index, self.collate = base, index, base.collate

    def __len__(self) -> int:
        return len(self.index)

    def items(self, index: Tensor) -> list[Any]:
        return self.base.items(self.index[index])

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
        self.parts, self.collate = parts, shared_collator(parts)
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

    @property
    def per_row(self) -> bool:
        return any(part.per_row for part in self.parts)


def shared_collator(parts: Iterable[Rows | None]) -> Collate | None:
    """The one collator of rows that meet in a batch; None where none of them has any."""
    collators = [part.collate for part in parts if part is not None]
    if any(collate != collators[0] for collate in collators):
        raise UnderstudyError(
            "rows that meet in a batch have different collators, or some have none; pass the same function as "
            "collate= to every us.Gold and us.Pool"
        )
    return collators[0] if collators else None


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


def concatenate(a: Rows, b: Rows) -> Rows:
    if isinstance(a, TensorRows) and isinstance(b, TensorRows) and a.x.shape[1:] == b.x.shape[1:]:
        # The wider of the two types: integers joined to floats must not be cut, nor the other way round.
        kind = torch.promote_types(a.x.dtype, b.x.dtype)
        return TensorRows(torch.cat([a.x.to(kind), b.x.to(kind)]))
    return ConcatRows([a, b])
