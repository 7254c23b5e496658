"""Rows of texts, and their tokens as a student reads them: texts become tokens once for each tokenizer.

    note_reader(student, reader)                     # by what builds a student that reads texts (understudy/hf)
    rows = as_rows(["a text", "another"], "x")       # TextRows
    rows = read_by(student, rows)                    # TokenRows, whose batches are what the student takes

Everything that passes rows to a student goes through ``read_by`` (``us.Session``, ``inference/passes.over_rows``).
Tokens are kept with the texts, so that parts of a set, folds and epochs share them; a batch is padded to its own
longest text, gold and pool rows of a batch together. The reader is an attribute of the module: copies of a student read
alike.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from understudy.data.rows import Batch, ItemRows, Rows, collate_items, take_each
from understudy.errors import UnderstudyError
from understudy.store.arrow import Array
from understudy.store.settings import Above, Hash, add, add_parts

_NOTE = "_understudy_reader"


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

    def __len__(self) -> int:
        return len(self.starts) - 1

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


def note_reader(student: nn.Module, reader: Reader) -> None:
    # A plain attribute: deepcopy carries it along and the state dict does not see it.
    student.__dict__[_NOTE] = reader


def reader_of(student: nn.Module) -> Reader | None:
    reader: Reader | None = student.__dict__.get(_NOTE)
    return reader


class TextRows(Rows):
    """Texts, and their tokens by the key of the reader that made them."""

    def __init__(self, texts: list[str]) -> None:
        self.texts = texts
        self._tokens: dict[str, Tokens] = {}

    def __len__(self) -> int:
        return len(self.texts)

    def take(self, index: Tensor) -> list[str]:
        """Texts, for a teacher that is a function of texts; a module reads tokens."""
        return [self.texts[row] for row in index.tolist()]

    def tokens(self, reader: Reader) -> Tokens:
        if reader.key not in self._tokens:
            self._tokens[reader.key] = reader.tokens(self.texts)
        return self._tokens[reader.key]


class TokenRows(ItemRows):
    """Rows of texts as one reader reads them."""

    def __init__(self, rows: Rows, reader: Reader) -> None:
        self.rows, self.reader, self.collate = rows, reader, reader.pad

    def __len__(self) -> int:
        return len(self.rows)

    def items(self, index: Tensor) -> list[Any]:
        return take_each(self.rows, index, lambda source, theirs: source.tokens(self.reader).take(theirs))

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


def is_text(rows: Rows) -> bool:
    """Whether rows are texts that have not been tokenized."""
    return all(isinstance(source, TextRows) for source in rows.sources())


def read_by(student: nn.Module, rows: Rows) -> Rows:
    """The rows as the student takes them: texts by its own reader, everything else as it is."""
    if not is_text(rows):
        return rows
    reader = reader_of(student)
    if reader is None:
        raise UnderstudyError(
            f"these rows are texts, and {type(student).__name__} takes numbers; pass us.text(folder, classes=…), or "
            "make features of them (docs/text.md)"
        )
    return TokenRows(rows, reader)
