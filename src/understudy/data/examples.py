"""Gold and Pool: the two sets everything starts from.

gold = us.Gold(x_gold, y_gold, teacher=probs_on_gold)   # teacher: only where it had not trained on these rows
pool = us.Pool(x_pool, teacher=probs_on_pool)
"""

from collections.abc import Callable, Hashable, Iterable
from typing import Any, Self, TypeVar

import numpy as np
import torch
from torch import Tensor

from understudy.data.checks import check_ids, check_labels, check_length, to_tensor
from understudy.data.rows import Rows, SubsetRows, TensorRows, as_rows, concatenate
from understudy.errors import UnderstudyError
from understudy.labels.forms import Labels, as_labels

Ids = np.ndarray[Any, Any]
Answer = TypeVar("Answer")


class Gold:
    """Examples with trusted labels.

    ``teacher`` is what the teacher said of these rows; give it only where the teacher had not trained on them, because
    such rows *estimate* how far it can be trusted. Rows without it only train. ``chosen=True`` marks rows picked by
    active learning: they are not a random sample, so they train and never estimate. ``a + b`` concatenates.
    """

    answers: dict[Hashable, Any] | None = None
    """What was estimated from these rows, for trainings that share them; None: every training estimates anew."""

    def __init__(
        self,
        x: Any,
        y: Any,
        teacher: Any = None,
        ids: Iterable[Any] | None = None,
        chosen: bool | Any = False,
        *,
        name: str = "gold",
    ) -> None:
        self.rows = as_rows(x, f"{name}.x")
        self.y = check_labels(y, f"{name}.y")
        check_length(len(self.y), len(self.rows), f"{name}.y", f"{name}.x")
        if not len(self.y):
            raise UnderstudyError(f"{name} is empty; give at least one row with a trusted label")
        self.ids = check_ids(ids, len(self), name)
        self.chosen = _which(chosen, len(self))
        self.teacher: Labels | None = None
        self.teacher_rows = torch.empty(0, dtype=torch.long)
        if teacher is not None:
            labels = as_labels(teacher, f"{name}.teacher")
            check_length(len(labels), len(self), f"{name}.teacher", f"{name}.x")
            self._set_teacher(labels, torch.arange(len(self)))

    def _set_teacher(self, labels: Labels, rows: Tensor) -> None:
        """Keep the teacher's word on ``rows``, without those it left unlabelled."""
        if labels.classes is not None:
            _check_class_count(self.y, labels.classes)
        said = labels.labelled()
        self.teacher = labels if bool(said.all()) else labels.take(said.nonzero().squeeze(1))
        self.teacher_rows = rows[said]

    def __len__(self) -> int:
        return len(self.y)

    def __repr__(self) -> str:
        return f"Gold({len(self)} rows, {len(self.estimate_rows())} with the teacher's word)"

    @property
    def x(self) -> Any:
        return self.rows.x if isinstance(self.rows, TensorRows) else self.rows

    def estimate_rows(self) -> Tensor:
        """Rows that may estimate the teacher: it labelled them unseen, and they were not chosen."""
        return self.teacher_rows[~self.chosen[self.teacher_rows]]

    def estimates(self) -> tuple[Tensor, Labels | None]:
        """Those rows, and what the teacher said of them."""
        keep = (~self.chosen[self.teacher_rows]).nonzero().squeeze(1)
        return self.teacher_rows[keep], None if self.teacher is None else self.teacher.take(keep)

    def once(self, question: Hashable, answer: Callable[[], Answer]) -> Answer:
        """``answer()``, kept for the next who asks where ``answers`` is a dict."""
        if self.answers is None:
            return answer()
        if question not in self.answers:
            self.answers[question] = answer()
        found: Answer = self.answers[question]
        return found

    def take(self, index: Tensor) -> "Gold":
        """Some rows of this set, with what the teacher said of them."""
        part = Gold.__new__(Gold)
        part.rows = _take_rows(self.rows, index)
        part.y, part.chosen = self.y[index], self.chosen[index]
        part.ids = None if self.ids is None else self.ids[index.numpy()]
        place = torch.full((len(self),), -1)
        place[self.teacher_rows] = torch.arange(len(self.teacher_rows))
        with_teacher = place[index]
        part.teacher_rows = (with_teacher >= 0).nonzero().squeeze(1)
        part.teacher = None if self.teacher is None else self.teacher.take(with_teacher[part.teacher_rows])
        return part

    def __add__(self, other: Self) -> "Gold":
        if (self.ids is None) != (other.ids is None):
            raise UnderstudyError("one gold set has ids and the other has none; give ids to both or to neither")
        ids = None if self.ids is None or other.ids is None else np.concatenate([self.ids, other.ids])
        both = Gold(
            concatenate(self.rows, other.rows),
            torch.cat([self.y, other.y]),
            ids=ids,
            chosen=torch.cat([self.chosen, other.chosen]),
        )
        spoken = [labels for labels in (self.teacher, other.teacher) if labels is not None]
        if spoken:
            if len({type(labels) for labels in spoken}) > 1:
                raise UnderstudyError(
                    "the two gold sets hold the teacher's labels in different forms; use one form (soft or hard)"
                )
            both.teacher = type(spoken[0]).concatenate(spoken)
            both.teacher_rows = torch.cat([self.teacher_rows, other.teacher_rows + len(self)])
        return both


class Pool:
    """Examples with imperfect labels (``teacher``), or with none (``teacher=None``, for active learning)."""

    def __init__(self, x: Any, teacher: Any = None, ids: Iterable[Any] | None = None) -> None:
        self.rows = as_rows(x, "pool.x")
        self.teacher = None if teacher is None else as_labels(teacher, "pool.teacher")
        if self.teacher is not None:
            check_length(len(self.teacher), len(self.rows), "pool.teacher", "pool.x")
        self.ids = check_ids(ids, len(self), "pool")

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        said = "no labels" if self.teacher is None else f"{type(self.teacher).__name__} labels"
        return f"Pool({len(self)} rows, {said})"

    @property
    def x(self) -> Any:
        return self.rows.x if isinstance(self.rows, TensorRows) else self.rows

    def take(self, index: Tensor) -> "Pool":
        part = Pool.__new__(Pool)
        part.rows = _take_rows(self.rows, index)
        part.teacher = None if self.teacher is None else self.teacher.take(index)
        part.ids = None if self.ids is None else self.ids[index.numpy()]
        return part


def _take_rows(rows: Rows, index: Tensor) -> Rows:
    return SubsetRows(rows, index)


def _which(chosen: Any, rows: int) -> Tensor:
    """``(rows,)`` bool, of one answer for all or one for each."""
    if isinstance(chosen, bool):
        return torch.full((rows,), chosen)
    which = to_tensor(chosen, "gold.chosen")
    if which.dim() != 1:
        raise UnderstudyError(f"gold.chosen has shape {tuple(which.shape)}; it is True, False, or one of them per row")
    check_length(len(which), rows, "gold.chosen", "gold.x")
    return which.bool()


def _check_class_count(y: Tensor, classes: int) -> None:
    if int(y.max()) >= classes:
        row = int(y.argmax())
        raise UnderstudyError(
            f"gold.y row {row} is class {int(y.max())}, but the teacher knows {classes} classes "
            f"(0 to {classes - 1}); check the label encoding of one of them"
        )
