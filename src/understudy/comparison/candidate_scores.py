"""How the candidates of ``us.auto`` are compared, by their out-of-fold predictions of gold.

Candidates are compared with a reference row by row, by scores of rows (``maths/metric_scores.py``); the one with the
highest

    gain − caution · standard error

is chosen where that is above 0, else the reference: the student on reconciled labels, or vanilla. A candidate whose
gain is small or uncertain is not chosen, so the worst that chance can do is small. Against reconciled labels the
caution is larger: in the pilot they come from base models that were trained on most of the rows, and are slightly worse
than the final ones.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from understudy.maths.metric_scores import ACCURACY, mean_and_error, row_scores

#: How many standard errors a candidate must be ahead of the reference.
CAUTION = 1.0


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


def score_candidates(
    predictions: Mapping[str, Tensor], y: Tensor, reference: str = "vanilla", *, metric: str = ACCURACY
) -> dict[str, Candidate]:
    """``predictions``: ``(n, C)`` each, NaN on rows without a prediction."""
    base = row_scores(metric, predictions[reference], y)
    base_right = _right(predictions[reference], y)
    scored = {}
    for name, probs in predictions.items():
        gains = row_scores(metric, probs, y) - base
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


def _right(probs: Tensor, y: Tensor) -> Tensor:
    return (probs.argmax(1) == y).double()
