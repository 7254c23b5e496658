"""The confusion matrix of each label source, measured on gold, and the class probabilities its answers give.

Each source is measured by itself on the gold rows it labelled (``maths/source_confusion.py``); −1 means no answer.

    one = measure_source("big", 0.01, answers, y, classes=3)      # .accuracy, .confusion, .left_out
    probs = probs_by(votes, on_gold, y, sources)                  # (N, C)
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from understudy.maths.proportions import Share, exact
from understudy.maths.source_confusion import SHARPNESS, cross_likelihood, fit_sources, fit_votes

#: Fewest gold rows that measure a source.
LEAST_GOLD = 10
# A trusted source errs too: no probability may become 0.
_FLOOR = 1e-6


@dataclass(frozen=True)
class SourceValue:
    """A source as measured on gold."""

    name: str
    #: Of an answer; None: it gives no new ones.
    price: float | None
    #: On the gold rows it labelled.
    accuracy: Share
    #: P(answer | truth), ``(C, C)``.
    confusion: Tensor
    #: The Dirichlet's ``(C, C)`` behind it; None where it is trusted, or unknown.
    weights: Tensor | None
    #: Why its answers do not count; empty where they do.
    left_out: str = ""

    @property
    def usable(self) -> bool:
        return not self.left_out

    @property
    def askable(self) -> bool:
        return self.usable and self.price is not None

    @property
    def cost(self) -> float:
        return self.price or 0.0

    @property
    def is_estimated(self) -> bool:
        """Whether more gold would measure it better."""
        return self.usable and self.weights is not None


def measure_source(
    name: str, price: float | None, answers: Tensor, y: Tensor, classes: int, *, trusted: bool = False
) -> SourceValue:
    """``answers (n,)`` to gold rows, −1: none. ``trusted``: treated as ground truth."""
    answered = answers >= 0
    rows, correct = int(answered.sum()), int((answers == y).sum())
    share = exact(correct, rows)
    if trusted:
        return SourceValue(name, price, share, torch.eye(classes, dtype=torch.float64), None)
    if rows < LEAST_GOLD:
        even = torch.full((classes, classes), 1 / classes, dtype=torch.float64)
        return SourceValue(name, price, share, even, None, f"labelled {rows} gold rows, too few to measure it")
    votes, truth = answers[answered].unsqueeze(1), y[answered]
    strength = fit_votes(votes, truth, classes).strength
    confusion = fit_sources(votes, truth, classes, strength=strength).confusion[0, :, :classes]
    weights = confusion * (torch.bincount(truth, minlength=classes).unsqueeze(1) + strength)
    if share.estimate > 1 / classes:
        return SourceValue(name, price, share, confusion, weights)
    why = f"correct on {correct} of {rows} gold rows, no more than by chance (1 in {classes})"
    swapped = "; are its two classes swapped?" if classes == 2 and share.high < 0.5 else ""
    return SourceValue(name, price, share, confusion, weights, why + swapped)


def probs_by(votes: Tensor, on_gold: Tensor, y: Tensor, sources: Sequence[SourceValue]) -> Tensor:
    """Class probabilities ``(N, C)`` of pool rows from the answers ``votes (N, A)``.

    Sources share mistakes, so their log-likelihoods are multiplied by one sharpness 0 < b ≤ 1, fitted on gold.
    """
    classes = sources[0].confusion.shape[0]
    prior = (torch.bincount(y, minlength=classes).double() + 1).log()
    total = torch.zeros(len(votes), classes, dtype=torch.float64)
    for at, one in enumerate(sources):
        if one.usable:
            total += _log_likelihood(one.confusion, votes[:, at])
    return (_sharpness(on_gold, y, sources) * total + prior).softmax(1)


def _log_likelihood(confusion: Tensor, answers: Tensor) -> Tensor:
    """log P(answer | truth) ``(N, C)``; 0 where there is none."""
    log = confusion.clamp_min(_FLOOR).log()
    return torch.where((answers >= 0).unsqueeze(1), log.T[answers.clamp_min(0)], 0.0)


def _sharpness(on_gold: Tensor, y: Tensor, sources: Sequence[SourceValue]) -> float:
    """The b of least log-loss on gold rows, cross-fitted; 1 where there are no two sources to compare."""
    estimated = [at for at, one in enumerate(sources) if one.is_estimated]
    if len(estimated) < 2:
        return 1.0
    classes = sources[0].confusion.shape[0]
    total = torch.zeros(len(y), classes, dtype=torch.float64)
    for at in estimated:
        rows = (on_gold[:, at] >= 0).nonzero().squeeze(1)
        total[rows] += cross_likelihood(on_gold[rows, at].unsqueeze(1), y[rows], classes)
    prior = (torch.bincount(y, minlength=classes).double() + 1).log()
    losses = [-(b * total + prior).log_softmax(1).gather(1, y.unsqueeze(1)).sum() for b in SHARPNESS]
    return float(SHARPNESS[int(torch.stack(losses).argmin())])
