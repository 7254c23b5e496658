"""Rows of features, wherever they live: a tensor, an array, a memory map, a mapping of these, a map-style Dataset; some
rows of others, or several sources one after the other.

All the training loop needs is ``len(rows)`` and ``rows.take(index) -> batch``. An array in memory or on disk is one
indexing call per batch; a Dataset is asked row by row and collated, which is what its DataLoader workers are for:

    us.Pool({"input_ids": ids, "attention_mask": mask}, probs)            # a batch is the mapping of the taken rows
    us.Pool(dataset, probs, collate=pad)                                  # pad(items) -> what the student takes
    us.Pool(["a text", "another"], probs)                                 # for a student that reads texts (us.text)

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
from understudy.data.frames import frame_values
from understudy.data.memory import COMFORTABLE, Readahead, block_rows, total_memory
from understudy.data.tokens import Reader, Tokens
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
    is_text: bool = False
    """Whether rows are texts that nobody has read yet: ``texts`` and ``tokens`` have an answer."""
    names: tuple[str, ...] | None = None
    """Of the columns of a frame that stand side by side in these rows, so that others in another order are seen."""
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

    def texts(self, index: Tensor) -> list[str]:
        raise NotImplementedError(f"{type(self).__name__} holds no texts")

    def tokens(self, reader: Reader, index: Tensor) -> list[Any]:
        """What a reader makes of some texts, each as an array of numbers."""
        raise NotImplementedError(f"{type(self).__name__} holds no texts")

    def token_lengths(self, reader: Reader, index: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} holds no texts")

    def lengths(self) -> Tensor | None:
        """How long every row is, ``(rows,)``, where rows differ and a batch is as long as its longest; else None."""
        return None

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


class TextRows(Rows):
    """Texts. A student's reader makes tokens of them (``data/texts.py``), which are kept here for whoever shares it."""

    is_text = True

    def __init__(self, texts: list[str]) -> None:
        self.every = texts
        self._read: dict[str, Tokens] = {}

    def __len__(self) -> int:
        return len(self.every)

    def take(self, index: Tensor) -> list[str]:
        """For a teacher that is a function of texts; a module reads tokens."""
        return self.texts(index)

    def texts(self, index: Tensor) -> list[str]:
        return [self.every[row] for row in index.tolist()]

    def tokens(self, reader: Reader, index: Tensor) -> list[Any]:
        return self._by(reader).take(index)

    def token_lengths(self, reader: Reader, index: Tensor) -> Tensor:
        return self._by(reader).lengths[index]

    def _by(self, reader: Reader) -> Tokens:
        if reader.key not in self._read:
            self._read[reader.key] = reader.tokens(self.every)
        return self._read[reader.key]


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
        self.base, self.index, self.collate, self.names = base, index, base.collate, base.names
        self.per_row, self.on_disk, self.is_sparse = base.per_row, base.on_disk, base.is_sparse
        self.is_text = base.is_text
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

    def texts(self, index: Tensor) -> list[str]:
        return self.base.texts(self.index[index])

    def tokens(self, reader: Reader, index: Tensor) -> list[Any]:
        return self.base.tokens(reader, self.index[index])

    def token_lengths(self, reader: Reader, index: Tensor) -> Tensor:
        return self.base.token_lengths(reader, self.index[index])

    def lengths(self) -> Tensor | None:
        every = self.base.lengths()
        return None if every is None else every[self.index]

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
        self.is_text = all(part.is_text for part in parts)
        if not self.is_text and any(part.is_text for part in parts):
            raise UnderstudyError("some of these rows are texts and some are not; join like with like")
        self.ends = torch.tensor([len(part) for part in parts]).cumsum(0)

    def __len__(self) -> int:
        return int(self.ends[-1])

    def items(self, index: Tensor) -> list[Any]:
        return self._each(index, lambda part, theirs: part.items(theirs))

    def texts(self, index: Tensor) -> list[str]:
        return self._each(index, lambda part, theirs: part.texts(theirs))

    def tokens(self, reader: Reader, index: Tensor) -> list[Any]:
        return self._each(index, lambda part, theirs: part.tokens(reader, theirs))

    def token_lengths(self, reader: Reader, index: Tensor) -> Tensor:
        lengths = torch.empty(len(index), dtype=torch.long)
        for part, positions, theirs in self._split(index):
            lengths[positions] = part.token_lengths(reader, theirs)
        return lengths

    def lengths(self) -> Tensor | None:
        known = [part.lengths() for part in self.parts]
        return None if any(each is None for each in known) else torch.cat([each for each in known if each is not None])

    def _each(self, index: Tensor, ask: Callable[[Rows, Tensor], list[Any]]) -> list[Any]:
        """One thing per row, in the order asked for."""
        found: list[Any] = [None] * len(index)
        for part, positions, theirs in self._split(index):
            for position, item in zip(positions.tolist(), ask(part, theirs), strict=True):
                found[position] = item
        return found

    def take(self, index: Tensor) -> Batch:
        if self.collate is not None:
            return collate_items(self.collate, self.items(index))
        if self.is_text:
            return self.texts(index)
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
    if collate is None and (framed := _framed(x, where)) is not None:
        return framed
    is_frame = hasattr(type(x), "columns")  # a DataFrame is indexed by column, not by row
    is_dataset = hasattr(x, "__getitem__") and hasattr(x, "__len__") and not isinstance(x, str | Mapping | Rows | type)
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
    if (texts := _texts(x, where)) is not None:
        return TextRows(texts)
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
        f"{where} is a {type(x).__name__}; pass a tensor, an ndarray, a memory map, a mapping of these, a frame of "
        "numbers or a map-style Dataset"
    )


def _framed(x: Any, where: str) -> Rows | None:
    """A frame's rows, or those of a column of one; None where ``x`` is neither."""
    if isinstance(x, Tensor | np.ndarray | list | tuple | Mapping) or (found := frame_values(x, where)) is None:
        return None
    values, names = found
    rows = as_rows(values, where)
    rows.names = names
    return rows


def _texts(x: Any, where: str) -> list[str] | None:
    """A list or an array of texts as a list; None for anything else. One row that is no text is named."""
    if isinstance(x, np.ndarray) and x.ndim == 1 and x.dtype.kind in "UTO":
        x = x.tolist()
    if not isinstance(x, list | tuple) or not x or not isinstance(x[0], str):
        return None
    if not {str, np.str_}.issuperset(map(type, x)):
        row = next(row for row, text in enumerate(x) if not isinstance(text, str))
        held = "nothing" if x[row] is None else f"a {type(x[row]).__name__}"
        raise UnderstudyError(f"{where} row {row} holds {held}, not a text; fill it in or remove the row")
    return list(x)


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
    if rows.is_text:
        every = rows.texts(torch.arange(len(rows)))
        some = looked_at(len(rows), sum(map(len, every))).tolist()
        # The lengths say where one ends: no text can stand for two.
        for part in ([len(every[row]) for row in some], "".join(every[row] for row in some)):
            into.update(str(part).encode("utf-8", "surrogatepass"))
    elif isinstance(rows, TensorRows):
        add_tensor(rows.x, into)
    elif len(rows) and not rows.per_row:
        first = rows.take(torch.arange(1))
        size = len(rows) * sum(part.nbytes for part in (first.values() if isinstance(first, Mapping) else [first]))
        add(rows.take(looked_at(len(rows), size)), into, above)
