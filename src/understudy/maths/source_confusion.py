"""How good each of several sources is, counted on rows whose truth is known; and what their answers then say.

A source is a rule, an annotator, or a teacher that gives hard labels. It *speaks* (votes) or abstains (−1), and both
tell something. For source j and truth c, with n_c gold rows of class c, s_jc of which it spoke on and n_jcl of which it
called l, and a strength m (in gold rows):

    P(speaks | c) = (s_jc + m · coverage_j) / (n_c + m)                     coverage_j: how often it speaks on gold
    P(l | c, speaks) = (n_jcl + m · e_jcl) / (s_jc + m)                     e_jcl: accuracy_j if l = c, else shared out
    log P(votes | c) = Σ_j log P(vote_j or abstaining | c)                  (independent given the truth)

accuracy_j is itself shrunk, by m votes, towards the accuracy of all votes. A source that spoke on every gold row is not
known to abstain, so where it does that says nothing; a hard teacher is such a source, alone. Speaking and answering are
smoothed apart: one pseudo-count over all answers would be hardly any for a source that speaks on 2% of the rows.

Sources copy each other, so their sum is too sure of itself: the posterior is softmax(b · (log P(votes | c) + log π_c)),
with one sharpness 0 < b ≤ 1. ``fit_votes`` chooses b and m together by the log-loss of cross-fitted gold rows. EM over
the pool (Dawid–Skene anchored in gold) is not done: on rules it explains how they depend on each other, not the truth,
and loses 8 to 12 points (docs/results/auto.md).

    sources = fit_sources(votes, y, classes=6)                   # votes (N, A), −1 abstains; y (N,)
    sources.log_likelihood(other_votes)                          # (n, C) float64
    cross_likelihood(votes, y, 6)                                # of the rows themselves, by models of other rows
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from understudy.errors import UnderstudyError
from understudy.maths.folds import deal_folds, out_of_fold, random_folds

STRENGTHS = (3.0, 10.0, 30.0, 100.0)
SHARPNESS = torch.arange(2, 21, dtype=torch.float64) / 20
# Numbers looked up together: 8 MB as float64; raised to powers together: 512 KB, which stay in the second-level cache.
_BUDGET, _POWERS = 1 << 20, 1 << 16


@dataclass(frozen=True, eq=False)
class Sources:
    """The fitted sources. Apply them to any votes of the same sources, in the same order."""

    #: π, ``(C,)``: the classes' shares on gold, one pseudo-row each.
    prior: Tensor
    #: P(answer | truth), ``(A, C, C + 1)``: source, truth, answer; the last answer is abstaining, 1 where it says
    #: nothing.
    confusion: Tensor
    #: m.
    strength: float
    #: b.
    sharpness: float = 1.0

    @property
    def classes(self) -> int:
        return self.confusion.shape[1]

    def log_likelihood(self, votes: Tensor) -> Tensor:
        """log P(votes | truth), ``(n, C)`` float64."""
        return _looked_up(self.confusion[None], votes.new_zeros(len(votes)), votes)

    def posterior_of(self, votes: Tensor) -> Tensor:
        """The truth's chances, ``(n, C)`` float64."""
        return self.sharpened(self.log_likelihood(votes)).exp()

    def sharpened(self, log_likelihood: Tensor) -> Tensor:
        """log-posterior, ``(n, C)``."""
        return (self.sharpness * (log_likelihood + self.prior.log())).log_softmax(1)


def fit_sources(
    votes: Tensor, y: Tensor, classes: int, *, strength: float = 10.0, others: Tensor | None = None
) -> Sources:
    """Count on rows whose truth is ``y``. ``strength``: how many gold rows the smoothing is worth; sharpness is 1.

    ``others``: rows by truth and answer ``(A, C, C)``, not of gold; their shares are then what counts are shrunk to.
    """
    if not strength > 0:
        raise UnderstudyError(f"strength={strength} must be greater than 0, or an unseen answer would be impossible")
    return _smoothed(_counts(votes, y, classes)[0], strength, others)


def _smoothed(counts: Tensor, strength: float, others: Tensor | None) -> Sources:
    """Of ``counts (…, A, C, C + 1)``: of several sets of rows at once, so have prior and confusion."""
    classes = counts.shape[-2]
    rows, spoken, named = counts.sum(-1), counts[..., :classes].sum(-1), counts[..., :classes]
    every, given, right = rows.sum(-1), spoken.sum(-1), named.diagonal(dim1=-2, dim2=-1).sum(-1)
    overall = (right.sum(-1, keepdim=True) + 1) / (given.sum(-1, keepdim=True) + classes)
    accuracy = ((right + strength * overall) / (given + strength))[..., None, None]
    expected = torch.where(torch.eye(classes, dtype=torch.bool), accuracy, (1 - accuracy) / (classes - 1))
    if others is not None:
        expected = (others.double() + strength * expected) / (others.double().sum(-1, keepdim=True) + strength)
    # Half a row each way: a source that is silent on gold may vote on the pool.
    coverage = (given + 0.5) / (every + 1)
    speaks = ((spoken + strength * coverage[..., None]) / (rows + strength))[..., None]
    always = (given == every)[..., None, None]
    speaks, silent = torch.where(always, 1.0, speaks), torch.where(always, 1.0, 1 - speaks)
    answer = (named + strength * expected) / (spoken + strength)[..., None]
    prior = rows[..., 0, :] + 1
    return Sources(prior / prior.sum(-1, keepdim=True), torch.cat([speaks * answer, silent], dim=-1), strength)


def fit_votes(votes: Tensor, y: Tensor, classes: int) -> Sources:
    """``fit_sources`` with the strength and sharpness whose cross-fitted log-loss on these rows is least."""
    fold = deal_folds(y)
    least, strength, sharpness = float("inf"), STRENGTHS[0], 1.0
    for tried in STRENGTHS:
        losses = _losses(cross_likelihood(votes, y, classes, fold, strength=tried, with_prior=True), y)
        best = int(losses.argmin())
        if float(losses[best]) < least:
            least, strength, sharpness = float(losses[best]), tried, float(SHARPNESS[best])
    return replace(fit_sources(votes, y, classes, strength=strength), sharpness=sharpness)


def _losses(joint: Tensor, y: Tensor) -> Tensor:
    """The log-losses of softmax(b · ``joint``) for every b of ``SHARPNESS``: e^(2x/20), e^(3x/20), … are powers."""
    losses = torch.zeros_like(SHARPNESS)
    for part in torch.arange(len(y)).split(max(1, _POWERS // joint.shape[1])):
        below = joint[part] - joint[part].amax(1, keepdim=True)
        root, own = (below / 20).exp(), below.gather(1, y[part, None]).squeeze(1)
        power = root.clone()
        losses += torch.stack([(power.mul_(root).sum(1).log() - b * own).sum() for b in SHARPNESS])
    return losses


def cross_posterior(votes: Tensor, y: Tensor, classes: int) -> Tensor:
    """Posteriors ``(N, C)`` of gold rows, each by a ``fit_votes`` that never saw its fold, not even to choose."""

    def posterior(others: Tensor, mine: Tensor) -> Tensor:
        return fit_votes(votes[others], y[others], classes).posterior_of(votes[mine])

    return out_of_fold(random_folds(len(y)), posterior)


def without_each(votes: Tensor, y: Tensor, classes: int) -> tuple[Tensor, Tensor, Tensor]:
    """All rows judged by all sources (column 0) and by all but source j (column 1 + j), by the fit of each fold.

    The log-loss and the most likely class, ``(K, N, 1 + A)`` each; and which fold each row is in, whose fit never saw
    it. Sharpness and the others stay as they are.
    """
    fold = random_folds(len(y))
    numbers = fold.unique().tolist()
    loss = torch.empty(len(numbers), len(y), 1 + votes.shape[1], dtype=torch.float64)
    predicted = torch.empty(loss.shape, dtype=torch.int64)
    for number in numbers:
        fit = fit_votes(votes[fold != number], y[fold != number], classes)
        every, says = fit.log_likelihood(votes), fit.confusion.log().transpose(1, 2)
        for column in range(loss.shape[2]):
            left_out = says[column - 1][_answers(votes[:, column - 1], classes)] if column else 0.0
            posterior = fit.sharpened(every - left_out)
            loss[number, :, column] = -posterior.gather(1, y.unsqueeze(1)).squeeze(1)
            predicted[number, :, column] = posterior.argmax(1)
    return loss, predicted, fold


def cross_likelihood(
    votes: Tensor, y: Tensor, classes: int, fold: Tensor | None = None, *, strength: float = 10.0,
    with_prior: bool = False, others: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """log P(votes | truth) ``(N, C)`` of gold rows, each by sources counted on the other folds.

    ``fold (N,)``: which fold each row is in; None: five, dealt by class. ``with_prior``: log P(votes, truth).
    ``others``: as in ``fit_sources``.
    """
    fold, every = deal_folds(y) if fold is None else fold, _counts(votes, y, classes)
    likelihood = torch.empty(len(y), classes, dtype=torch.float64)
    # As many folds at once as are looked up together: one of many classes, all of few, where calls would take longest.
    for numbers in fold.unique().split(max(1, _BUDGET // every.numel())):
        mine = torch.isin(fold, numbers)
        places, own = torch.searchsorted(numbers, fold[mine]), votes[mine]
        fits = _smoothed(every - _counts(own, y[mine], classes, places, len(numbers)), strength, others)
        found = _looked_up(fits.confusion, places, own)
        likelihood[mine] = found + fits.prior.log()[places] if with_prior else found
    return likelihood


def _looked_up(confusion: Tensor, fit: Tensor, votes: Tensor) -> Tensor:
    """log P(votes | truth) ``(n, C)``, each row by its own of several fits' ``confusion (K, A, C, C + 1)``."""
    _, sources, classes, answers = confusion.shape
    says = confusion.log().transpose(2, 3).reshape(-1, classes)
    first = (fit.long()[:, None] * sources + torch.arange(sources)) * answers + _answers(votes, classes)
    return torch.cat([says[part].sum(1) for part in first.split(max(1, _BUDGET // (sources * classes)))])


def _answers(votes: Tensor, classes: int) -> Tensor:
    """Votes as answer numbers: abstaining is the last."""
    return torch.where(votes < 0, classes, votes.long())


def _counts(votes: Tensor, y: Tensor, classes: int, part: Tensor | None = None, parts: int = 1) -> Tensor:
    """``(K, A, C, C + 1)``: rows by ``part``, source, truth and answer."""
    sources, answers = votes.shape[1], classes + 1
    first = torch.arange(sources) if part is None else part.unsqueeze(1) * sources + torch.arange(sources)
    cell = (first * classes + y.unsqueeze(1)) * answers + _answers(votes, classes)
    counts = torch.bincount(cell.reshape(-1), minlength=parts * sources * classes * answers)
    return counts.double().view(parts, sources, classes, answers)
