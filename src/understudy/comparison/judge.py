"""How a pilot's predictions of gold rows decide: paired by row, less noisily than accuracy, with caution.

On 200 rows a 2-point difference in accuracy is invisible: its standard error is as large. The judge therefore looks at
the *probability of the truth*, after one temperature per candidate, fitted on the same rows, has made the probabilities
honest. It moves with the accuracy, and every row tells something, not only those whose class changes. A row's score is
three parts of that and one part whether it was classified rightly, because a method may rank well and still be soft.
Candidates are held against a reference row by row; the one with the highest

    gain − caution · standard error

is taken where that is above 0, else the reference: the student on reconciled labels, or vanilla. A candidate whose gain
is small or uncertain loses to it, so the worst that luck can do is small. Reconciled labels ask for more caution: in
the pilot they are made by members that learned from most of the rows, and so a little worse than the real ones.

    judged = judge({"vanilla": probs, "slam": probs2}, y)
    choose(judged)
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from scipy.optimize import minimize_scalar
from torch import Tensor

CAUTION, SURE = 1.0, 2.0
"""How many standard errors a candidate must be ahead of vanilla, and of reconciled labels."""
SOFT = 0.75
"""The part of the truth's probability in a row's score; the rest is accuracy."""
BEHIND = 1.5
"""A candidate leaves the race this many standard errors behind the best."""


@dataclass(frozen=True)
class Candidate:
    """A candidate beside vanilla, on the gold rows both have predicted."""

    method: str
    rows: int
    accuracy: float
    accuracy_gain: float
    gain: float
    """Mean difference to vanilla of the rows' scores."""
    error: float
    """Its standard error."""

    def cautious(self, caution: float = CAUTION) -> float:
        return self.gain - caution * self.error


def judge(predictions: Mapping[str, Tensor], y: Tensor, reference: str = "vanilla") -> dict[str, Candidate]:
    """``predictions``: ``(n, C)`` each, NaN on rows a candidate was not asked about."""
    base = score(predictions[reference], y)
    base_right = _right(predictions[reference], y)
    judged = {}
    for name, probs in predictions.items():
        gains = score(probs, y) - base
        both = ~gains.isnan()
        right = _right(probs, y)[both]
        gain, error = mean_and_error(gains[both])
        judged[name] = Candidate(
            method=name, rows=int(both.sum()), accuracy=float(right.mean()),
            accuracy_gain=float((right - base_right[both]).mean()), gain=gain, error=error,
        )  # fmt: skip
    return judged


def choose(judged: Mapping[str, Candidate], reference: str = "vanilla", *, caution: float = CAUTION) -> str:
    """Who left the race is behind somebody, whatever the few rows it was asked about say of it and the reference."""
    finished = {name: one for name, one in judged.items() if one.rows == judged[reference].rows}
    best = max(finished, key=lambda name: finished[name].cautious(caution))
    return best if finished[best].cautious(caution) > 0 else reference


def still_racing(predictions: Mapping[str, Tensor], y: Tensor, reference: str = "vanilla") -> list[str]:
    """Who is not clearly behind the leader, on the rows asked so far; the reference always stays."""
    scores = {name: score(probs, y) for name, probs in predictions.items()}
    leader = max(scores, key=lambda name: float(scores[name].nanmean()))
    racing = []
    for name, mine in scores.items():
        behind = (scores[leader] - mine)[~(scores[leader] - mine).isnan()]
        gap, error = mean_and_error(behind)
        if name in (reference, leader) or gap <= BEHIND * error:
            racing.append(name)
    return racing


def score(probs: Tensor, y: Tensor) -> Tensor:
    """How well each row was predicted, ``(n,)``; NaN where not asked."""
    return SOFT * truth_probability(probs, y) + (1 - SOFT) * _right(probs, y)


def truth_probability(probs: Tensor, y: Tensor) -> Tensor:
    """The probability of the true class ``(n,)`` at the temperature that suits these rows best; NaN where not asked."""
    asked = ~probs.isnan().any(1)
    truth = torch.full((len(y),), math.nan, dtype=torch.float64)
    if not bool(asked.any()):
        return truth
    logits = probs[asked].double().clamp(min=torch.finfo(torch.float32).tiny).log()
    labels = y[asked]

    def loss(log_temperature: float) -> float:
        return float(torch.nn.functional.cross_entropy(logits / math.exp(log_temperature), labels))

    best = minimize_scalar(loss, bounds=(-3.0, 3.0), method="bounded").x
    truth[asked] = (logits / math.exp(best)).softmax(1).gather(1, labels.unsqueeze(1)).squeeze(1)
    return truth


def mean_and_error(values: Tensor) -> tuple[float, float]:
    """Of few rows the error is not known to be small: infinite below two."""
    if len(values) < 2:
        return (float(values.mean()) if len(values) else 0.0), math.inf
    return float(values.mean()), float(values.std() / len(values) ** 0.5)


def _right(probs: Tensor, y: Tensor) -> Tensor:
    return (probs.argmax(1) == y).double()
