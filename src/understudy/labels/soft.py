"""Soft labels: class probabilities, ``(N, C)``, or the few classes a teacher listed of thousands.

    us.Pool(x, probs)
    us.Pool(x, us.TopK(indices, probs, classes=1000))             # (N, K) each; the tail is 1 − Σ probs
    us.Pool(x, us.TopK(indices, probs, classes=1000, tail=mass))  # the tail as the teacher gave it

Top-k labels are what an API gives as "top log-probabilities", or what one keeps of a softmax over 1,000 classes. A row
stands for the dense distribution in which the unlisted classes share the tail evenly. 1,000,000 rows of 10 take 64 MB
(16-bit indices up to 32,767 classes, probabilities as 32-bit floats unless given otherwise). Lists of unequal length
are padded with index −1 and probability 0; a row of −1 alone has no label. Rows that cannot be a top k are refused:
where each unlisted class would hold more than the smallest listed one. A single answer with a confidence below chance
is such a row; ``us.Hard(labels, confidence)`` is meant for it.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from understudy.data.checks import SUM_TOLERANCE, check_class_count, check_probabilities, first_bad, to_tensor
from understudy.errors import UnderstudyError
from understudy.labels.base import Column, Columns, Hard, Labels, Ranking, ReadOptions, same_classes
from understudy.labels.class_names import class_numbers
from understudy.maths.accuracy_curves import LONG_ROW, Leading, as_entries, leading, margins_in_turn, positions
from understudy.maths.confidence import MEASURES
from understudy.store.option_fields import checked

# Rows per look: their float64 distributions stay near 50 MB at 100 classes.
_ROWS = 1 << 16


class Distribution(Ranking):
    """Labels with a probability for every class, stored or computed."""

    @property
    def first_depth(self) -> int:  # type: ignore[override]
        return 2 if self.classes >= LONG_ROW else Ranking.first_depth

    @abstractmethod
    def probs_of(self, rows: slice | Tensor) -> Tensor:
        """Label distributions of some rows, ``(n, C)``; all zero where there is no label."""

    def labelled(self) -> Tensor:
        return self._by_part(lambda part: (self.probs_of(part) > 0).any(1))

    def top1(self) -> Tensor:
        best = self._by_part(lambda part: torch.from_numpy(as_entries(self.probs_of(part)).argmax(1)))
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
        return self._like(probs=self.probs.index_select(0, rows))

    @classmethod
    def join(cls, parts: Sequence["Soft"]) -> "Soft":
        same_classes(parts)
        return parts[0]._like(probs=torch.cat([part.probs for part in parts]))

    def simplest(self) -> Labels:
        return Hard(self.top1(), classes=self.classes) if self._one_hot else self

    @cached_property
    def _one_hot(self) -> bool:
        # Needed by every part of a method, and a pass over all rows each time, where not one of the first is soft.
        return all(bool(((chunk == 0) | (chunk == 1)).all()) for chunk in self.probs.split(_ROWS >> 6))

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


class TopK(Ranking):
    """``indices (N, K)``, ``probs (N, K)`` in descending order, ``rest (N,)`` held by each unlisted class.

    Both lie column by column in memory: estimates look at all rows' best, then all rows' second best.
    """

    columns = (
        Column("teacher_topk_index", "int32", -1, holds="class", lists=True, uneven=True),
        Column("teacher_topk_prob", "float32", 0.0, lists=True, uneven=True),
        Column("teacher_topk_tail", "float32", 0.0, required=False),
    )
    form, title = "topk", "top-k labels"
    needs_classes = True

    @checked
    def __init__(
        self, indices: Any, probs: Any, classes: int | Sequence[str], tail: Any = None, *, where: str = "teacher"
    ) -> None:
        indices, count, self.names = class_numbers(indices, classes, where)
        self.classes = classes = check_class_count(count, where)
        given = to_tensor(indices, f"{where} indices"), to_tensor(probs, f"{where} probs")
        masses = None if tail is None else to_tensor(tail, f"{where} tail")
        _check_shapes(*given, masses, classes, where)
        self.indices, self.probs, self.rest = _compact(*given, masses, classes, where)
        self.listed = self.probs.shape[1]

    def __len__(self) -> int:
        return len(self.probs)

    def top1(self) -> Tensor:
        return self.indices[:, 0].long()

    def labelled(self) -> Tensor:
        return self.indices[:, 0] >= 0

    def dense(self, rows: Tensor, classes: int) -> Tensor:
        indices, probs = self.indices.index_select(0, rows).long(), self.probs.index_select(0, rows).float()
        # Padding (−1) is written to one column too many, which is cut off.
        full = self.rest.index_select(0, rows).float().unsqueeze(1).repeat(1, classes + 1)
        return full.scatter_(1, torch.where(indices < 0, classes, indices), probs)[:, :classes]

    def confidence(self, measure: str) -> Tensor:
        parts = [_MEASURES[measure](self.leading(i, i + _ROWS, self.listed)) for i in range(0, len(self), _ROWS)]
        return torch.cat(parts) if parts else torch.empty(0, dtype=torch.float64)

    def leading(self, start: int, stop: int, depth: int) -> Leading:
        following = self.probs[start:stop, depth] if depth < self.listed else self.rest[start:stop]
        return Leading(self.probs[start:stop, :depth], following, self.classes)

    def positions(self, labels: Tensor) -> Tensor:
        is_label = self.indices == labels.unsqueeze(1)
        return torch.where(is_label.any(1), is_label.byte().argmax(1), self.classes)

    def take(self, rows: Tensor) -> "TopK":
        indices, probs = (part.T.index_select(1, rows).T for part in (self.indices, self.probs))
        return self._like(indices=indices, probs=probs, rest=self.rest[rows])

    @classmethod
    def join(cls, parts: Sequence["TopK"]) -> "TopK":
        same_classes(parts)
        depths = sorted({part.listed for part in parts})
        if len(depths) > 1:
            raise UnderstudyError(f"top-{depths[0]} and top-{depths[-1]} labels cannot be joined; pad with index −1")
        indices, probs = (
            torch.cat([getattr(part, name).T for part in parts], dim=1).T for name in ("indices", "probs")
        )
        return parts[0]._like(indices=indices, probs=probs, rest=torch.cat([part.rest for part in parts]))

    def simplest(self) -> Labels:
        certain = bool((self.probs[:, 0][self.labelled()] == 1).all())
        return Hard(self.top1(), classes=self.classes) if certain else self

    def to_columns(self) -> Columns:
        listed = self.indices >= 0
        tail = self.rest.double() * (self.classes - listed.sum(1)) * listed[:, 0]
        return {
            "teacher_topk_index": np.ascontiguousarray(self.indices.int().numpy()),
            "teacher_topk_prob": np.ascontiguousarray((self.probs * listed).float().numpy()),
            "teacher_topk_tail": tail.float().numpy(),
        }

    @classmethod
    def from_columns(cls, columns: Columns, options: ReadOptions) -> "TopK":
        assert options.classes is not None
        index, prob = columns["teacher_topk_index"], columns["teacher_topk_prob"]
        # Data frames with gaps hold whole numbers as fractions; other fractions are refused below.
        if index.dtype.kind == "f" and np.isfinite(index).all() and np.array_equal(index, np.floor(index)):
            index = index.astype(np.int64)
        return cls(index, prob, options.classes, columns.get("teacher_topk_tail"), where=options.where)


def _entropy(scores: Leading) -> Tensor:
    """Exact under the even spread: every unlisted class adds −rest · log rest."""
    probs, rest = scores.probs.double(), scores.rest.double()
    unlisted = (scores.classes - probs.shape[1]) * rest.xlogy(rest)
    return -(probs.xlogy(probs).sum(1) + unlisted)


_MEASURES = {"margin": lambda scores: torch.from_numpy(next(margins_in_turn(scores))), "entropy": _entropy}


def _check_shapes(indices: Tensor, probs: Tensor, tail: Tensor | None, classes: int, where: str) -> None:
    if indices.dim() != 2 or indices.shape != probs.shape or not 1 <= indices.shape[1] <= classes:
        shapes = f"{where} indices have shape {tuple(indices.shape)} and probs {tuple(probs.shape)}"
        raise UnderstudyError(f"{shapes}; both are (rows, K) with K between 1 and the {classes} classes")
    if indices.is_floating_point() or indices.dtype == torch.bool:
        raise UnderstudyError(f"{where} indices are {indices.dtype}; class numbers are integers")
    if not probs.is_floating_point():
        raise UnderstudyError(f"{where} probs are {probs.dtype}; probabilities are floating-point")
    if tail is not None and tail.shape != probs.shape[:1]:
        raise UnderstudyError(f"{where} tail has shape {tuple(tail.shape)}; it is one mass for each row")


def _compact(
    indices: Tensor, probs: Tensor, tail: Tensor | None, classes: int, where: str
) -> tuple[Tensor, Tensor, Tensor]:
    """Checked, sorted by descending probability (ties as listed), and small."""
    classes_listed = torch.empty(indices.T.shape, dtype=torch.int16 if classes < 1 << 15 else torch.int32).T
    scores = torch.empty(probs.T.shape, dtype=probs.dtype).T
    rest = torch.empty(len(probs), dtype=torch.float64 if probs.dtype == torch.float64 else torch.float32)
    for start in range(0, len(probs), _ROWS):
        part = slice(start, start + _ROWS)
        index, score = indices[part].long(), probs[part].double()
        mass = 1 - score.sum(1) if tail is None else tail[part].double()
        listed = index >= 0
        # Rounding may leave a sum just over 1: no tail, then.
        share = mass.clamp(min=0) / (classes - listed.sum(1)).clamp(min=1)
        share = torch.where(listed.any(1), share, 0.0)
        _refuse_bad_rows(index, score, mass, share, classes, start, where)
        # Padding ranks after all listed classes, and then stands for unlisted ones.
        order = torch.where(listed, score, -1.0).sort(dim=1, descending=True, stable=True).indices
        classes_listed[part] = index.gather(1, order)
        scores[part] = torch.where(listed, score, share.unsqueeze(1)).gather(1, order)
        rest[part] = share
    return classes_listed, scores, rest


def _refuse_bad_rows(
    index: Tensor, score: Tensor, mass: Tensor, share: Tensor, classes: int, start: int, where: str
) -> None:
    listed, total, ordered = index >= 0, score.sum(1), index.sort(dim=1).values
    labelled, unlisted = listed.any(1), classes - listed.sum(1)
    smallest = torch.where(listed, score, float("inf")).amin(1)
    problems = {
        f"lists a class outside 0 to {classes - 1} (−1 pads); check the indices and classes={classes}": (
            (index < -1) | (index >= classes)
        ).any(1),
        "lists a class twice; merge the entries": ((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)).any(1),
        "holds NaN or infinity; remove the row or give it −1 indices": ~score.isfinite().all(1) | ~mass.isfinite(),
        "holds a negative probability; pass probabilities, not log-probabilities or logits": (score < 0).any(1),
        "gives a probability to index −1; padding has probability 0": (~listed & (score != 0)).any(1),
        "sums to more than 1; pass probabilities, e.g. softmax(logits)": labelled & (total > 1 + SUM_TOLERANCE),
        "has a negative tail; the tail is the mass of the unlisted classes": mass < -SUM_TOLERANCE,
        "and its tail do not sum to 1; leave out tail= to have it computed": (
            labelled & ((total + mass - 1).abs() > SUM_TOLERANCE)
        ),
        "lists every class and still misses mass; probabilities sum to 1": (unlisted == 0) & (mass > SUM_TOLERANCE),
        # Rounded probabilities miss a little mass, which lands in the tail as a whole.
        "leaves more for each unlisted class than its smallest listed one has; list the top classes, or use "
        "us.Hard(labels, confidence)": (share - smallest) * unlisted > SUM_TOLERANCE,
    }
    for problem, bad in problems.items():
        if bool(bad.any()):
            raise UnderstudyError(f"{where} row {start + first_bad(bad)} {problem}")
