"""Several label sources, weighted on rows whose true label is known: a logarithmic opinion pool.

Each source m gives log-scores ℓ_m(y | x), log-probabilities or log-likelihoods. The pool's opinion is

    log q(y | x) = Σ_m b_m ℓ_m(y | x) + Σ_m Σ_k D_m[y, k] ℓ_m(k | x) + a_y − log Z(x)

with one weight b_m ≥ 0 per source and one bias a_y per class, fitted by maximum likelihood with ridges: b around 1/M
(or another ``Prior``), a around 0, each over n. *Scalar* pools have D = 0; *full* ones let every class of every source
count for every class (multinomial regression), with a ridge of its own, and need many rows: M·C² numbers.
``fit_opinion_pool`` takes whichever has the smaller cross-validated log-loss (or the greater score by another
``metric``).

    pool = fit_opinion_pool(scores, y)          # scores (M, n, C), centred or not: only differences within a row count
    pool(other_scores)                          # log q, (n, C)
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from understudy.maths.folds import deal_folds, out_of_fold
from understudy.maths.metric_scores import ACCURACY, LOG_LOSS, row_losses

RIDGE_WEIGHT, RIDGE_BIAS, RIDGE_FULL = 1.0, 3.0, 10.0
# Beyond so many numbers a full regression is not tried: there is never gold for it.
MOST_NUMBERS = 20_000


class Prior(NamedTuple):
    """What weights are where few rows tell nothing."""

    #: ``(M,)``.
    centre: Tensor
    #: The ridge, in rows.
    strength: float


@dataclass(frozen=True, eq=False)
class OpinionPool:
    #: b, ``(M,)``.
    weights: Tensor
    #: a, ``(C,)``.
    bias: Tensor
    #: D, ``(M, C, C)``; None in a scalar pool.
    mixing: Tensor | None = None
    #: log q ``(n, C)`` of the rows it was fitted on, each by a pool fitted without it (``held_out``).
    unseen: Tensor | None = None
    #: Of ``unseen``.
    log_loss: float = float("nan")

    def __call__(self, scores: Tensor) -> Tensor:
        """log q, ``(n, C)`` float64, of scores ``(M, n, C)``."""
        total = self.bias + torch.einsum("m,mnc->nc", self.weights, scores.double())
        if self.mixing is not None:
            total = total + torch.einsum("mck,mnk->nc", self.mixing, scores.double())
        return total.log_softmax(1)


def fit_opinion_pool(
    scores: Tensor, y: Tensor, *, full: bool | None = None, fold: Tensor | None = None, metric: str = ACCURACY,
    prior: Prior | None = None,
) -> OpinionPool:  # fmt: skip
    """``full``: whether classes count for other classes; None: by the losses cross-validated in ``fold (n,)``."""
    scores = centred(scores)
    sources, _, classes = scores.shape
    if full is None and sources * classes**2 > MOST_NUMBERS:
        full = False
    forms = (False, True) if full is None else (full,)
    unseen = {form: held_out(scores, y, full=form, fold=fold, prior=prior) for form in forms}
    best = min(forms, key=lambda form: float(row_losses(metric, unseen[form], y).mean()))
    weights, bias, mixing = _fit(scores, y, full=best, prior=prior)
    return OpinionPool(weights, bias, mixing, unseen[best], float(row_losses(LOG_LOSS, unseen[best], y).mean()))


def fit_scalar_pool(scores: Tensor, y: Tensor) -> OpinionPool:
    """Weights and biases alone, without the log-loss of rows left out."""
    return OpinionPool(*_fit(centred(scores), y, full=False))


def held_out(
    scores: Tensor, y: Tensor, *, full: bool = False, fold: Tensor | None = None, prior: Prior | None = None
) -> Tensor:
    """log q ``(n, C)`` of each row by a pool fitted on the other folds (None: five, dealt by class)."""
    scores = centred(scores)

    def opinion(others: Tensor, mine: Tensor) -> Tensor:
        return OpinionPool(*_fit(scores[:, others], y[others], full=full, prior=prior))(scores[:, mine])

    return out_of_fold(deal_folds(y) if fold is None else fold, opinion)


def centred(scores: Tensor) -> Tensor:
    """With mean 0 over the classes of each row: what a ridge sees then does not depend on how scores were scaled."""
    return scores.double() - scores.double().mean(2, keepdim=True)


def _fit(scores: Tensor, y: Tensor, *, full: bool, prior: Prior | None = None) -> tuple[Tensor, Tensor, Tensor | None]:
    """By NumPy: of a few hundred rows PyTorch's operators would take longer than their work."""
    sources, rows, classes = scores.shape
    prior = prior or Prior(torch.full((sources,), 1 / sources, dtype=torch.float64), RIDGE_WEIGHT)
    centre, own = prior.centre.numpy(), sources + classes
    #: (rows · classes, sources), and for classes that count for others (rows, sources · classes).
    by_source = np.ascontiguousarray(scores.permute(1, 2, 0).reshape(-1, sources).numpy())
    by_class = np.ascontiguousarray(scores.transpose(0, 1).reshape(rows, -1).numpy())
    truth = np.eye(classes)[y.numpy()]

    def objective(values: np.ndarray) -> tuple[float, np.ndarray]:
        bias, mixing = values[sources:own], values[own:].reshape(-1, classes)
        total = (by_source @ values[:sources]).reshape(rows, classes) + bias
        if full:
            total += by_class @ mixing
        total -= total.max(1, keepdims=True)
        log_q = total - np.log(np.exp(total).sum(1, keepdims=True))
        pull = values[:sources] - centre
        error = (np.exp(log_q) - truth) / rows
        penalty = prior.strength * pull @ pull + RIDGE_BIAS * bias @ bias + RIDGE_FULL * (mixing**2).sum()
        slopes = [error.reshape(-1) @ by_source + 2 * prior.strength * pull / rows]
        slopes.append(error.sum(0) + 2 * RIDGE_BIAS * bias / rows)
        if full:
            slopes.append((by_class.T @ error + 2 * RIDGE_FULL * mixing / rows).reshape(-1))
        return float(penalty - (truth * log_q).sum()) / rows, np.concatenate(slopes)

    start = np.concatenate([centre, np.zeros(classes + (sources * classes**2 if full else 0))])
    # Weights are not negative: with little gold a negative one is noise.
    bounds = [(0, None)] * sources + [(None, None)] * (len(start) - sources)
    from scipy.optimize import minimize  # predictions need none of it

    found = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 500}).x
    weights, bias, mixing = (torch.from_numpy(part) for part in np.split(found, [sources, own]))
    # A row of D for each class that others' scores count for.
    return weights, bias, mixing.view(sources, classes, classes).transpose(1, 2) if full else None
