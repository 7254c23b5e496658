"""What users pass as ``x``, as rows: arrays, sparse matrices, memory maps, texts, mappings, Datasets, and frames.

    as_rows(np.zeros((3, 2)), "gold.x")                       # TensorRows
    as_rows(pandas_frame, "gold.x").names                     # numbers side by side, and the columns' names

A frame's columns become numbers side by side, one column of lists, or several by name. Other columns (categories, texts
beside numbers, images) are made into features by ``us.read_examples``.

Texts become tokens as a student reads them, once for each tokenizer:

    note_reader(student, reader)                     # by what builds a student that reads texts (understudy/hf)
    rows = as_rows(["a text", "another"], "x")       # TextRows
    rows = read_by(student, rows)                    # TokenRows, whose batches are what the student takes

Everything that passes rows to a student goes through ``read_by`` (``us.Session``, ``inference/passes.over_rows``).
Tokens are kept with the texts, so that parts of a set, folds and epochs share them; a batch is padded to its own
longest text, gold and pool rows of a batch together. The reader is an attribute of the module: copies of a student read
alike (``models/registry.py``).
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor, nn

from understudy.data.checks import check_finite, check_length, check_texts, is_reserved, to_tensor
from understudy.data.rows import (
    Batch,
    Collate,
    ConcatRows,
    DatasetRows,
    MappedRows,
    MappingRows,
    Rows,
    SparseRows,
    TensorRows,
    collate_items,
    take_items,
)
from understudy.errors import UnderstudyError
from understudy.models.registry import reader_of
from understudy.store.arrow import LISTS, TEXTS, Array, as_column, as_frame, is_hf_dataset
from understudy.store.fingerprints import Above, Hash, add, add_parts

Values = Array | list[Any] | dict[str, Array]
# A dataset formatted as tensors or arrays is one of items.
TABLES = (None, "arrow", "pandas", "polars")


def concatenate(a: Rows, b: Rows) -> Rows:
    """The rows of ``a``, then those of ``b``."""
    if isinstance(a, TensorRows) and isinstance(b, TensorRows) and a.x.shape[1:] == b.x.shape[1:]:
        # The wider of the two types: integers joined to floats must not be cut, nor the other way round.
        kind = torch.promote_types(a.x.dtype, b.x.dtype)
        return TensorRows(torch.cat([a.x.to(kind), b.x.to(kind)]))
    if a.is_text != b.is_text:
        raise UnderstudyError("some of these rows are texts and some are not; join like with like")
    return ConcatRows([a, b])


def as_rows(x: Any, where: str, collate: Collate | None = None) -> Rows:
    """What a user passes as ``x``, as rows. Arrays in memory are checked for NaN; files and Datasets are not read."""
    if isinstance(x, Rows) and collate in (None, x.collate):
        return x
    if collate is not None:
        if not callable(collate) or not _is_dataset(x):
            held = f"collate is a {type(collate).__name__} and x a {type(x).__name__}"
            raise UnderstudyError(f"{where}: collate= makes a batch of a list of a Dataset's items; here {held}")
        return DatasetRows(x, collate)
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
    if (found := _frame_values(x, where)) is not None:
        rows = as_rows(found[0], where)
        rows.names = found[1]
        return rows
    # A sparse matrix exists only where SciPy's module was loaded.
    loaded: Any = sys.modules.get("scipy.sparse")
    if loaded is not None and loaded.issparse(x):
        return _sparse_rows(x, where)
    if _is_dataset(x):
        return DatasetRows(x)
    wanted = "a tensor, an ndarray, a memory map, a mapping of these, a frame of numbers or a map-style Dataset"
    raise UnderstudyError(f"{where} is a {type(x).__name__}; pass {wanted}")


def _is_dataset(x: Any) -> bool:
    """Whether rows are got by number; a DataFrame's columns are got by name."""
    is_other = isinstance(x, str | Mapping | Rows | type) or hasattr(type(x), "columns")
    return hasattr(x, "__getitem__") and hasattr(x, "__len__") and not is_other


def _texts(x: Any, where: str) -> list[str] | None:
    """A list or an array of texts as a list; None for anything else. One row that is no text is named."""
    if isinstance(x, np.ndarray) and x.ndim == 1 and x.dtype.kind in "UTO":
        x = x.tolist()
    if not isinstance(x, list | tuple) or not x or not isinstance(x[0], str):
        return None
    check_texts(x, where)
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
            wanted = "a mapping holds tensors or arrays by the names of the student's arguments"
            raise UnderstudyError(f"{where}[{name!r}] is a {type(values).__name__}; {wanted}")
        parts[name] = part
        check_length(len(part), len(next(iter(parts.values()))), f"{where}[{name!r}]", f"{where}[{next(iter(x))!r}]")
    if not parts:
        raise UnderstudyError(f"{where} is an empty mapping; give at least one tensor by the name of an argument")
    return MappingRows(parts)


def _frame_values(x: Any, where: str) -> tuple[Values, tuple[str, ...] | None] | None:
    """What a frame or a frame's column holds, and the names of columns that stand side by side; None: it is neither."""
    is_dataset = is_hf_dataset(x)
    if is_dataset and getattr(x, "format", {"type": None})["type"] not in TABLES:
        return None
    if (frame := as_frame(x)) is None:
        column = as_column(x)
        return None if column is None else (_array(column, where), None)
    reserved = [name for name in frame.names if is_reserved(name)]
    if reserved:
        cure = "leave it out, or pass the whole table to us.read_examples(…)"
        raise UnderstudyError(f"{where} has a column {reserved[0]!r}, which is no feature; {cure}")
    columns = {name: frame.column(name) for name in frame.names}
    if not columns:
        raise UnderstudyError(f"{where} has no columns; pass those that are the features")
    if all(is_number_type(column.type) for column in columns.values()):
        matrix = np.empty((frame.rows, len(columns)), dtype=np.float32)
        with np.errstate(over="ignore"):
            for number, (name, column) in enumerate(columns.items()):
                matrix[:, number] = _array(column, f"{where}: column {name!r}")
        return matrix, tuple(frame.names)
    if len(columns) == 1:
        (only,) = columns.values()
        return _array(only, f"{where}: column {frame.names[0]!r}"), None
    if all(isinstance(column.type, LISTS) for column in columns.values()):
        return {name: _array(column, f"{where}[{name!r}]") for name, column in columns.items()}, None
    if is_dataset:
        return None
    odd = next(name for name, column in columns.items() if not is_number_type(column.type))
    held = f"column {odd!r} holds {columns[odd].type}, no number"
    raise UnderstudyError(f"{where}: {held}; us.read_examples(…) makes features of such")


def is_number_type(kind: Any) -> bool:
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal)
    return any(test(kind) for test in tests)


def _array(column: Any, where: str) -> Any:
    """Numbers and lists of one length as an array; texts as a list."""
    from understudy.data.arrow_columns import refuse_empty, to_array  # with Arrow's functions, which only frames need

    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if kind in TEXTS:
        return column.to_pylist()
    if column.null_count:
        refuse_empty(column, where, 0)
    if not (isinstance(kind, LISTS) or is_number_type(kind)):
        raise UnderstudyError(f"{where} holds {kind}; pass numbers, lists of numbers, or texts")
    return to_array(column.combine_chunks(), role="", where=where)


@dataclass(frozen=True, eq=False)
class Tokens:
    """Token numbers of all texts one after the other; text ``i`` has ``values[starts[i]:starts[i + 1]]``."""

    values: Array
    starts: Array

    @classmethod
    def of(cls, texts: Sequence[Sequence[int]]) -> "Tokens":
        starts = np.zeros(len(texts) + 1, dtype=np.int64)
        np.cumsum([len(text) for text in texts], out=starts[1:])
        values = np.fromiter((token for text in texts for token in text), dtype=np.int32, count=int(starts[-1]))
        return cls(values, starts)

    @property
    def lengths(self) -> Tensor:
        return torch.from_numpy(np.diff(self.starts))

    def take(self, index: Tensor) -> list[Array]:
        """Views, no copies."""
        first, last = self.starts[:-1][index.numpy()].tolist(), self.starts[1:][index.numpy()].tolist()
        return [self.values[start:stop] for start, stop in zip(first, last, strict=True)]


class Reader(Protocol):
    """How a student reads texts."""

    @property
    def key(self) -> str:
        """The same for readers that make the same tokens."""
        ...

    def tokens(self, texts: Sequence[str]) -> Tokens: ...

    def pad(self, items: list[Any]) -> dict[str, Tensor]:
        """A batch of some texts' tokens, as long as the longest of them."""
        ...


class TextRows(Rows):
    """Texts, and their tokens by the key of the reader that made them."""

    is_text = True

    def __init__(self, texts: list[str]) -> None:
        self.texts, self.count = texts, len(texts)
        self._tokens: dict[str, Tokens] = {}

    def take(self, index: Tensor) -> list[str]:
        """Texts, for a teacher that is a function of texts; a module reads tokens."""
        return [self.texts[row] for row in index.tolist()]

    def tokens(self, reader: Reader) -> Tokens:
        if reader.key not in self._tokens:
            self._tokens[reader.key] = reader.tokens(self.texts)
        return self._tokens[reader.key]


class TokenRows(Rows):
    """Rows of texts as one reader reads them."""

    def __init__(self, rows: Rows, reader: Reader) -> None:
        self.rows, self.reader, self.collate, self.count = rows, reader, reader.pad, rows.count

    def items(self, index: Tensor) -> list[Any]:
        return take_items(self.rows, index, lambda source, theirs: source.tokens(self.reader).take(theirs))

    def take(self, index: Tensor) -> Batch:
        return collate_items(self.reader.pad, self.items(index))

    def lengths(self) -> Tensor:
        lengths = torch.empty(len(self), dtype=torch.long)
        for source, positions, theirs in self.rows.pieces(torch.arange(len(self))):
            assert isinstance(source, TextRows)
            lengths[positions] = source.tokens(self.reader).lengths[theirs]
        return lengths


@add_parts.register
def _(rows: TokenRows, into: Hash, above: Above) -> None:
    add([rows.reader.key, rows.rows], into, above)


def read_by(student: nn.Module, rows: Rows) -> Rows:
    """The rows as the student takes them: texts by its own reader, everything else as it is."""
    if not rows.is_text:
        return rows
    reader: Reader | None = reader_of(student)
    if reader is None:
        cure = "pass us.text(folder, classes=…), or make features of them (docs/text.md)"
        raise UnderstudyError(f"these rows are texts, and {type(student).__name__} takes numbers; {cure}")
    return TokenRows(rows, reader)
