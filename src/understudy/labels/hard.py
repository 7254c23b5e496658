"""Hard labels: one class number per row, −1 where there is none, with or without a confidence.

us.Pool(x, answers)                           # (N,) integers
us.Pool(x, us.Hard(answers, confidence))      # confidence: any number that grows with trust
us.Pool(x, us.Hard(["pos", "neg"], confidence, classes=("neg", "pos")))
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from understudy.arguments import checked
from understudy.data.checks import check_labels, check_length, first_bad, to_tensor
from understudy.errors import UnderstudyError
from understudy.labels.base import Column, Columns, Labels, ReadOptions
from understudy.labels.class_names import class_numbers


class Hard(Labels):
    """One class number per row, −1 for "no label"; ``confidence`` is any number that grows with trust."""

    columns = (
        Column("teacher_label", "int32", -1, holds="class", may_be_empty=True),
        Column("teacher_confidence", "float64", float("nan"), may_be_empty=True, required=False),
    )

    @checked
    def __init__(
        self, labels: Any, confidence: Any = None, *, classes: int | Sequence[str] | None = None, where: str = "teacher"
    ) -> None:
        labels, classes, self.names = class_numbers(labels, classes, where)
        self.labels = check_labels(labels, where, missing_allowed=True)
        self.classes = classes
        if classes is not None and len(self) and int(self.labels.max()) >= classes:
            row = int(self.labels.argmax())
            raise UnderstudyError(
                f"{where} row {row} is {int(self.labels.max())}, but there are {classes} classes (0 to {classes - 1})"
            )
        self.given = None if confidence is None else to_tensor(confidence, f"{where} confidence").double()
        self.has_confidence = self.given is not None
        if self.given is not None:
            if self.given.dim() != 1:
                shape = tuple(self.given.shape)
                raise UnderstudyError(f"{where} confidence has shape {shape}; it is one number per row")
            check_length(len(self.given), len(self.labels), f"{where} confidence", f"{where} labels")
            missing = self.given.isnan() & (self.labels >= 0)
            if bool(missing.any()):
                where = f"{where} confidence row {first_bad(missing)}"
                raise UnderstudyError(f"{where} is NaN; give a number there, or label −1 for no label")

    @property
    def form(self) -> str:
        return "hard_confidence" if self.has_confidence else "hard"

    @property
    def title(self) -> str:
        return "hard labels with a confidence" if self.has_confidence else "hard labels"

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
        taken = Hard.__new__(Hard)  # rows of what was checked
        taken.labels, taken.classes, taken.names = self.labels[rows], self.classes, None
        taken.given, taken.has_confidence = None if self.given is None else self.given[rows], self.has_confidence
        return taken

    def with_classes(self, classes: int) -> "Hard":
        return Hard(self.labels, self.given, classes=classes, where="the labels")

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

    def to_columns(self) -> Columns:
        columns: Columns = {"teacher_label": self.labels.int().numpy()}
        if self.given is not None:
            columns["teacher_confidence"] = torch.where(self.labels < 0, torch.nan, self.given).numpy()
        return columns

    @classmethod
    def from_columns(cls, columns: Columns, options: ReadOptions) -> "Hard":
        confidence = columns.get("teacher_confidence")
        return cls(columns["teacher_label"], confidence, classes=options.classes, where=options.where)

    @classmethod
    def stored(cls, form: str) -> tuple[Column, ...]:
        return cls.columns if form == "hard_confidence" else cls.columns[:1]
