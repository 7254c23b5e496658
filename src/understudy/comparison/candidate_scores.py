"""How the candidates of ``us.auto`` are compared, by their out-of-fold predictions of gold.

On 200 rows a 2-point difference in accuracy is invisible: its standard error is as large. Candidates are therefore
compared by the *probability of the true class*, calibrated by one temperature per candidate, fitted on the same rows.
It moves with the accuracy, and every row contributes, not only those whose class changes. A row's score is three parts
of that and one part whether it was classified correctly, because a method may rank well and still be underconfident.
Candidates are compared with a reference row by row; the one with the highest

    gain − caution · standard error

is chosen where that is above 0, else the reference: the student on reconciled labels, or vanilla. A candidate whose
gain is small or uncertain is not chosen, so the worst that chance can do is small. Against reconciled labels the
caution is larger: in the pilot they come from base models that were trained on most of the rows, and are slightly worse
than the final ones.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from understudy.maths.temperature import fit_temperature

#: How many standard errors a candidate must be ahead of the reference.
CAUTION = 1.0
#: The share of the true class's probability in a row's score; the rest is accuracy.
SOFT = 0.75
#: A candidate is dropped this many standard errors behind the best.
BEHIND = 1.5


@dataclass(frozen=True)
class Candidate:
    """A candidate compared with the reference, on the gold rows both have predicted."""

    method: str
    rows: int
    accuracy: float
    accuracy_gain: float
    #: Mean difference of the rows' scores to the reference.
    gain: float
    #: Its standard error.
    error: float

    def lower_bound(self, caution: float = CAUTION) -> float:
        return self.gain - caution * self.error


def score_candidates(predictions: Mapping[str, Tensor], y: Tensor, reference: str = "vanilla") -> dict[str, Candidate]:
    """``predictions``: ``(n, C)`` each, NaN on rows without a prediction."""
    base = row_scores(predictions[reference], y)
    base_right = _right(predictions[reference], y)
    scored = {}
    for name, probs in predictions.items():
        gains = row_scores(probs, y) - base
        both = ~gains.isnan()
        right = _right(probs, y)[both]
        gain, error = mean_and_error(gains[both])
        scored[name] = Candidate(
            method=name, rows=int(both.sum()), accuracy=float(right.mean()),
            accuracy_gain=float((right - base_right[both]).mean()), gain=gain, error=error,
        )  # fmt: skip
    return scored


def choose(scored: Mapping[str, Candidate], reference: str = "vanilla", *, caution: float = CAUTION) -> str:
    """The candidate with the highest lower bound above 0, of those that were not dropped; else the reference."""
    finished = {name: one for name, one in scored.items() if one.rows == scored[reference].rows}
    best = max(finished, key=lambda name: finished[name].lower_bound(caution))
    return best if finished[best].lower_bound(caution) > 0 else reference


def still_competitive(predictions: Mapping[str, Tensor], y: Tensor, reference: str = "vanilla") -> list[str]:
    """The candidates that are not clearly behind the best, on the rows predicted so far; the reference always stays."""
    scores = {name: row_scores(probs, y) for name, probs in predictions.items()}
    leader = max(scores, key=lambda name: float(scores[name].nanmean()))
    competitive = []
    for name, mine in scores.items():
        behind = (scores[leader] - mine)[~(scores[leader] - mine).isnan()]
        gap, error = mean_and_error(behind)
        if name in (reference, leader) or gap <= BEHIND * error:
            competitive.append(name)
    return competitive


def row_scores(probs: Tensor, y: Tensor) -> Tensor:
    """How well each row was predicted, ``(n,)``; NaN without a prediction."""
    return SOFT * truth_probability(probs, y) + (1 - SOFT) * _right(probs, y)


def truth_probability(probs: Tensor, y: Tensor) -> Tensor:
    """The probability of the true class ``(n,)`` at the best temperature for these rows; NaN without a prediction."""
    predicted = ~probs.isnan().any(1)
    truth = torch.full((len(y),), math.nan, dtype=torch.float64)
    if not bool(predicted.any()):
        return truth
    logits, labels = as_logits(probs[predicted]), y[predicted]
    temperature = fit_temperature(logits, labels, prior=math.inf)
    truth[predicted] = (logits / temperature).softmax(1).gather(1, labels.unsqueeze(1)).squeeze(1)
    return truth


def as_logits(probs: Tensor) -> Tensor:
    return probs.double().clamp(min=torch.finfo(torch.float32).tiny).log()


def mean_and_error(values: Tensor) -> tuple[float, float]:
    """Mean and standard error; the latter infinite below two values."""
    if len(values) < 2:
        return (float(values.mean()) if len(values) else 0.0), math.inf
    return float(values.mean()), float(values.std() / len(values) ** 0.5)


def _right(probs: Tensor, y: Tensor) -> Tensor:
    return (probs.argmax(1) == y).double()
