"""Votes of several annotators or rules, as teacher labels.

``by="majority"``: the shares of the votes are soft labels; ties stay ties. ``by="dawid_skene"``: the posterior of the
Dawid–Skene model, which learns each annotator's mistakes from their disagreements. Rows nobody voted on have no label:
training drops and counts them. One model must speak for gold and pool, so fit it where the votes are many and hand it
on; rows taken out of a set keep the model of the set:

    votes = us.Votes(pool_votes, classes=2, by="dawid_skene")            # (N, A) integers, −1 abstains
    fit = votes.dawid_skene()                                            # .prior, .confusion, .posterior
    pool, gold = us.Pool(x, votes), us.Gold(xg, yg, teacher=us.Votes(gold_votes, classes=2, by=fit))
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from understudy.data.checks import check_class_count, first_bad, to_tensor
from understudy.errors import UnderstudyError
from understudy.labels.base import Column, Columns, Labels, ReadOptions, same_classes
from understudy.labels.hard import Hard
from understudy.labels.soft import Distribution
from understudy.maths.dawid_skene import DawidSkene, fit_dawid_skene, vote_shares

_RULES = ("majority", "dawid_skene")


class Votes(Distribution):
    """``votes (N, A)``: what each of A annotators said of each row."""

    columns = (
        Column("teacher_votes", "int32", -1, holds="class", lists=True, may_be_empty=True, prefix="teacher_vote_"),
    )  # fmt: skip
    form, title = "votes", "votes"
    needs_classes = True

    def __init__(self, votes: Any, classes: int, by: str | DawidSkene = "majority", *, where: str = "teacher") -> None:
        self.classes = self.listed = classes = check_class_count(classes, where)
        if not isinstance(by, DawidSkene) and by not in _RULES:
            raise UnderstudyError(f"Votes(by={by!r}): use one of {', '.join(_RULES)}, or a fitted DawidSkene")
        self.votes = _checked(to_tensor(votes, where), classes, where)
        if isinstance(by, DawidSkene) and by.confusion.shape[:2] != (self.votes.shape[1], classes):
            raise UnderstudyError(
                f"{where} holds {self.votes.shape[1]} annotators and {classes} classes, but by= was fitted on "
                f"{by.confusion.shape[0]} and {by.confusion.shape[1]}; use votes of the same annotators"
            )
        self.by = by
        self._fit = by if isinstance(by, DawidSkene) else None

    def __len__(self) -> int:
        return len(self.votes)

    def dawid_skene(self, *, smoothing: float = 0.01, abstentions: bool | None = None) -> DawidSkene:
        """Posterior, class prior and the annotators' confusion matrices, by EM on these votes.

        ``abstentions``: whether abstaining counts as an answer; None: where most votes come from one-class rules.
        """
        return fit_dawid_skene(self.votes, self.classes, smoothing=smoothing, abstentions=abstentions)

    def majority(self) -> Tensor:
        """Vote shares, ``(N, C)``; all zero where nobody voted."""
        return vote_shares(self.votes, self.classes)

    def labelled(self) -> Tensor:
        return (self.votes >= 0).any(1)

    def take(self, rows: Tensor) -> "Votes":
        return Votes(self.votes[rows], self.classes, by=self.vote_model() or self.by)

    def without(self, rows: Tensor) -> "Votes":
        return Votes(torch.where(rows.unsqueeze(1), -1, self.votes), self.classes, by=self.vote_model() or self.by)

    @classmethod
    def concatenate(cls, parts: Sequence["Votes"]) -> "Votes":
        same_classes(parts)
        first = parts[0]
        if any(part.votes.shape[1] != first.votes.shape[1] for part in parts):
            raise UnderstudyError("votes of different annotators cannot be joined; pad with columns of −1")
        # Two models, or a model and a rule, would rank alike votes differently.
        if any(part.by is not first.by and part.by != first.by for part in parts):
            raise UnderstudyError(
                "these votes are weighed by different models; fit one (votes.dawid_skene()) and pass it as by= to all"
            )
        return cls(torch.cat([part.votes for part in parts]), first.classes, by=first.by)

    def simplest(self) -> Labels:
        """A single annotator's votes are hard labels; unanimous votes of several still rank the classes."""
        if self.votes.shape[1] == 1 and self.by == "majority":
            return Hard(self.votes[:, 0], classes=self.classes)
        return self

    def vote_model(self) -> DawidSkene | None:
        if self._fit is None and self.by == "dawid_skene":
            self._fit = self.dawid_skene()
        return self._fit

    def to_columns(self) -> Columns:
        return {"teacher_votes": self.votes.int().numpy()}

    @classmethod
    def from_columns(cls, columns: Columns, options: ReadOptions) -> "Votes":
        assert options.classes is not None
        votes = columns["teacher_votes"]
        # Files with gaps hold whole numbers as fractions; other fractions are refused below.
        if votes.dtype.kind == "f" and np.array_equal(votes, np.floor(votes)):
            votes = votes.astype(np.int64)
        return cls(votes, options.classes, by=options.votes, where=options.where)

    def probs_of(self, rows: slice | Tensor) -> Tensor:
        votes, model = self.votes[rows], self.vote_model()
        if model is None:
            return vote_shares(votes, self.classes)
        return model.posterior_of(votes) * (votes >= 0).any(1, keepdim=True)


def _checked(votes: Tensor, classes: int, where: str) -> Tensor:
    """In range, and small: one byte a vote up to 127 classes."""
    if votes.dim() != 2 or votes.shape[1] < 1:
        raise UnderstudyError(f"{where} has shape {tuple(votes.shape)}; votes are (rows, annotators), −1 abstains")
    if votes.is_floating_point() or votes.dtype == torch.bool:
        raise UnderstudyError(f"{where} holds {votes.dtype}; votes are class numbers (integers), −1 abstains")
    bad = (votes < -1) | (votes >= classes)
    if bool(bad.any()):
        row = first_bad(bad)
        annotator = first_bad(bad[row].unsqueeze(1))
        raise UnderstudyError(
            f"{where} row {row}, annotator {annotator} is {int(votes[row, annotator])}; votes are 0 to {classes - 1}, "
            "or −1 to abstain"
        )
    return votes.to(torch.int8 if classes <= 127 else torch.int16 if classes < 1 << 15 else torch.int32)
