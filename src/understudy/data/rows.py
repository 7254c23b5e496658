"""Rows of features, wherever they live: a tensor, a sparse matrix, a memory map, a mapping of these, a map-style
Dataset; some rows of others (``SubsetRows``), or several sources one after the other (``ConcatRows``).

All the training loop needs is ``len(rows)`` and ``rows.take(index) -> batch``. An array in memory or on disk is one
indexing call per batch; a Dataset is read row by row and collated, which is what its DataLoader workers are for:

    us.Pool({"input_ids": ids, "attention_mask": mask}, probs)            # a batch is the mapping of the taken rows
    us.Pool(dataset, probs, collate=pad)                                  # pad(items) -> what the student takes

Rows with a collator are *items* until a batch is made, so that the gold and the pool rows of one batch are collated
together and get one padding. A memory map may say how its rows are best shuffled:

    us.Pool(np.load("x.npy", mmap_mode="r"), probs)                       # by its size
    us.Pool(mapped_rows("x.npy", shuffle="block"), probs)                 # or "full", or the rows of a block

It costs no memory of the process: the kernel keeps as much of the file as it has room for. While the whole file fits,
any row is a memory access away; beyond that a random row is a read from disk, and rows should be read in blocks. Which
of the two it is depends on the machine's memory and the file's size alone, not on the moment, so that a training
repeated on one machine draws the same batches.

Subsets and concatenations are read through their *pieces*: the sources they are made of and which rows of each. What
only some sources offer (sparse rows, items, texts) is a function over pieces: ``take_sparse``, ``take_items``,
and, for texts, ``data/inputs.py``, which makes rows of what users pass.
"""

import ctypes
import mmap
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import default_collate

from understudy.data.checks import to_tensor, total_memory
from understudy.errors import UnderstudyError
from understudy.store.fingerprints import Above, Hash, add, add_parts, looked_at

if TYPE_CHECKING:
    from scipy import sparse

#: What the student's forward takes: a tensor, or a mapping of tensors passed as keyword arguments.
Batch = Any
Collate = Callable[[list[Any]], Batch]
# A disk that takes 1 ms to find a place reads 256 KB in about as long; the kernel's own readahead is 128 KB.
BLOCK_BYTES = 256 << 10
# Files up to this share of the memory stay in it once read, beside what the training itself needs.
COMFORTABLE = 0.5
#: A source, positions in the requested index, and the source's rows there.
Piece = tuple["Rows", Tensor, Tensor]


class Rows(ABC):
    #: How many there are.
    count: int
    #: Makes a batch of items, where the user gave a collator.
    collate: Collate | None = None
    #: Whether rows are fetched one at a time, so that worker processes pay off.
    per_row: bool = False
    #: Names of a frame's columns that form these rows, to detect another order.
    names: tuple[str, ...] | None = None
    #: How many neighbouring rows are best read together; None where every row is as near as any other.
    preferred_block: int | None = None
    #: Whether ``take_sparse`` applies.
    is_sparse: bool = False
    #: Whether these are texts that have not been tokenized.
    is_text: bool = False
    #: Whether rows are read from a memory-mapped file, so that ``will_need`` helps.
    is_mapped: bool = False

    def __len__(self) -> int:
        return self.count

    @abstractmethod
    def take(self, index: Tensor) -> Batch: ...

    def pieces(self, index: Tensor) -> list[Piece]:
        return [(self, torch.arange(len(index)), index)]

    def lengths(self) -> Tensor | None:
        """The length of every row, ``(rows,)``, where rows differ and a batch is as long as its longest; else None."""
        return None

    def will_need(self, index: Tensor | None, *, mixed: bool = False) -> None:
        """Advice that these rows (None: all) are read soon, ``mixed``: in any order; also from another thread."""
        return


class TensorRows(Rows):
    #: Not part of a fingerprint.
    derived = ("count", "names", "preferred_block", "row_bytes")

    def __init__(self, x: Tensor) -> None:
        self.x, self.count = x, len(x)

    def take(self, index: Tensor) -> Tensor:
        rows = self.x.index_select(0, index.to(self.x.device))
        # Models are float32 by default; integers (token ids, say) stay what they are.
        return rows.to(torch.get_default_dtype()) if rows.is_floating_point() else rows


class SparseRows(Rows):
    """Rows of a sparse matrix; a batch of them is dense, except by ``take_sparse``.

    50,000 reviews × 20,000 terms are 4 GB as floats and 90 MB as the terms that occur; a dense batch of 128 is 10 MB.
    """

    is_sparse = True

    def __init__(self, matrix: "sparse.csr_matrix[Any]") -> None:
        self.matrix, self.count = matrix, int(matrix.shape[0])

    def take(self, index: Tensor) -> Tensor:
        return torch.from_numpy(self.take_sparse(index).toarray()).to(torch.get_default_dtype())

    def take_sparse(self, index: Tensor) -> "sparse.csr_matrix[Any]":
        return self.matrix[index.cpu().numpy()]


class MappedRows(TensorRows):
    """A memory-mapped file; only the rows of a batch are ever read into memory."""

    is_mapped = True

    def __init__(self, array: np.memmap[Any, Any], *, shuffle: str | int = "auto", where: str = "x") -> None:
        super().__init__(to_tensor(array, where))
        self.preferred_block = _block_of(array, shuffle)
        self.row_bytes = array.nbytes // max(1, len(array))

    def will_need(self, index: Tensor | None, *, mixed: bool = False) -> None:
        """Has the kernel read the blocks in which these rows lie, neighbouring ones in one request, while the student
        computes."""
        # Else a fault reads 128 KB for one row: 200 times the file, where memory cannot keep the rest.
        self._advise("MADV_RANDOM" if mixed else "MADV_NORMAL", 0, self.count)
        spans, block = [(0, self.count)], self.preferred_block or block_rows(self.row_bytes)
        if index is not None:
            blocks = np.unique(index.numpy() // block)
            runs = np.split(blocks, np.flatnonzero(np.diff(blocks) > 1) + 1)
            spans = [(int(run[0]) * block, (int(run[-1]) + 1) * block) for run in runs if len(run)]
        for first, stop in spans:
            self._advise("MADV_WILLNEED", first, min(stop, self.count))

    def _advise(self, advice: str, first: int, stop: int) -> None:
        """Advice to the kernel only: without it the same rows are read, later or with others."""
        if self.x.is_contiguous() and hasattr(mmap, advice):
            start, length = self.x.data_ptr() + first * self.row_bytes, (stop - first) * self.row_bytes
            past = start % mmap.PAGESIZE
            ctypes.CDLL(None).madvise(
                ctypes.c_void_p(start - past), ctypes.c_size_t(past + length), getattr(mmap, advice)
            )


def mapped_rows(x: np.memmap[Any, Any] | str | Path, *, shuffle: str | int = "auto") -> MappedRows:
    """A memory map, or the name of an ``.npy`` file, as rows with a chosen way to shuffle.

    "full": every row with every other. "block": see ``data/batches.py``; a number: so many rows per block. "auto":
    "full" while the file fills no more than half of the memory, else "block".
    """
    if isinstance(x, str | Path):
        try:
            x = np.load(x, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError) as error:
            raise UnderstudyError(f"cannot map {x} as .npy: {error}; write it with np.save") from error
    if not isinstance(x, np.memmap) or not x.ndim:
        kind = type(x).__name__
        raise UnderstudyError(f"mapped_rows takes a memory map of rows, not a {kind}; use np.load(…, mmap_mode='r')")
    return MappedRows(x, shuffle=shuffle)


def block_rows(row_bytes: int) -> int:
    """How many rows make a block worth a read of its own."""
    return max(1, BLOCK_BYTES // max(1, row_bytes))


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
        blocks = [part.preferred_block for part in parts.values() if part.preferred_block]
        self.preferred_block = min(blocks, default=None)
        self.is_mapped = any(part.is_mapped for part in parts.values())
        self.count = next(iter(parts.values())).count

    def take(self, index: Tensor) -> dict[str, Tensor]:
        return {name: part.take(index) for name, part in self.parts.items()}

    def will_need(self, index: Tensor | None, *, mixed: bool = False) -> None:
        for part in self.parts.values():
            part.will_need(index, mixed=mixed)


class DatasetRows(Rows):
    """A map-style Dataset. Its items are x, or tuples that begin with x; a collator gets them as they are."""

    per_row = True

    def __init__(self, dataset: Any, collate: Collate | None = None) -> None:
        self.dataset, self.collate, self.count = dataset, collate, len(dataset)

    def items(self, index: Tensor) -> list[Any]:
        return [self.dataset[i] for i in index.tolist()]

    def take(self, index: Tensor) -> Batch:
        items = self.items(index)
        if self.collate is not None:
            return collate_items(self.collate, items)
        return default_collate([item[0] if isinstance(item, tuple | list) else item for item in items])


class SubsetRows(Rows):
    """Some rows of others."""

    def __init__(self, base: Rows, index: Tensor) -> None:
        self.base, self.index, self.count = base, index, len(index)
        self.collate, self.names, self.per_row = base.collate, base.names, base.per_row
        self.is_sparse, self.is_text, self.is_mapped = base.is_sparse, base.is_text, base.is_mapped
        # Neighbours here are near each other in the file only if they are in its order.
        if base.preferred_block is not None and bool((index[1:] >= index[:-1]).all()):
            self.preferred_block = base.preferred_block

    def take(self, index: Tensor) -> Batch:
        return self.base.take(self.index[index])

    def pieces(self, index: Tensor) -> list[Piece]:
        return self.base.pieces(self.index[index])

    def lengths(self) -> Tensor | None:
        every = self.base.lengths()
        return None if every is None else every[self.index]

    def will_need(self, index: Tensor | None, *, mixed: bool = False) -> None:
        if index is not None:
            self.base.will_need(self.index[index], mixed=mixed)
        elif 2 * len(self) > len(self.base):
            self.base.will_need(None, mixed=mixed)


class ConcatRows(Rows):
    """Rows of several sources, one after the other."""

    def __init__(self, parts: list[Rows]) -> None:
        self.parts, self.collate = parts, shared_collator(parts)
        self.per_row = any(part.per_row for part in parts)
        self.is_sparse, self.is_text = (all(getattr(part, name) for part in parts) for name in ("is_sparse", "is_text"))
        self.is_mapped = any(part.is_mapped for part in parts)
        self.ends = torch.tensor([part.count for part in parts]).cumsum(0)
        self.count = int(self.ends[-1])

    def pieces(self, index: Tensor) -> list[Piece]:
        return [
            (source, positions[inner], rows)
            for part, positions, theirs in self._split(index)
            for source, inner, rows in part.pieces(theirs)
        ]

    def take(self, index: Tensor) -> Batch:
        if self.collate is not None:
            return collate_items(self.collate, take_items(self, index))
        split = self._split(index)
        batch = join([part.take(theirs) for part, _, theirs in split])
        order = torch.cat([positions for _, positions, _ in split]).argsort()
        if isinstance(batch, Mapping):
            return {key: value[order] for key, value in batch.items()}
        return batch[order] if isinstance(batch, Tensor) else [batch[place] for place in order.tolist()]

    def lengths(self) -> Tensor | None:
        known = [part.lengths() for part in self.parts]
        return None if any(each is None for each in known) else torch.cat([each for each in known if each is not None])

    def _split(self, index: Tensor) -> list[Piece]:
        part_of = torch.searchsorted(self.ends, index, right=True)
        split = []
        for number, part in enumerate(self.parts):
            positions = (part_of == number).nonzero().squeeze(1)
            if len(positions):
                split.append((part, positions, index[positions] - int(self.ends[number]) + len(part)))
        return split


def join(batches: list[Batch]) -> Batch:
    """Batches stacked along the first axis; a single one is returned as it is."""
    if len(batches) == 1:
        return batches[0]
    if isinstance(batches[0], Tensor):
        return torch.cat(batches)
    if isinstance(batches[0], list):
        return [row for batch in batches for row in batch]
    return {key: torch.cat([batch[key] for batch in batches]) for key in batches[0]}


def collate_items(collate: Collate, items: list[Any]) -> Batch:
    """The batch that a user's collator makes of items, checked to have one entry per item."""
    batch = collate(items)
    # Tokenizers' own mappings move tensors about in ways of their own; a plain one does not.
    fields = dict(batch) if isinstance(batch, Mapping) else {"": batch}
    for name, value in fields.items():
        if not isinstance(value, Tensor) or value.shape[:1] != (len(items),):
            shown = f"shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
            made = f"{shown}{f' as {name!r}' if name else ''} of {len(items)} rows"
            wanted = "what the student takes: a tensor with one entry per row, or a mapping of such tensors"
            raise UnderstudyError(f"collate made {made}; it returns {wanted}")
    return fields if isinstance(batch, Mapping) else batch


def shared_collator(parts: Iterable[Rows | None]) -> Collate | None:
    """The one collator of rows that are batched together; None where none of them has any."""
    collators = [part.collate for part in parts if part is not None]
    if any(collate != collators[0] for collate in collators):
        cure = "pass the same function as collate= to every us.Gold and us.Pool"
        raise UnderstudyError(f"rows that are batched together have different collators, or some have none; {cure}")
    return collators[0] if collators else None


def take_items(
    rows: Rows, index: Tensor, read: Callable[[Any, Tensor], list[Any]] = lambda source, theirs: source.items(theirs)
) -> list[Any]:
    """One value per row of ``index``, each read from the source that holds the row: the items of a collator."""
    values: list[Any] = [None] * len(index)
    for source, positions, theirs in rows.pieces(index):
        for position, value in zip(positions.tolist(), read(source, theirs), strict=True):
            values[position] = value
    return values


def take_sparse(rows: Rows, index: Tensor) -> "sparse.csr_matrix[Any]":
    """Rows of sparse matrices as one, for a student that takes them so."""
    from scipy import sparse

    pieces = rows.pieces(index)
    parts = [source.take_sparse(theirs) for source, _, theirs in pieces if isinstance(source, SparseRows)]
    if len(parts) == 1:
        return parts[0]
    stacked = sparse.csr_matrix(sparse.vstack(parts, format="csr"))
    return stacked[torch.cat([positions for _, positions, _ in pieces]).argsort().numpy()]


@add_parts.register
def _(rows: Rows, into: Hash, above: Above) -> None:
    """In a fingerprint, of a Dataset, which may draw its rows at random, only the length counts."""
    into.update(f"{len(rows)}".encode())
    if not len(rows) or rows.per_row:
        return
    first = rows.take(torch.arange(1))
    if isinstance(first, list):
        every = rows.take(torch.arange(len(rows)))
        some = looked_at(len(rows), sum(map(len, every))).tolist()
        # With the lengths, texts cut at other places have another fingerprint.
        for part in ([len(every[row]) for row in some], "".join(every[row] for row in some)):
            into.update(str(part).encode("utf-8", "surrogatepass"))
    else:
        size = len(rows) * sum(part.nbytes for part in (first.values() if isinstance(first, Mapping) else [first]))
        index = looked_at(len(rows), size)
        if rows.is_sparse:
            matrix: Any = take_sparse(rows, index).copy()
            matrix.sum_duplicates()
            matrix.eliminate_zeros()
            places = [part.astype(np.int64) for part in (matrix.indptr, matrix.indices)]
            add([matrix.shape, *places, matrix.data.astype(np.float32)], into, above)
        else:
            add(rows.take(index), into, above)


# A tensor counts as it is, like any object that lists what is derived.
add_parts.register(TensorRows, add_parts.dispatch(object))
