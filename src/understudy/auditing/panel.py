"""Cross-fitted judges of the teacher's labels: logistic regressions on the features, each blind to a part of the rows.

    panel = Panel.fit(rows, index, named, classes=10, seed=0)         # None: these features or labels cannot be learnt
    likeness, suggested = panel.judge_all(rows, index, named)

``likeness`` is log(mean_{b ≠ a} p_b / t_b) − log(p_a / t_a) for the label a. The threshold t_c is the mean probability
of class c among the rows labelled c, as in confident learning (Northcutt et al., 2021): a class that no judge is ever
sure of is not suspect for that alone. Judges learn from at most ``SAMPLE`` rows, and each row of the sample is judged
by the one that has not seen it; all others are streamed past all judges.
"""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from understudy.auditing.features import BUDGET, Features, Matrix
from understudy.auditing.record import Floats, Ints
from understudy.data.rows import Rows

SAMPLE, FOLDS = 10_000, 3
# Inverse penalties. Labels are noisy and features many: on standardised features, at 5% and 30% planted noise, 0.01
# ranks best or nearly so on digits and Fashion-MNIST (ROC-AUC 0.965 to 0.998; scikit-learn's default of 1: 0.88 to
# 0.995). Rows of TF-IDF have length 1, and 1 suits them.
DENSE_STRENGTH, THIN_STRENGTH = 0.01, 1.0


class Judge(Protocol):
    classes_: Ints

    def predict_proba(self, x: Matrix) -> Floats: ...


@dataclass(frozen=True)
class Panel:
    judges: list[Judge]
    features: Features
    sample: Ints
    """Places in ``index``, ascending, and the fold of each."""
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
        fold, strength = _folds(y, rng), THIN_STRENGTH if features.thin else DENSE_STRENGTH
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
        for place, judges in self._parts(len(named)):
            x = self.features.read(rows, index[torch.from_numpy(place)])
            assert x is not None
            likeness[place], suggested[place] = self.judge(x, named[place], judges)
        return likeness, suggested

    def _parts(self, count: int) -> Iterator[tuple[Ints, slice]]:
        """Places to judge together, and by whom."""
        for held_out in range(FOLDS):
            for part in self._chunks(self.sample[self.fold == held_out]):
                yield part, slice(held_out, held_out + 1)
        others = np.ones(count, dtype=bool)
        others[self.sample] = False
        for part in self._chunks(np.flatnonzero(others)):
            yield part, slice(None)

    def _chunks(self, places: Ints) -> Iterator[Ints]:
        # Neither the features nor the probabilities of a part may grow large.
        step = min(self.features.step, max(1, BUDGET // len(self.threshold)))
        return (places[start : start + step] for start in range(0, len(places), step))


def _learn(x: Matrix, y: Ints, strength: float) -> Judge:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    # Hundreds of small products: on a busy machine, threads that wait for each other made this ten times slower.
    with threadpool_limits(limits=1), warnings.catch_warnings():
        # Ranks settle long before the last digits of the weights.
        warnings.simplefilter("ignore", ConvergenceWarning)
        judge: Judge = LogisticRegression(C=strength, tol=1e-3, max_iter=100).fit(x, y)
    return judge


def _folds(labels: Ints, rng: np.random.Generator) -> Ints:
    """Dealt out within classes, so that every judge sees nearly the same mix."""
    shuffled = rng.permutation(len(labels))
    fold = np.empty(len(labels), dtype=np.int64)
    fold[shuffled[np.argsort(labels[shuffled], kind="stable")]] = np.arange(len(labels)) % FOLDS
    return fold


def _probabilities(judge: Judge, x: Matrix, classes: int) -> Floats:
    probs = np.zeros((x.shape[0], classes))
    probs[:, judge.classes_] = judge.predict_proba(x)
    return probs
