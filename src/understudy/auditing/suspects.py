"""The pool rows whose labels are most likely wrong, without training a student.

A label is suspect where simple judges of the features prefer another class (the ``Panel``), and where gold says that
the teacher is little to be trusted (alpha: by its confidence, or by the class it named):

    suspicion = likeness + log((1 − alpha) / alpha),     log odds(wrong) = slope · suspicion + constant

What the suspicion is worth is measured on gold, whose rows are judged in the same way, each with an alpha from other
gold rows: its ROC-AUC, and the slope (a logistic regression of "wrong" on the suspicion). Weak features give a small
slope, and then no row is called surely wrong. The constant makes the mean chance the pool's estimated noise.

The judges are cross-fitted: logistic regressions on the features, each blind to a part of the rows.

    panel = Panel.fit(rows, index, named, classes=10, seed=0)         # None: these features or labels cannot be learnt
    likeness, suggested = panel.judge_all(rows, index, named)

``likeness`` is log(mean_{b ≠ a} p_b / t_b) − log(p_a / t_a) for the label a. The threshold t_c is the mean probability
of class c among the rows labelled c, as in confident learning (Northcutt et al., 2021): a class that no judge is ever
sure of is not suspect for that alone. Judges learn from at most ``SAMPLE`` rows, and each row of the sample is judged
by the one that has not seen it; all others are streamed past all judges.

Features of any kind are read as a matrix, some rows at a time. Dense ones are standardised. Wide ones that are nearly
all zero (TF-IDF) stay sparse and are taken as they are: 10,000 sentences of 20,000 terms are 800 MB dense, 2 MB sparse.
"""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import brentq
from scipy.special import expit, logit
from torch import Tensor

from understudy.auditing.record import Floats, Ints, Record
from understudy.data.examples import Gold, Pool
from understudy.data.rows import Rows
from understudy.data.splits import cross_fitted_alpha, stratified_folds
from understudy.errors import UnderstudyError
from understudy.labels.reliability import Reliability
from understudy.maths.proportions import UNKNOWN, Share, area

Matrix = NDArray[np.float32] | sparse.csr_matrix[Any]
# Numbers read densely at once: 64 MB.
BUDGET = 1 << 24
WIDE, THIN = 1024, 0.1
SAMPLE, FOLDS = 10_000, 3
# Inverse penalties. Labels are noisy and features many: on standardised features, at 5% and 30% planted noise, 0.01
# ranks best or nearly so on digits and Fashion-MNIST (ROC-AUC 0.965 to 0.998; scikit-learn's default of 1: 0.88 to
# 0.995). Rows of TF-IDF have length 1, and 1 suits them.
DENSE_STRENGTH, THIN_STRENGTH = 0.01, 1.0


@dataclass(frozen=True)
class Features:
    """How to read one kind of rows; fitted on some of them."""

    width: int
    thin: bool
    centre: NDArray[np.float32]
    scale: NDArray[np.float32]

    @classmethod
    def fit(cls, rows: Rows, index: Tensor) -> "Features | None":
        """None where the rows are not numbers to calculate with (token ids, mappings)."""
        first = _dense(rows, index[:64])
        if first is None or not first.size:
            return None
        width = first.shape[1]
        if width >= WIDE and np.count_nonzero(first) < THIN * first.size:
            return cls(width, True, np.zeros(1, np.float32), np.ones(1, np.float32))
        some = _dense(rows, index[: max(64, BUDGET // width)])
        assert some is not None
        scale = some.std(0)
        # A feature that hardly ever varies would otherwise drown all others in the rows where it does.
        return cls(width, False, some.mean(0), np.maximum(scale, max(1e-3 * float(scale.mean()), 1e-12)))

    @property
    def step(self) -> int:
        """Rows to read at once."""
        return max(1, BUDGET // self.width)

    def read(self, rows: Rows, index: Tensor) -> Matrix | None:
        """None where these rows are of another kind."""
        parts: list[Any] = []
        for part in index.split(self.step):
            x = _dense(rows, part)
            if x is None or x.shape[1] != self.width:
                return None
            parts.append(sparse.csr_matrix(x) if self.thin else (x - self.centre) / self.scale)
        return sparse.csr_matrix(sparse.vstack(parts)) if self.thin else np.concatenate(parts)


def _dense(rows: Rows, index: Tensor) -> NDArray[np.float32] | None:
    batch = rows.take(index)
    if not isinstance(batch, Tensor) or not (batch.is_floating_point() or batch.dtype == torch.uint8):
        return None
    x: NDArray[np.float32] = batch.reshape(len(batch), -1).float().numpy()
    if not np.isfinite(x).all():
        row = int(index[int(np.flatnonzero(~np.isfinite(x).all(1))[0])])
        raise UnderstudyError(f"row {row} of the features holds NaN or infinity; fill it in, or ask for rows_wrong=0")
    return x


@dataclass(frozen=True)
class Panel:
    judges: list[Any]
    """Fitted logistic regressions."""
    features: Features
    sample: Ints
    """Positions in ``index``, ascending, and the fold of each."""
    fold: Ints
    threshold: Floats

    @classmethod
    def fit(cls, rows: Rows, index: Tensor, named: Ints, *, classes: int, seed: int) -> "Panel | None":
        features = Features.fit(rows, index)
        if features is None:
            return None
        rng = np.random.default_rng(seed)
        most = SAMPLE if features.thin else min(SAMPLE, 4 * BUDGET // features.width)
        sample = np.sort(rng.choice(len(named), min(most, len(named)), replace=False))
        y = named[sample]
        # Every judge must see two classes, whatever fold it misses.
        if (np.bincount(y) >= FOLDS).sum() < 2:
            return None
        x = features.read(rows, index[torch.from_numpy(sample)])
        assert x is not None
        fold, strength = stratified_folds(y, FOLDS, rng), THIN_STRENGTH if features.thin else DENSE_STRENGTH
        judges = [_learn(x[fold != held_out], y[fold != held_out], strength) for held_out in range(FOLDS)]
        own = np.empty(len(y))
        for held_out, judge in enumerate(judges):
            mine = fold == held_out
            own[mine] = _probabilities(judge, x[mine], classes)[np.arange(mine.sum()), y[mine]]
        count = np.bincount(y, minlength=classes)
        mean = np.bincount(y, own, minlength=classes) / np.maximum(count, 1)
        return cls(judges, features, sample, fold, np.maximum(np.where(count > 0, mean, own.mean()), 1e-6))

    def judge(self, x: Matrix, named: Ints, judges: slice = slice(None)) -> tuple[Floats, Ints]:
        """Likeness, and the most likely class but the label."""
        classes = len(self.threshold)
        probs = np.mean([_probabilities(judge, x, classes) for judge in self.judges[judges]], axis=0)
        likely = np.maximum(probs, 1e-9) / self.threshold
        each = np.arange(len(named))
        mine = likely[each, named].copy()
        likely[each, named] = 0
        return np.log(likely.sum(1) / (classes - 1)) - np.log(mine), likely.argmax(1)

    def judge_all(self, rows: Rows, index: Tensor, named: Ints) -> tuple[Floats, Ints]:
        likeness, suggested = np.empty(len(named)), np.empty(len(named), dtype=np.int64)
        for part, judges in self._parts(len(named)):
            x = self.features.read(rows, index[torch.from_numpy(part)])
            assert x is not None
            likeness[part], suggested[part] = self.judge(x, named[part], judges)
        return likeness, suggested

    def _parts(self, count: int) -> Iterator[tuple[Ints, slice]]:
        """Positions in ``index`` to judge together, and by whom."""
        for held_out in range(FOLDS):
            for part in self._chunks(self.sample[self.fold == held_out]):
                yield part, slice(held_out, held_out + 1)
        others = np.ones(count, dtype=bool)
        others[self.sample] = False
        for part in self._chunks(np.flatnonzero(others)):
            yield part, slice(None)

    def _chunks(self, positions: Ints) -> Iterator[Ints]:
        # Neither the features nor the probabilities of a part may grow large.
        step = min(self.features.step, max(1, BUDGET // len(self.threshold)))
        return (positions[start : start + step] for start in range(0, len(positions), step))


def _learn(x: Matrix, y: Ints, strength: float) -> Any:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    # Hundreds of small products: on a busy machine, threads that wait for each other made this ten times slower.
    with threadpool_limits(limits=1), warnings.catch_warnings():
        # Ranks settle long before the last digits of the weights.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return LogisticRegression(C=strength, tol=1e-3, max_iter=100).fit(x, y)


def _probabilities(judge: Any, x: Matrix, classes: int) -> Floats:
    probs = np.zeros((x.shape[0], classes))
    probs[:, judge.classes_] = judge.predict_proba(x)
    return probs


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
    plain = gold.take(gold.calibration_rows())
    # As the audit reads them: one-hot rows are hard labels in every fold, or in none.
    plain.teacher = record.gold.labels
    try:
        return cross_fitted_alpha(plain, fit).numpy()
    except UnderstudyError:
        return np.full(len(record.truth), np.nan)


def _likeness_on_gold(panel: Panel, gold: Gold, record: Record) -> Floats:
    """NaN where gold's features are of another kind than the pool's."""
    x = panel.features.read(gold.rows, gold.calibration_rows())
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
