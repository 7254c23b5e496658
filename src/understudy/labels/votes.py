"""Votes of several annotators or rules, as teacher labels.

``by="majority"``: the shares of the votes are soft labels; ties stay ties. ``by="dawid_skene"``: the posterior of the
Dawid–Skene model, which learns each annotator's mistakes from their disagreements. ``by="gold"``: the posterior of
sources that were counted on gold, abstentions included (``maths/source_confusion.py``): on rules, which copy each
other, 10 points above the other two or level with them; independent annotators are Dawid–Skene's case. Rows without
votes have no label under any rule: training drops and counts them. (Abstaining has a likelihood too, but it implies
little more than the classes' shares, which a student would learn as if the row had been labelled.)

Gold and pool share one model. That of ``by="gold"`` is fitted where the two are used together (a training, a
comparison, an audit), on the gold rows at hand: a part of gold never sees the rest. The labels of gold rows are
cross-fitted, so that none was made with the row's own truth when the teacher is measured on them. Dawid–Skene is fitted
on the larger set and passed on; rows taken out of a set keep the model of the set:

    votes = us.Votes(pool_votes, classes=2, by="dawid_skene")            # (N, A) integers, −1 abstains
    fit = votes.dawid_skene()                                            # .prior, .confusion, .posterior
    pool, gold = us.Pool(x, votes), us.Gold(xg, yg, teacher=us.Votes(gold_votes, classes=2, by=fit))

    pool, gold = (us.Votes(each, classes=2, by="gold") for each in (pool_votes, gold_votes))
    fit = us.fit_votes(gold_votes, yg, classes=2)                        # or by hand: .confusion, .posterior_of(votes)
    us.Votes(pool_votes, classes=2, by=fit)
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from understudy.data.checks import check_class_count, check_labels, check_length, first_bad, to_tensor
from understudy.errors import UnderstudyError
from understudy.labels.base import Column, Columns, Hard, Labels, ReadOptions, VoteModel, same_classes
from understudy.labels.class_names import class_numbers
from understudy.labels.soft import Distribution
from understudy.maths import source_confusion
from understudy.maths.annotators import DawidSkene, fit_dawid_skene, vote_shares
from understudy.maths.source_confusion import Sources, cross_posterior
from understudy.store.option_fields import checked

_RULES = ("majority", "dawid_skene", "gold")


class Votes(Distribution):
    """``votes (N, A)``: the class that each of A annotators gave each row."""

    columns = (
        Column("teacher_votes", "int32", -1, holds="class", lists=True, may_be_empty=True, prefix="teacher_vote_"),
    )  # fmt: skip
    form, title = "votes", "votes"
    needs_classes = True
    derived = (*Labels.derived, "_crossed", "sources")

    @checked
    def __init__(
        self,
        votes: Any,
        classes: int | Sequence[str],
        by: str | VoteModel = "majority",
        *,
        sources: Sequence[str] | None = None,
        where: str = "teacher",
    ) -> None:
        votes, count, self.names = class_numbers(votes, classes, where)
        self.classes = self.listed = classes = check_class_count(count, where)
        if not isinstance(by, VoteModel) and by not in _RULES:
            raise UnderstudyError(f"Votes(by={by!r}): use one of {', '.join(_RULES)}, or what fit_votes returned")
        self.votes = _checked(to_tensor(votes, where), classes, where)
        if isinstance(by, VoteModel) and by.confusion.shape[:2] != (self.votes.shape[1], classes):
            mine, fitted = f"{self.votes.shape[1]} annotators and {classes} classes", tuple(by.confusion.shape[:2])
            raise UnderstudyError(f"{where} holds {mine}, but by= was fitted on {fitted}; use the same annotators")
        if sources is not None and len(sources) != self.votes.shape[1]:
            raise UnderstudyError(f"{where} holds {self.votes.shape[1]} annotators, but sources= names {len(sources)}")
        self.by, self.needs_gold = by, isinstance(by, str) and by == "gold"
        #: The annotators' names.
        self.sources = None if sources is None else tuple(map(str, sources))
        self._fit = by if isinstance(by, VoteModel) else None
        #: Posteriors ``(N, C)`` of gold rows, each by a model of other rows.
        self._crossed: Tensor | None = None

    def __len__(self) -> int:
        return len(self.votes)

    def dawid_skene(self) -> DawidSkene:
        """Posterior, class prior and the annotators' confusion matrices, by EM on these votes."""
        return fit_dawid_skene(self.votes, self.classes)

    def majority(self) -> Tensor:
        """Vote shares, ``(N, C)``; all zero on rows without votes."""
        return vote_shares(self.votes, self.classes)

    def answers(self) -> Tensor:
        return self.votes

    def labelled(self) -> Tensor:
        return (self.votes >= 0).any(1)

    def take(self, rows: Tensor) -> "Votes":
        crossed = None if self._crossed is None else self._crossed[rows]
        return self._like(votes=self.votes[rows], by=self.vote_model() or self.by, _crossed=crossed)

    @classmethod
    def join(cls, parts: Sequence["Votes"]) -> "Votes":
        same_classes(parts)
        first = parts[0]
        if any(part.votes.shape[1] != first.votes.shape[1] for part in parts):
            raise UnderstudyError("votes of different annotators cannot be joined; pad with columns of −1")
        # Two models, or a model and a rule, would rank alike votes differently.
        if any(part.by is not first.by and part.by != first.by for part in parts):
            raise UnderstudyError("these votes are weighed by different models; pass one votes.dawid_skene() as by=")
        crossed = None
        if any(part._crossed is not None for part in parts):
            crossed = torch.cat([part._posterior(slice(None)) for part in parts])
        votes = torch.cat([part.votes for part in parts])
        return first._like(votes=votes, by=first.vote_model() or first.by, _crossed=crossed)

    def simplest(self) -> Labels:
        """A single annotator's votes are hard labels; unanimous votes of several still rank the classes."""
        if self.votes.shape[1] == 1 and self.by == "majority":
            return Hard(self.votes[:, 0], classes=self.classes)
        return self

    def learn_from(self, gold: Labels, y: Tensor) -> "Votes":
        if not self.needs_gold:
            return self
        if not isinstance(gold, Votes) or gold.votes.shape[1] != self.votes.shape[1]:
            raise UnderstudyError('by="gold" needs the same annotators\' votes on gold; give it as many columns')
        if gold.sources is not None and self.sources is not None and gold.sources != self.sources:
            one, other = next(pair for pair in zip(gold.sources, self.sources, strict=True) if len(set(pair)) > 1)
            raise UnderstudyError(f"gold and pool: votes of different annotators ({one!r}, {other!r}); use one order")
        return Votes(self.votes, self.classes, by=fit_votes(gold.votes, y, self.classes), sources=self.sources)

    def cross_fitted(self, y: Tensor, known: Tensor) -> "Votes":
        fitted = self.learn_from(self.take(known.nonzero().squeeze(1)), y[known])
        if fitted is not self:
            crossed = fitted._posterior(slice(None))
            crossed[known] = cross_posterior(self.votes[known], y[known], self.classes)
            fitted._crossed = crossed
        return fitted

    def vote_model(self) -> VoteModel | None:
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
        return cls(votes, options.classes, by=options.votes, sources=options.sources, where=options.where)

    def probs_of(self, rows: slice | Tensor) -> Tensor:
        votes = self.votes[rows]
        if self.needs_gold:
            cure = "elsewhere pass by=us.fit_votes(gold_votes, y, classes)"
            raise UnderstudyError(f'votes by="gold" are weighed where gold and pool are used together; {cure}')
        if self.by == "majority":
            return vote_shares(votes, self.classes)
        return self._posterior(rows) * (votes >= 0).any(1, keepdim=True)

    def _posterior(self, rows: slice | Tensor) -> Tensor:
        if self._crossed is not None:
            return self._crossed[rows]
        model = self.vote_model()
        assert model is not None
        return model.posterior_of(self.votes[rows])


@checked
def fit_votes(votes: Any, y: Any, classes: int) -> Sources:
    """Each annotator's or rule's confusion, counted on gold: the model that ``us.Votes(…, by=…)`` weighs with.

    ``votes (N, A)`` of rows whose truth is ``y``; −1 abstains. Do not label these rows with it: their own truth is in
    it (``by="gold"`` cross-fits them).
    """
    given = _checked(to_tensor(votes, "votes"), check_class_count(classes, "votes"), "votes")
    truth = check_labels(y, "y")
    check_length(len(truth), len(given), "y", "votes")
    if not len(truth):
        raise UnderstudyError("no gold row has a vote; votes are weighed by gold rows that have some")
    if int(truth.max()) >= classes:
        raise UnderstudyError(f"y holds class {int(truth.max())}, but there are {classes} classes; check classes=")
    return source_confusion.fit_votes(given, truth, classes)


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
        found = f"{where} row {row}, annotator {annotator} is {int(votes[row, annotator])}"
        raise UnderstudyError(f"{found}; votes are 0 to {classes - 1}, or −1 to abstain")
    return votes.to(torch.int8 if classes <= 127 else torch.int16 if classes < 1 << 15 else torch.int32)
