"""The pool rows whose labels are most likely wrong, without training a student.

A label is suspect where simple judges of the features prefer another class (``panel.py``), and where gold says that
the teacher is little to be trusted (alpha: by its confidence, or by the class it named):

    suspicion = likeness + log((1 − alpha) / alpha),     log odds(wrong) = slope · suspicion + constant

What the suspicion is worth is measured on gold, whose rows are judged in the same way, each with an alpha from other
gold rows: its ROC-AUC, and the slope (a logistic regression of "wrong" on the suspicion). Weak features give a small
slope, and then no row is called surely wrong. The constant makes the mean chance the pool's estimated noise.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit, logit

from understudy.auditing.panel import Panel
from understudy.auditing.record import Floats, Record
from understudy.data.examples import Gold, Pool
from understudy.data.splits import cross_fitted_alpha
from understudy.errors import UnderstudyError
from understudy.labels.reliability import Reliability
from understudy.maths.proportions import UNKNOWN, Share, area

# The slope where gold shows no mistake to measure it by: as small as weak features have.
UNTESTED = 0.3
# Rows looked at to find the common shift.
_ENOUGH = 200_000


@dataclass(frozen=True)
class Suspect:
    row: int
    """In the pool as given."""
    id: Any
    label: int
    suggestion: int | None
    """The class the features speak for; None where there are none to look at."""
    chance: float
    confidence: float | None


@dataclass(frozen=True)
class Suspects:
    top: list[Suspect]
    chance: Floats
    """For every pool row, that its label is wrong; NaN without a label."""
    roc: Share
    """How well the same ranking tells right from wrong on gold: the area under its ROC curve."""
    by_features: bool


def find_suspects(
    gold: Gold, pool: Pool, record: Record, trust: Reliability, noise: float, *, top: int, seed: int
) -> Suspects:
    assert record.pool is not None
    index = torch.arange(len(pool)) if record.pool_rows is None else record.pool_rows
    named = record.pool.named
    suspicion = _doubt(trust.alpha(record.pool.labels).numpy())
    on_gold = _doubt(_alpha_on_gold(gold, record))
    panel = Panel.fit(pool.rows, index, named, classes=record.classes, seed=seed)
    suggested = None
    if panel is not None:
        likeness, suggested = panel.judge_all(pool.rows, index, named)
        suspicion += likeness
        on_gold += _likeness_on_gold(panel, gold, record)
    testable = bool(np.isfinite(on_gold).all() and record.wrong.any() and not record.wrong.all())
    slope = _slope(on_gold, record.wrong) if testable else UNTESTED
    chance = np.full(len(pool), np.nan)
    chance[index.numpy()] = _with_mean(slope * suspicion, max(noise, 0.5 / len(record.truth)))
    return Suspects(
        top=[
            Suspect(
                row=int(index[pick]),
                id=None if pool.ids is None else pool.ids[[int(index[pick])]].tolist()[0],
                label=int(named[pick]),
                suggestion=None if suggested is None else int(suggested[pick]),
                chance=float(chance[int(index[pick])]),
                confidence=None if record.pool.confidence is None else float(record.pool.confidence[pick]),
            )
            for pick in np.argsort(-suspicion, kind="stable")[:top]
        ],
        chance=chance,
        roc=area(on_gold, record.wrong) if testable else UNKNOWN,
        by_features=panel is not None,
    )


def _alpha_on_gold(gold: Gold, record: Record) -> Floats:
    """Every row's by gold rows of other folds; NaN where the folds are too small to tell."""
    fit = partial(Reliability.fit, lower_bound=0.0, classes=record.classes)
    plain = gold.take(gold.estimate_rows())
    # As the audit reads them: one-hot rows are hard labels in every fold, or in none.
    plain.teacher = record.gold.labels
    try:
        return cross_fitted_alpha(plain, fit).numpy()
    except UnderstudyError:
        return np.full(len(record.truth), np.nan)


def _likeness_on_gold(panel: Panel, gold: Gold, record: Record) -> Floats:
    """NaN where gold's features are of another kind than the pool's."""
    x = panel.features.read(gold.rows, gold.estimate_rows())
    return np.full(len(record.truth), np.nan) if x is None else panel.judge(x, record.gold.named)[0]


def _slope(suspicion: Floats, wrong: NDArray[np.bool_]) -> float:
    """How much of the suspicion gold confirms; never negative, so that the ranking stays."""
    from sklearn.linear_model import LogisticRegression

    fitted = LogisticRegression(C=1.0).fit(suspicion[:, None], wrong)
    return max(float(fitted.coef_[0, 0]), 0.01)


def _doubt(alpha: Floats) -> Floats:
    """log((1 − alpha) / alpha), bounded: the ends of an isotonic curve rest on few rows and are often 0 or 1."""
    return -logit(np.clip(alpha, 0.05, 0.95))


def _with_mean(logits: Floats, mean: float) -> Floats:
    """Chances with these log-odds up to one shift, which gives them the mean wanted."""
    some = logits[:: max(1, len(logits) // _ENOUGH)]
    shift = brentq(lambda shift: float(expit(some + shift).mean()) - mean, -60 - some.max(), 60 - some.min())
    return np.asarray(expit(logits + shift))
