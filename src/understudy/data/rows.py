"""Rows of features, wherever they live: a tensor, an array, a memory map, a mapping of these, a map-style Dataset; some
rows of others, or several sources one after the other.

All the training loop needs is ``len(rows)`` and ``rows.take(index) -> batch``. An array in memory or on disk is one
indexing call per batch; a Dataset is asked row by row and collated, which is what its DataLoader workers are for:

    us.Pool({"input_ids": ids, "attention_mask": mask}, probs)            # a batch is the mapping of the taken rows
    us.Pool(dataset, probs, collate=pad)                                  # pad(items) -> what the student takes

Rows with a collator are *items* until a batch is made, so that the gold and the pool rows of one batch are collated
together and get one padding. A memory map may say how its rows are best shuffled:

    us.Pool(np.load("x.npy", mmap_mode="r"), probs)                       # by its size
    us.Pool(mapped_rows("x.npy", shuffle="block"), probs)                 # or "full", or the rows of a block
"""

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import default_collate

from understudy.data.checks import check_finite, check_length, to_tensor
from understudy.data.memory import COMFORTABLE, Readahead, block_rows, total_memory
from understudy.errors import UnderstudyError
from understudy.store.settings import Above, Hash, add, add_parts, add_tensor, looked_at

if TYPE_CHECKING:
    from scipy import sparse

Batch = Any
"""What the student's forward takes: a tensor, or a mapping of tensors passed as keyword arguments."""
Collate = Callable[[list[Any]], Batch]


class Rows(ABC):
    collate: Collate | None = None
    """Makes a batch of ``items``, where the user gave a collator."""
    per_row: bool = False
    """Whether rows are fetched one at a time, so that worker processes pay off."""
    on_disk: bool = False
    """Whether ``will_need`` is of use."""
    is_sparse: bool = False
    """Whether ``take_sparse`` has an answer."""
    preferred_block: int | None = None
    """How many neighbouring rows are best read together; None where every row is as near as any other."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def take(self, index: Tensor) -> Batch: ...

    def take_sparse(self, index: Tensor) -> "sparse.csr_matrix[Any]":
        """The rows as the entries that are not zero, for a student that can take them so."""
        raise NotImplementedError(f"{type(self).__name__} holds dense rows")

    def items(self, index: Tensor) -> list[Any]:
        """The rows as they are before ``collate``, where there is one."""
        raise NotImplementedError(f"{type(self).__name__} has no collator")

    def will_need(self, index: Tensor | None) -> None:
        """Advice that these rows (None: all) are read soon; also from another thread."""
        return


@dataclass(eq=False)
class TensorRows(Rows):
    x: Tensor

    def __len__(self) -> int:
        return len(self.x)

    def take(self, index: Tensor) -> Tensor:
        rows = self.x.index_select(0, index.to(self.x.device))
        # Models are float32 by default; integers (token ids, say) stay what they are.
        return rows.to(torch.get_default_dtype()) if rows.is_floating_point() else rows


class SparseRows(Rows):
    """Rows of a sparse matrix; a batch of them is dense, unless it is asked for sparse.

    50,000 reviews × 20,000 terms are 4 GB as floats and 90 MB as the terms that occur; a dense batch of 128 is 10 MB.
    """

    is_sparse = True

    def __init__(self, matrix: "sparse.csr_matrix[Any]") -> None:
        self.matrix = matrix

    def __len__(self) -> int:
        return int(self.matrix.shape[0])

    @property
    def shape(self) -> tuple[int, int]:
        return len(self), int(self.matrix.shape[1])

    def take(self, index: Tensor) -> Tensor:
        return torch.from_numpy(self.take_sparse(index).toarray()).to(torch.get_default_dtype())

    def take_sparse(self, index: Tensor) -> "sparse.csr_matrix[Any]":
        return self.matrix[index.cpu().numpy()]


class MappedRows(TensorRows):
    """A memory-mapped file; only what a batch asks for is ever read into memory of our own."""

    on_disk = True

    def __init__(self, array: np.memmap[Any, Any], *, shuffle: str | int = "auto", where: str = "x") -> None:
        super().__init__(to_tensor(array, where))
        self.ahead = Readahead(array)
        self.preferred_block = _block_of(array, shuffle)

    def will_need(self, index: Tensor | None) -> None:
        if index is None:
            self.ahead.whole(len(self))
        else:
            self.ahead.rows(index, self.preferred_block or block_rows(self.ahead.row_bytes))


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


class MappingRows(Rows):
    """Tensors of one length by the names of the student's arguments; a batch is the mapping of their rows."""

    def __init__(self, parts: Mapping[str, TensorRows]) -> None:
        self.parts = parts
        self.on_disk = any(part.on_disk for part in parts.values())
        blocks = [part.preferred_block for part in parts.values() if part.preferred_block]
        self.preferred_block = min(blocks, default=None)

    def __len__(self) -> int:
        return len(next(iter(self.parts.values())))

    def take(self, index: Tensor) -> dict[str, Tensor]:
        return {name: part.take(index) for name, part in self.parts.items()}

    def will_need(self, index: Tensor | None) -> None:
        for part in self.parts.values():
            part.will_need(index)


class DatasetRows(Rows):
    """A map-style Dataset. Its items are x, or tuples that begin with x; a collator gets them as they are."""

    per_row = True

    def __init__(self, dataset: Any, collate: Collate | None = None) -> None:
        self.dataset, self.collate = dataset, collate

    def __len__(self) -> int:
        return len(self.dataset)

    def items(self, index: Tensor) -> list[Any]:
        return [self.dataset[i] for i in index.tolist()]

    def take(self, index: Tensor) -> Batch:
        items = self.items(index)
        if self.collate is not None:
            return collate_items(self.collate, items)
        return default_collate([item[0] if isinstance(item, tuple | list) else item for item in items])


def collate_items(collate: Collate, items: list[Any]) -> Batch:
    batch = collate(items)
    # Tokenizers' own mappings move tensors about in ways of their own; a plain one does not.
    fields = dict(batch) if isinstance(batch, Mapping) else {"": batch}
    for name, value in fields.items():
        if not isinstance(value, Tensor) or value.shape[:1] != (len(items),):
            shown = f"shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
            raise UnderstudyError(
                f"collate made {shown}{f' as {name!r}' if name else ''} of {len(items)} rows; it returns what the "
                "student takes: a tensor with one entry per row, or a mapping of such tensors"
            )
    return fields if isinstance(batch, Mapping) else batch


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


class SubsetRows(Rows):
    """Some rows of others."""

    def __init__(self, base: Rows, index: Tensor) -> None:
        self.base, self.index, self.collate = base, index, base.collate
        self.per_row, self.on_disk, self.is_sparse = base.per_row, base.on_disk, base.is_sparse
        # Neighbours here are near each other in the file only if they are in its order.
        if base.preferred_block is not None and bool((index[1:] >= index[:-1]).all()):
            self.preferred_block = base.preferred_block

    def __len__(self) -> int:
        return len(self.index)

    def items(self, index: Tensor) -> list[Any]:
        return self.base.items(self.index[index])

    def take(self, index: Tensor) -> Batch:
        return self.base.take(self.index[index])

    def take_sparse(self, index: Tensor) -> "sparse.csr_matrix[Any]":
        return self.base.take_sparse(self.index[index])

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
        self.is_sparse = all(part.is_sparse for part in parts)
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

    def take_sparse(self, index: Tensor) -> "sparse.csr_matrix[Any]":
        from scipy import sparse

        split = self._split(index)
        stacked = sparse.csr_matrix(
            sparse.vstack([part.take_sparse(theirs) for part, _, theirs in split], format="csr")
        )
        return stacked[torch.cat([positions for _, positions, _ in split]).argsort().numpy()]

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


def as_rows(x: Any, where: str, collate: Collate | None = None) -> Rows:
    """Whatever a user passes as ``x``. Arrays in memory are checked for NaN now; files and Datasets are not read."""
    if isinstance(x, Rows) and collate in (None, x.collate):
        return x
    is_frame = hasattr(x, "columns")  # a DataFrame is indexed by column, not by row
    is_dataset = hasattr(x, "__getitem__") and hasattr(x, "__len__") and not isinstance(x, str | Mapping | Rows)
    if collate is not None:
        if not callable(collate) or not is_dataset or is_frame:
            raise UnderstudyError(
                f"{where}: collate= is a function that makes a batch of a list of a Dataset's items; here collate is a "
                f"{type(collate).__name__} and x a {type(x).__name__}"
            )
        return DatasetRows(x, collate)
    # Nobody holds a sparse matrix who has not loaded SciPy's module for them.
    loaded: Any = sys.modules.get("scipy.sparse")
    if loaded is not None and loaded.issparse(x):
        return _sparse_rows(x, where)
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
    if isinstance(x, Mapping):
        return _mapping_rows(x, where)
    if is_dataset and not is_frame:
        return DatasetRows(x)
    raise UnderstudyError(
        f"{where} is a {type(x).__name__}; pass a tensor, an ndarray, a memory map, a mapping of these or a map-style "
        "Dataset"
    )


def _sparse_rows(x: Any, where: str) -> SparseRows:
    from scipy import sparse

    if x.dtype.kind not in "fiub" or len(x.shape) != 2:
        raise UnderstudyError(f"{where} is sparse, {x.dtype} of shape {x.shape}; pass a matrix of real numbers")
    matrix = sparse.csr_matrix(x)
    if not np.isfinite(matrix.data).all():
        row = int(np.searchsorted(matrix.indptr, (~np.isfinite(matrix.data)).argmax(), side="right")) - 1
        raise UnderstudyError(f"{where} row {row} holds NaN or infinity; remove the row or fill it in")
    return SparseRows(matrix)


def _mapping_rows(x: Mapping[Any, Any], where: str) -> MappingRows:
    parts: dict[str, TensorRows] = {}
    for name, values in x.items():
        part = as_rows(values, f"{where}[{name!r}]")
        if not isinstance(name, str) or not isinstance(part, TensorRows):
            raise UnderstudyError(
                f"{where}[{name!r}] is a {type(values).__name__}; a mapping holds tensors or arrays by the names of "
                "the student's arguments"
            )
        parts[name] = part
        check_length(len(part), len(next(iter(parts.values()))), f"{where}[{name!r}]", f"{where}[{next(iter(x))!r}]")
    if not parts:
        raise UnderstudyError(f"{where} is an empty mapping; give at least one tensor by the name of an argument")
    return MappingRows(parts)


@add_parts.register
def _(rows: Rows, into: Hash, above: Above) -> None:
    """In a fingerprint, of a Dataset, which may draw its rows at random, only the length counts."""
    into.update(f"{len(rows)}".encode())
    if isinstance(rows, TensorRows):
        add_tensor(rows.x, into)
    elif len(rows) and not rows.per_row:
        first = rows.take(torch.arange(1))
        size = len(rows) * sum(part.nbytes for part in (first.values() if isinstance(first, Mapping) else [first]))
        add(rows.take(looked_at(len(rows), size)), into, above)
