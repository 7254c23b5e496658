"""Texts as a net reads them: how a student tells, and token numbers of many texts without a list for each.

    note_reader(student, reader)           # whoever builds a student that reads texts (understudy/hf)
    reader_of(student)                     # None for a student that takes numbers
    tokens = reader.tokens(["a text", "another one"])
    reader.pad(tokens.take(torch.tensor([1, 0])))       # {"input_ids": (2, 5), "attention_mask": (2, 5)}

The reader is noted on the module itself, beside its weights: copies of a student read as it does.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from understudy.store.arrow import Array

_NOTE = "_understudy_reader"


@dataclass(frozen=True, eq=False)
class Tokens:
    """Numbers of all texts one after the other; text ``i`` has ``values[starts[i]:starts[i + 1]]``."""

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
