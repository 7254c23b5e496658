"""Student and teacher combined, fitted on gold rows that the student was not trained on.

    log q(y | x) = b_0 · log P(label | y) + b_1 · log p_student(y | x) [+ b_2 · log s(y)] + a_y − log Z(x)

b and a are those of an opinion pool (``opinion_pool.py``); s is a soft label, whose best class is its label. P(label |
y) are gold counts shrunk towards ``pool`` (rows by reconciled class and teacher's label: with 77 classes gold alone is
too thin), with the strength m of least log-loss. All of it is cross-fitted: ``held_out`` has each row's q by a fit that
never saw it, and within a fit b and a see likelihoods counted on other rows.

    fit = fit_combination(probs, labels, y, pool=counts)        # probs (n, C), labels (n,) or (n, C), counts (C, C)
    fit.weights, fit.bias, fit.log_likelihood, fit.held_out
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from understudy.maths.opinion_pool import OpinionPool, fit_scalar_pool
from understudy.maths.source_confusion import FOLDS, cross_likelihood, deal_folds, fit_sources, random_folds

STRENGTHS = (3.0, 10.0, 30.0, 100.0)
# As in reconciled labels: no probability counts for more than 10,000 to 1.
LEAST = 1e-4


@dataclass(frozen=True, eq=False)
class CombinationFit:
    #: b, ``(2,)`` or ``(3,)``; a, ``(C,)``; log P(label | y), ``(C, C)``.
    weights: Tensor
    bias: Tensor
    log_likelihood: Tensor
    #: m, in gold rows.
    strength: float
    #: q ``(n, C)`` of each row, by a fit without its fold.
    held_out: Tensor | None = None

    def __call__(self, probs: Tensor, teacher: Tensor) -> Tensor:
        """q ``(n, C)`` float64."""
        labels = teacher if teacher.dim() == 1 else teacher.argmax(1)
        scores = _stack(self.log_likelihood.T[labels], probs, teacher)
        return OpinionPool(self.weights, self.bias)(scores).exp()


def fit_combination(probs: Tensor, teacher: Tensor, y: Tensor, *, pool: Tensor | None = None) -> CombinationFit:
    """``probs``: of a student that was not trained on these rows; ``teacher``: labels ``(n,)`` or probabilities."""
    fold, held_out = random_folds(len(y), FOLDS), torch.empty(probs.shape, dtype=torch.float64)
    for number in fold.unique().tolist():
        mine = fold == number
        held_out[mine] = _fit(probs[~mine], teacher[~mine], y[~mine], pool)(probs[mine], teacher[mine])
    return replace(_fit(probs, teacher, y, pool), held_out=held_out)


def _fit(probs: Tensor, teacher: Tensor, y: Tensor, pool: Tensor | None) -> CombinationFit:
    classes = probs.shape[1]
    votes = (teacher if teacher.dim() == 1 else teacher.argmax(1)).unsqueeze(1)
    others = None if pool is None else pool.unsqueeze(0)
    fold, least, best = deal_folds(y), float("inf"), None
    for strength in STRENGTHS:
        likelihood = cross_likelihood(votes, y, classes, fold, strength=strength, others=others)
        opinion = fit_scalar_pool(scores := _stack(likelihood, probs, teacher), y)
        loss = float(-opinion(scores).gather(1, y.unsqueeze(1)).mean())
        if loss < least:
            least, best = loss, (opinion, strength)
    assert best is not None
    opinion, strength = best
    confusion = fit_sources(votes, y, classes, strength=strength, others=others).confusion[0, :, :classes]
    return CombinationFit(opinion.weights, opinion.bias, confusion.log(), strength)


def _stack(likelihood: Tensor, probs: Tensor, teacher: Tensor) -> Tensor:
    """Scores ``(M, n, C)``."""
    soft = [] if teacher.dim() == 1 else [_log(teacher)]
    return torch.stack([likelihood, _log(probs), *soft])


def _log(probs: Tensor) -> Tensor:
    return probs.double().clamp(min=LEAST).log().log_softmax(1)
