"""The forms a teacher's labels come in, behind one small interface.

Soft labels are ``(N, C)`` probabilities; hard labels are ``(N,)`` class numbers, with or without a confidence. Every
form can say its best class, give dense rows for a batch, say how confident it is, and be cut to some rows.

    us.Pool(x, probs)                     # (N, C) array: soft
    us.Pool(x, answers)                   # (N,) integers: hard, −1 where there is no answer
    us.Pool(x, us.Hard(answers, confidence))
    us.Pool(x, us.TopK(indices, probs, classes=1000))     # understudy.labels.topk
    us.Pool(x, us.Votes(votes, classes=2))                # understudy.labels.votes
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Self

import torch
from torch import Tensor

from understudy.data.checks import CHUNK, check_labels, check_length, check_probabilities, to_tensor
from understudy.errors import UnderstudyError
from understudy.maths.confidence import MEASURES
from understudy.maths.ranking import Leading, Ranked, leading, places, rank
from understudy.store.settings import Above, Hash, add, add_parts

# Rows per look where every class needs a comparison.
_WIDE = 1 << 12


class Labels(ABC):
    """What a teacher said of N examples."""

    classes: int | None
    """How many classes there are; None where the labels alone do not tell (bare hard labels)."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def top1(self) -> Tensor:
        """The teacher's best class per row, ``(N,)``; −1 where it gave none."""

    @abstractmethod
    def dense(self, rows: Tensor, classes: int) -> Tensor:
        """The label distributions of some rows, ``(B, classes)``; one-hot for hard labels."""

    @abstractmethod
    def confidence(self, measure: str) -> Tensor:
        """One float64 per row by "margin" or "entropy" (hard labels: the given confidence, or a constant)."""

    @abstractmethod
    def take(self, rows: Tensor) -> Self: ...

    @classmethod
    @abstractmethod
    def concatenate(cls, parts: Sequence[Self]) -> Self: ...

    def labelled(self) -> Tensor:
        """Which rows have a label at all, ``(N,)`` bool."""
        return self.top1() >= 0

    def simplest(self) -> "Labels":
        """The same labels in their plainest form: one-hot rows are hard labels."""
        return self


@add_parts.register
def _(labels: Labels, into: Hash, above: Above) -> None:
    # What was fitted to votes follows from them.
    add({name: value for name, value in vars(labels).items() if name != "_fit"}, into, above)


class Ranking(Labels):
    """Labels that score the classes, so that "the teacher's top k" means something.

    A row without a label has ``top1`` −1 and all scores 0; training drops it, and no estimate is made from or for it.
    """

    classes: int
    listed: int
    """How many classes a row scores one by one: all of them, or the K of a top-k list."""

    @abstractmethod
    def ranked(self, start: int, stop: int) -> Ranked:
        """Rows start … stop − 1 in descending order of probability."""

    def leading(self, start: int, stop: int, depth: int) -> Leading:
        """Only the ``depth`` largest scores of these rows, without their classes."""
        ranked = self.ranked(start, stop)
        following = torch.cat([ranked.probs, ranked.rest.unsqueeze(1)], dim=1)
        return Leading(ranked.probs[:, :depth], following[:, min(depth, ranked.probs.shape[1])], self.classes)

    @abstractmethod
    def places(self, labels: Tensor) -> Tensor:
        """How many classes stand before the given one in each row's ranking, ``(N,)``; C where it is not listed."""


class Soft(Ranking):
    """Class probabilities, ``(N, C)``. Stored as given: a float16 or memory-mapped array is not copied."""

    def __init__(self, probs: Any, *, where: str = "teacher", trusted: bool = False) -> None:
        self.probs = to_tensor(probs, where)
        if not trusted:
            check_probabilities(self.probs, where)
        self.classes = self.listed = self.probs.shape[1]

    def __len__(self) -> int:
        return len(self.probs)

    def top1(self) -> Tensor:
        return self.probs.argmax(-1)

    def labelled(self) -> Tensor:
        return torch.ones(len(self), dtype=torch.bool)

    def dense(self, rows: Tensor, classes: int) -> Tensor:
        return self.probs.index_select(0, rows).float()

    def confidence(self, measure: str) -> Tensor:
        # Chunked: the float64 copy of a large label matrix would not fit beside it.
        return torch.cat([MEASURES[measure](chunk) for chunk in self.probs.split(CHUNK)])

    def ranked(self, start: int, stop: int) -> Ranked:
        return rank(self.probs[start:stop])

    def leading(self, start: int, stop: int, depth: int) -> Leading:
        return leading(self.probs[start:stop], depth)

    def places(self, labels: Tensor) -> Tensor:
        chunks = zip(self.probs.split(_WIDE), labels.split(_WIDE), strict=True)
        return torch.cat([places(probs, mine) for probs, mine in chunks])

    def take(self, rows: Tensor) -> "Soft":
        return Soft(self.probs[rows], trusted=True)

    @classmethod
    def concatenate(cls, parts: Sequence["Soft"]) -> "Soft":
        same_classes(parts)
        return cls(torch.cat([part.probs for part in parts]), trusted=True)

    def simplest(self) -> Labels:
        one_hot = all(bool(((chunk == 0) | (chunk == 1)).all()) for chunk in self.probs.split(CHUNK))
        return Hard(self.top1(), classes=self.classes) if one_hot else self


class Hard(Labels):
    """One class number per row, −1 for "no label"; ``confidence`` is any number that grows with trust."""

    def __init__(
        self, labels: Any, confidence: Any = None, *, classes: int | None = None, where: str = "teacher"
    ) -> None:
        self.labels = check_labels(labels, where, missing_allowed=True)
        self.classes = classes
        if classes is not None and len(self) and int(self.labels.max()) >= classes:
            row = int(self.labels.argmax())
            raise UnderstudyError(
                f"{where} row {row} is {int(self.labels.max())}, but there are {classes} classes (0 to {classes - 1})"
            )
        self.given = None if confidence is None else to_tensor(confidence, f"{where} confidence").double()
        if self.given is not None:
            if self.given.dim() != 1:
                raise UnderstudyError(
                    f"{where} confidence has shape {tuple(self.given.shape)}; it is one number per row"
                )
            check_length(len(self.given), len(self.labels), f"{where} confidence", f"{where} labels")
            missing = self.given.isnan() & (self.labels >= 0)
            if bool(missing.any()):
                row = int(missing.nonzero()[0, 0])
                raise UnderstudyError(
                    f"{where} confidence row {row} is NaN; give a number there, or label −1 for no label"
                )

    def __len__(self) -> int:
        return len(self.labels)

    def top1(self) -> Tensor:
        return self.labels

    def dense(self, rows: Tensor, classes: int) -> Tensor:
        labels = self.labels.index_select(0, rows)
        return torch.zeros(len(rows), classes, device=labels.device).scatter_(1, labels.unsqueeze(1), 1.0)

    def confidence(self, measure: str) -> Tensor:
        if self.given is None:
            return torch.full((len(self),), 1.0 if measure == "margin" else 0.0, dtype=torch.float64)
        # Entropy falls as trust grows; only the order and the distances matter to the estimators.
        return self.given if measure == "margin" else -self.given

    def take(self, rows: Tensor) -> "Hard":
        return Hard(self.labels[rows], None if self.given is None else self.given[rows], classes=self.classes)

    @classmethod
    def concatenate(cls, parts: Sequence["Hard"]) -> "Hard":
        confidences = [part.given for part in parts if part.given is not None]
        if len(confidences) not in (0, len(parts)):
            raise UnderstudyError("some hard labels have a confidence and some have none; give it to all or to none")
        return cls(
            torch.cat([part.labels for part in parts]),
            torch.cat(confidences) if confidences else None,
            classes=max((part.classes for part in parts if part.classes), default=None),
        )


def same_classes(parts: Sequence[Labels]) -> None:
    counts = sorted({part.classes for part in parts if part.classes is not None})
    if len(counts) > 1:
        raise UnderstudyError(
            f"labels over {' and '.join(map(str, counts))} classes cannot be joined; score the same classes in both"
        )


def as_labels(teacher: Any, where: str = "teacher") -> Labels:
    """Whatever a user passes as ``teacher=``: a label form, a 2-d array (soft) or a 1-d one (hard)."""
    if isinstance(teacher, Labels):
        return teacher
    tensor = to_tensor(teacher, where)
    if tensor.dim() == 1:
        return Hard(tensor, where=where)
    return Soft(tensor, where=where)
