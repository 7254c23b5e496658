"""What gold says of sources that can be asked, and what their answers then say of the pool's rows.

Each source is counted on the gold rows it was asked about (``maths/source_confusion.py``), by itself: −1 means that
nobody asked, which says nothing of the row.

    one = measured("big", 0.01, said, y, classes=3)        # .right, .confusion, .left_out
    chances = chances_by(votes, on_gold, y, sources)       # (N, C)
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from understudy.maths.proportions import Share, exact
from understudy.maths.source_confusion import SHARPNESS, cross_likelihood, fit_sources, fit_votes

LEAST_GOLD = 10
"""Gold rows below which a source is as good as unknown."""
# A trusted source errs too, rarely: contradicted by others, it must not make a row impossible.
_FLOOR = 1e-6


@dataclass(frozen=True)
class SourceValue:
    """What gold says of a source."""

    name: str
    price: float | None
    """Of an answer; None: it cannot be asked."""
    right: Share
    """Of the gold rows it answered."""
    confusion: Tensor
    """P(answer | truth), ``(C, C)``."""
    weights: Tensor | None
    """The Dirichlet's ``(C, C)`` behind it; None where it is taken for certain, or nothing is known."""
    left_out: str = ""
    """Why its word does not count; empty where it does."""

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
        """Whether more gold would tell more of it."""
        return self.usable and self.weights is not None


def measured(
    name: str, price: float | None, said: Tensor, y: Tensor, classes: int, *, trusted: bool = False
) -> SourceValue:
    """``said (n,)`` of gold rows, −1: not asked. ``trusted``: its word is what gold is made of."""
    asked = said >= 0
    rows, right = int(asked.sum()), int((said == y).sum())
    share = exact(right, rows)
    if trusted:
        return SourceValue(name, price, share, torch.eye(classes, dtype=torch.float64), None)
    if rows < LEAST_GOLD:
        even = torch.full((classes, classes), 1 / classes, dtype=torch.float64)
        return SourceValue(name, price, share, even, None, f"answered {rows} gold rows, too few to tell how good it is")
    votes, truth = said[asked].unsqueeze(1), y[asked]
    strength = fit_votes(votes, truth, classes).strength
    confusion = fit_sources(votes, truth, classes, strength=strength).confusion[0, :, :classes]
    weights = confusion * (torch.bincount(truth, minlength=classes).unsqueeze(1) + strength)
    if share.estimate > 1 / classes:
        return SourceValue(name, price, share, confusion, weights)
    why = f"right on {right} of {rows} gold rows, no more often than by chance (1 in {classes})"
    swapped = "; are its two classes swapped?" if classes == 2 and share.high < 0.5 else ""
    return SourceValue(name, price, share, confusion, weights, why + swapped)


def chances_by(votes: Tensor, on_gold: Tensor, y: Tensor, sources: Sequence[SourceValue]) -> Tensor:
    """The truth's chances of pool rows by the answers ``votes (N, A)`` alone, ``(N, C)``.

    Sources share mistakes, so that their answers are multiplied with one sharpness 0 < b ≤ 1, by gold.
    """
    classes = sources[0].confusion.shape[0]
    prior = (torch.bincount(y, minlength=classes).double() + 1).log()
    total = torch.zeros(len(votes), classes, dtype=torch.float64)
    for at, one in enumerate(sources):
        if one.usable:
            total += _says(one.confusion, votes[:, at])
    return (_sharpness(on_gold, y, sources) * total + prior).softmax(1)


def _says(confusion: Tensor, said: Tensor) -> Tensor:
    """log P(answer | truth) ``(N, C)``; 0 where there is none."""
    log = confusion.clamp_min(_FLOOR).log()
    return torch.where((said >= 0).unsqueeze(1), log.T[said.clamp_min(0)], 0.0)


def _sharpness(on_gold: Tensor, y: Tensor, sources: Sequence[SourceValue]) -> float:
    """The b of least log-loss on gold rows, cross-fitted; 1 where there are no two sources to compare."""
    estimated = [at for at, one in enumerate(sources) if one.is_estimated]
    if len(estimated) < 2:
        return 1.0
    classes = sources[0].confusion.shape[0]
    total = torch.zeros(len(y), classes, dtype=torch.float64)
    for at in estimated:
        asked = (on_gold[:, at] >= 0).nonzero().squeeze(1)
        total[asked] += cross_likelihood(on_gold[asked, at].unsqueeze(1), y[asked], classes)
    prior = (torch.bincount(y, minlength=classes).double() + 1).log()
    losses = [-(b * total + prior).log_softmax(1).gather(1, y.unsqueeze(1)).sum() for b in SHARPNESS]
    return float(SHARPNESS[int(torch.stack(losses).argmin())])
