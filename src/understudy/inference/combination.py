"""Student and teacher combined (``cascade.py`` has the formula), fitted on gold rows that did not train the student.

b and a are those of an opinion pool (``maths/opinion_pool.py``). P(label | y) are gold counts shrunk towards ``pool``
(rows by reconciled class and teacher's label: with 77 classes gold alone is too thin), with the strength m of least
log-loss at b = 1 and a = 0. All is cross-fitted: each row has a q by a fit that never saw it, and within a fit b and a
see likelihoods that were counted on other rows.

    combination, held_out = fit_combination(probs, labels, y, pool=counts)    # labels (n,) or (n, C), counts (C, C)
"""

import torch
from torch import Tensor
from torch.nn.functional import nll_loss

from understudy.inference.cascade import LEAST, Combination
from understudy.maths.opinion_pool import fit_scalar_pool
from understudy.maths.source_confusion import STRENGTHS, cross_likelihood, deal_folds, fit_sources, random_folds


def fit_combination(
    probs: Tensor, teacher: Tensor, y: Tensor, *, pool: Tensor | None = None
) -> tuple[Combination, Tensor]:
    """And q ``(n, C)`` of each row by a fit without its fold. ``probs``: of a student that these rows did not train;
    ``teacher``: labels ``(n,)`` or probabilities ``(n, C)``."""
    fold, held_out = random_folds(len(y)), torch.empty(probs.shape, dtype=torch.float64)
    for number in fold.unique().tolist():
        mine = fold == number
        fitted = _fit(probs[~mine], teacher[~mine], y[~mine], pool)
        held_out[mine] = torch.from_numpy(fitted(probs[mine].numpy(), teacher[mine].numpy()))
    return _fit(probs, teacher, y, pool), held_out


def _fit(probs: Tensor, teacher: Tensor, y: Tensor, pool: Tensor | None) -> Combination:
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
