"""Rows of texts and the student that reads them: where the two meet, texts become tokens, once for each reader.

    rows = as_rows(["a text", "another"], "x")       # TextRows: texts, and nothing is known of who reads them
    rows = read_by(student, rows)                    # TokenRows, whose batches are what the student takes

Whoever asks a student about rows goes through ``read_by`` (``us.Session``, ``inference/passes.over_rows``). Tokens are
kept with the texts that they were made of, so that parts of a set, folds and epochs share them; a batch is padded to
its own longest text, gold and pool rows of a batch together.
"""

import copy
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from understudy.data.examples import Gold, Pool
from understudy.data.rows import Batch, Rows, collate_items
from understudy.data.tokens import Reader, reader_of
from understudy.errors import UnderstudyError
from understudy.store.settings import Above, Hash, add, add_parts

Part = TypeVar("Part", Gold, Pool, Gold | None, Pool | None)


class TokenRows(Rows):
    """Texts as one reader reads them."""

    def __init__(self, texts: Rows, reader: Reader) -> None:
        self.texts_read, self.reader, self.collate = texts, reader, reader.pad

    def __len__(self) -> int:
        return len(self.texts_read)

    def items(self, index: Tensor) -> list[Any]:
        return self.texts_read.tokens(self.reader, index)

    def take(self, index: Tensor) -> Batch:
        return collate_items(self.reader.pad, self.items(index))

    def lengths(self) -> Tensor:
        return self.texts_read.token_lengths(self.reader, torch.arange(len(self)))


@add_parts.register
def _(rows: TokenRows, into: Hash, above: Above) -> None:
    add([rows.reader.key, rows.texts_read], into, above)


def read_by(student: nn.Module, rows: Rows) -> Rows:
    """The rows as the student takes them: texts by its own reader, everything else as it is."""
    if not rows.is_text:
        return rows
    reader = reader_of(student)
    if reader is None:
        raise UnderstudyError(
            f"these rows are texts, and {type(student).__name__} takes numbers; pass us.text(folder, classes=…), or "
            "make features of them (docs/text.md)"
        )
    return TokenRows(rows, reader)


def set_read_by(student: nn.Module, part: Part) -> Part:
    """Gold or a pool with its rows as the student takes them."""
    if not isinstance(part, Gold | Pool) or not part.rows.is_text:
        return part
    read = copy.copy(part)
    read.rows = read_by(student, part.rows)
    return read
