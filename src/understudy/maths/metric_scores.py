"""What choices maximise: a metric by its name, as one value per row whose mean it is.

    row_values("macro_f1", probs, y).mean()        # the metric; greater is better, so log-loss is negative
    row_scores("macro_f1", probs, y)               # a smoother one, to compare predictions on few rows

A mean over rows has a standard error, and so has the difference of two on the same rows. A metric θ that is no mean is
therefore written as one, of θ plus the row's influence on it (which is 0 in the mean; the delta method's error, and of
AUC that of DeLong et al., 1988). With n rows, n_c of class c, and t, p: whether a row is, and is predicted as, class c:

    recall of its class     θ + n / n_c · (p − θ)                      balanced accuracy: the mean over classes
    F1 of a class           θ + n · (2tp − θ · (t + p)) / Σ (t + p)    macro-F1
    AUC of a class          θ + n / n_c · (V − θ), V: the share of the other rows that score less; for those likewise

On 200 rows a 2-point difference in accuracy is invisible: its standard error is as large. *Scores* are therefore three
parts of the same with the *probability* of a class in place of p, calibrated by one temperature fitted on the same
rows: it moves with the metric, and every row contributes, not only those whose class changes. One part is the metric
itself, because a method may rank well and still be underconfident.
"""

import math

import numpy as np
import torch
from torch import Tensor, nn

from understudy.maths.proportions import placements
from understudy.maths.temperature import cross_tempered, fit_temperature

#: And balanced_accuracy, macro_f1.
ACCURACY, LOG_LOSS, AUC = "accuracy", "log_loss", "auc"
#: The share of probabilities in a score; the rest is the metric itself.
SOFT = 0.75


def row_values(metric: str, probs: Tensor, y: Tensor) -> Tensor:
    """``(n,)`` float64 of predictions ``(n, C)``; log-loss at temperatures that were fitted to other rows."""
    if metric == LOG_LOSS:
        return of_class(cross_tempered(as_logits(probs), y), y).log()
    if metric == AUC:
        return _areas(probs.double(), y)
    return _counted(metric, _best(probs), y)


def row_scores(metric: str, probs: Tensor, y: Tensor) -> Tensor:
    """How well each row was predicted, ``(n,)``; NaN without a prediction."""
    predicted = ~probs.isnan().any(1)
    scores = torch.full((len(y),), math.nan, dtype=torch.float64)
    if not bool(predicted.any()):
        return scores
    logits, labels = as_logits(probs[predicted]), y[predicted]
    soft = (logits / fit_temperature(logits, labels, prior=math.inf)).softmax(1)
    if metric == LOG_LOSS:
        scores[predicted] = of_class(soft, labels).log()
    elif metric == AUC:
        scores[predicted] = _areas(soft, labels)
    else:
        hard = _counted(metric, _best(probs[predicted]), labels)
        scores[predicted] = SOFT * _counted(metric, soft, labels) + (1 - SOFT) * hard
    return scores


def row_losses(metric: str, log_probs: Tensor, y: Tensor) -> Tensor:
    """What a choice among fitted forms minimises, ``(n,)``: log-loss for accuracy too, which few rows hardly tell."""
    if metric in (ACCURACY, LOG_LOSS):
        return -of_class(log_probs, y)
    return 1 - row_scores(metric, log_probs.exp(), y)


def mean_and_error(values: Tensor) -> tuple[float, float]:
    """Mean and standard error; the latter infinite below two values."""
    if len(values) < 2:
        return (float(values.mean()) if len(values) else 0.0), math.inf
    return float(values.mean()), float(values.std() / len(values) ** 0.5)


def as_logits(probs: Tensor) -> Tensor:
    return probs.double().clamp(min=torch.finfo(torch.float32).tiny).log()


def _best(probs: Tensor) -> Tensor:
    return nn.functional.one_hot(probs.argmax(1), probs.shape[1]).double()


def of_class(probs: Tensor, y: Tensor) -> Tensor:
    """Of each row ``(n, C)``, the entry of its class, ``(n,)``."""
    return probs.gather(1, y.unsqueeze(1)).squeeze(1)


def _counted(metric: str, predicted: Tensor, y: Tensor) -> Tensor:
    """Of predictions ``(n, C)`` that are 0 or 1, or anything between."""
    hits = of_class(predicted, y)
    if metric == ACCURACY:
        return hits
    truth = nn.functional.one_hot(y, predicted.shape[1]).double()
    rows = truth.sum(0)
    if metric == "balanced_accuracy":
        recall = (truth * predicted).sum(0) / rows.clamp(min=1)
        return recall[rows > 0].mean() + len(y) / int((rows > 0).sum()) * (hits - recall[y]) / rows[y]
    used = (rows > 0) | (_best(predicted).sum(0) > 0)
    both, hits = (truth + predicted)[:, used], (truth * predicted)[:, used]
    f1 = 2 * hits.sum(0) / both.sum(0)
    return f1.mean() + (len(y) * (2 * hits - f1 * both) / both.sum(0)).mean(1)


def _areas(probs: Tensor, y: Tensor) -> Tensor:
    """AUC, over the classes that some rows have and others have not; 0.5 without such."""
    found = []
    for label in [1] if probs.shape[1] == 2 else range(probs.shape[1]):
        positive, scores = (y == label).numpy(), probs[:, label].numpy()
        count = np.where(positive, positive.sum(), (~positive).sum())
        if count.max() == len(y):
            continue
        share = placements(scores, positive)
        area = share[positive].mean()
        found.append(area + len(y) / count * (share - area))
    return torch.from_numpy(np.mean(found, axis=0)) if found else torch.full((len(y),), 0.5, dtype=torch.float64)
