"""Soft labels: class probabilities, ``(N, C)``, and the base of all labels with a probability for every class.

us.Pool(x, probs)
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from understudy.data.checks import CHUNK, check_probabilities, to_tensor
from understudy.errors import UnderstudyError
from understudy.labels.base import Column, Columns, Labels, Ranking, ReadOptions, same_classes
from understudy.labels.hard import Hard
from understudy.labels.topk import TopK
from understudy.maths.accuracy_curves import Leading, leading, positions
from understudy.maths.confidence import MEASURES

# Rows per look: their float64 distributions stay near 50 MB at 100 classes.
_ROWS = 1 << 16


class Distribution(Ranking):
    """Labels with a probability for every class, stored or computed."""

    @abstractmethod
    def probs_of(self, rows: slice | Tensor) -> Tensor:
        """Label distributions of some rows, ``(n, C)``; all zero where there is no label."""

    def labelled(self) -> Tensor:
        return self._by_part(lambda part: (self.probs_of(part) > 0).any(1))

    def top1(self) -> Tensor:
        best = self._by_part(lambda part: self.probs_of(part).argmax(1))
        return torch.where(self.labelled(), best, -1)

    def dense(self, rows: Tensor, classes: int) -> Tensor:
        return self.probs_of(rows).float()

    def confidence(self, measure: str) -> Tensor:
        return self._by_part(lambda part: MEASURES[measure](self.probs_of(part)))

    def leading(self, start: int, stop: int, depth: int) -> Leading:
        return leading(self.probs_of(slice(start, stop)), depth)

    def positions(self, labels: Tensor) -> Tensor:
        # Every class needs a comparison.
        return self._by_part(lambda part: positions(self.probs_of(part), labels[part]), rows=_ROWS >> 4)

    def _by_part(self, read: Callable[[slice], Tensor], rows: int = _ROWS) -> Tensor:
        return torch.cat([read(slice(start, start + rows)) for start in range(0, max(len(self), 1), rows)])


class Soft(Distribution):
    """Class probabilities, ``(N, C)``. Stored as given: a float16 or memory-mapped array is not copied."""

    columns = (
        Column("teacher_probs", "float32", float("nan"), holds="number per class", prefix="teacher_prob_"),
    )  # fmt: skip
    form, title = "dense", "soft labels"

    def __init__(self, probs: Any, *, where: str = "teacher", trusted: bool = False) -> None:
        self.probs = to_tensor(probs, where)
        if not trusted:
            check_probabilities(self.probs, where)
        self.classes = self.listed = self.probs.shape[1]

    def __len__(self) -> int:
        return len(self.probs)

    def probs_of(self, rows: slice | Tensor) -> Tensor:
        return self.probs[rows]

    def dense(self, rows: Tensor, classes: int) -> Tensor:
        # Called for every batch.
        return self.probs.index_select(0, rows).float()

    def labelled(self) -> Tensor:
        return torch.ones(len(self), dtype=torch.bool)

    def take(self, rows: Tensor) -> "Soft":
        return Soft(self.probs[rows], trusted=True)

    def without(self, rows: Tensor) -> "Soft":
        if bool(rows.any()):
            raise UnderstudyError(
                f"{int(rows.sum())} of {len(rows)} rows have no answer, which dense probabilities do not allow; "
                "use form='topk'"
            )
        return self

    @classmethod
    def concatenate(cls, parts: Sequence["Soft"]) -> "Soft":
        same_classes(parts)
        return cls(torch.cat([part.probs for part in parts]), trusted=True)

    def simplest(self) -> Labels:
        return Hard(self.top1(), classes=self.classes) if self._one_hot else self

    @cached_property
    def _one_hot(self) -> bool:
        # Needed by every part of a method, and a pass over all rows each time.
        return all(bool(((chunk == 0) | (chunk == 1)).all()) for chunk in self.probs.split(CHUNK))

    def to_columns(self) -> Columns:
        return {"teacher_probs": self.probs.float().cpu().numpy()}

    @classmethod
    def from_columns(cls, columns: Columns, options: ReadOptions) -> Labels:
        """Where rows may lack a label, they are read as top-k labels of all classes, which allow it."""
        probs = to_tensor(columns["teacher_probs"], options.where)
        gaps = probs[:, :1].isnan() if options.gaps else torch.zeros(1, dtype=torch.bool)
        if not bool(gaps.any()):
            return cls(probs, where=options.where)
        classes = probs.shape[1]
        return TopK(torch.where(gaps, -1, torch.arange(classes)), probs.nan_to_num(nan=0.0), classes)
