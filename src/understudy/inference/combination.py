"""Student and teacher combined (``cascade.py`` has the formula), fitted on gold rows that did not train the student.

b and a are those of an opinion pool (``maths/opinion_pool.py``). P(label | y) are gold counts shrunk towards a pool's
(rows by reconciled class and teacher's label: with 77 classes gold alone is too thin), with the strength m of least
log-loss at b = 1 and a = 0. All is cross-fitted: each row has a q by a fit that never saw it, nor did the pool's
counts, nor the choice whether to combine at all; and within a fit b and a see likelihoods that were counted on others.

    found = fit_combination(logits, labels, y, temperature=1.2, pool=counts)          # labels (n,) or (n, C)
    found.combination, found.better, found.unseen, found.helps
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import nll_loss

from understudy.inference.cascade import LEAST, Combination
from understudy.maths.folds import deal_folds, random_folds
from understudy.maths.opinion_pool import fit_scalar_pool
from understudy.maths.proportions import disagreement
from understudy.maths.source_confusion import STRENGTHS, cross_likelihood, fit_sources
from understudy.maths.temperature import cross_tempered


class PoolCounts(NamedTuple):
    """Rows of a pool by reconciled class and teacher's label."""

    #: ``(C, C)``, by labels reconciled on all of gold.
    every: Tensor
    #: ``(K, C, C)``, by labels reconciled without each fold of gold; the fold of each gold row, and its class.
    by_fold: Tensor | None = None
    fold: Tensor | None = None
    y: Tensor | None = None

    def of(self, y: Tensor, rows: Tensor) -> "PoolCounts":
        """For these ``rows`` of a set with the classes ``y``. Test rows are in no fold: no label was fitted to them."""
        if self.fold is None or self.y is None or not torch.equal(self.y, y):
            return PoolCounts(self.every)
        return self._replace(fold=self.fold[rows], y=y[rows])

    def without(self, number: int) -> Tensor:
        return self.every if self.by_fold is None else self.by_fold[number]


class FittedCombination(NamedTuple):
    #: To all rows.
    combination: Combination
    #: Whether its log-loss, cross-fitted, is below the student's, and its accuracy is not.
    better: bool
    #: q ``(n, C)`` of each row, by a fit without its fold.
    unseen: Tensor
    #: ``(n,)`` bool: whether it is better, as the rows of the other folds tell.
    helps: Tensor
    #: The share of rows to which two folds' fits give different classes.
    disagreement: float


def fit_combination(
    logits: Tensor, teacher: Tensor, y: Tensor, *, temperature: float = 1.0, pool: PoolCounts | None = None
) -> FittedCombination:
    """``logits``: by a student not trained on these rows; ``teacher``: labels ``(n,)`` or probabilities ``(n, C)``."""
    fold = random_folds(len(y)) if pool is None or pool.fold is None else pool.fold
    probs, helps = (logits.double() / temperature).softmax(1), torch.zeros(len(y), dtype=torch.bool)
    unseen, by_fold = torch.empty_like(probs), []
    for number in fold.unique().tolist():
        mine, counts = fold == number, None if pool is None else pool.without(number)
        f, s, labels = probs[~mine], teacher[~mine], y[~mine]
        combined = _apply(fit_on(f, s, labels, counts), probs, teacher)
        unseen[mine] = combined[mine]
        by_fold.append(combined.argmax(1).numpy())
        inner, among = random_folds(len(labels)), torch.empty_like(f)
        for part in inner.unique().tolist():
            out = inner == part
            among[out] = _apply(fit_on(f[~out], s[~out], labels[~out], counts), f[out], s[out])
        helps[mine] = _better(among, logits[~mine], labels)
    every = fit_on(probs, teacher, y, None if pool is None else pool.every)
    return FittedCombination(every, _better(unseen, logits, y), unseen, helps, disagreement(by_fold))


def _better(combined: Tensor, logits: Tensor, y: Tensor) -> bool:
    both = combined, cross_tempered(logits, y)
    losses = [float(nll_loss(each.clamp(min=1e-12).log(), y)) for each in both]
    correct = [int((each.argmax(1) == y).sum()) for each in both]
    return losses[0] < losses[1] and correct[0] >= correct[1]


def _apply(combination: Combination, probs: Tensor, teacher: Tensor) -> Tensor:
    return torch.from_numpy(combination(probs.numpy(), teacher.numpy()))


def fit_on(probs: Tensor, teacher: Tensor, y: Tensor, pool: Tensor | None = None) -> Combination:
    """By all of these rows, whether it helps or not."""
    classes, fold = probs.shape[1], deal_folds(y)
    votes = (teacher if teacher.dim() == 1 else teacher.argmax(1)).unsqueeze(1)
    others = None if pool is None else pool.unsqueeze(0)
    known = [probs] if teacher.dim() == 1 else [probs, teacher]
    given = [each.double().clamp(min=LEAST).log().log_softmax(1) for each in known]
    tried = {m: cross_likelihood(votes, y, classes, fold, strength=m, others=others) for m in STRENGTHS}
    strength = min(tried, key=lambda m: float(nll_loss((tried[m] + given[0]).log_softmax(1), y)))
    opinion = fit_scalar_pool(torch.stack([tried[strength], *given]), y)
    confusion = fit_sources(votes, y, classes, strength=strength, others=others).confusion[0, :, :classes]
    return Combination(opinion.weights.numpy(), opinion.bias.numpy(), confusion.log().numpy())
