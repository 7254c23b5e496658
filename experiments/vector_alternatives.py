"""What a user would do on the features that ``understudy train`` takes: logistic regression, in five ways.

    rows = Features(x_gold, y, x_pool, labels, sources, x_test, y_test)
    alternatives(rows, seed=0)        # {"LR, gold": {"cv": 0.71, "accuracy": 0.70, "seconds": 1.2}, …}

Gold alone; gold and the teacher's labels; the same without what cleanlab calls an issue; self-training from gold; and
stacking: a regression from features and teacher to the truth of gold relabels the pool. C is chosen by cross-validation
on gold, and so is the alternative that a user would take (``cv``: the accuracy of the folds at the best C).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.semi_supervised import SelfTrainingClassifier

from experiments import peers

Array = np.ndarray[Any, Any]
GRID, FOLDS = (0.1, 1.0, 10.0, 100.0), 3
STEPS, SEARCH_STEPS = 300, 100
#: scikit-learn's own, of self-training.
THRESHOLD = 0.75


class Features(NamedTuple):
    x_gold: Array
    y: Array
    x_pool: Array
    #: The teacher's, a class number each; -1 without one.
    labels: Array
    #: The teacher's label, or its votes, of gold and of pool as columns of 0 and 1.
    sources: tuple[Array, Array]
    x_test: Array
    y_test: Array


Fit = Callable[[Features, Array, float, int], Any]


def _lr(c: float, steps: int) -> LogisticRegression:
    return LogisticRegression(C=c, max_iter=steps)


def _on_gold(of: Features, rows: Array, c: float, steps: int) -> Any:
    return _lr(c, steps).fit(of.x_gold[rows], of.y[rows])


def _joined(of: Features, rows: Array, labels: Array) -> tuple[Array, Array]:
    known = labels >= 0
    return np.concatenate([of.x_gold[rows], of.x_pool[known]]), np.concatenate([of.y[rows], labels[known]])


def _on_everything(of: Features, rows: Array, c: float, steps: int) -> Any:
    return _lr(c, steps).fit(*_joined(of, rows, of.labels))


def _filtered(of: Features, rows: Array, c: float, steps: int) -> Any:
    x, y = _joined(of, rows, of.labels)
    folds = KFold(FOLDS, shuffle=True, random_state=0)
    probs = cross_val_predict(_lr(c, SEARCH_STEPS), x, y, cv=folds, method="predict_proba")
    classes = np.unique(y)
    keep = ~peers.ask("cleanlab", labels=np.searchsorted(classes, y), probs=probs).astype(bool)
    keep[: len(rows)] = True
    return _lr(c, steps).fit(x[keep], y[keep])


def _self_trained(of: Features, rows: Array, c: float, steps: int) -> Any:
    x = np.concatenate([of.x_gold[rows], of.x_pool])
    y = np.concatenate([of.y[rows], np.full(len(of.x_pool), -1)])
    return SelfTrainingClassifier(_lr(c, steps), threshold=THRESHOLD).fit(x, y)


def _stacked(of: Features, rows: Array, c: float, steps: int) -> Any:
    gold, pool = (np.hstack(pair) for pair in ((of.x_gold, of.sources[0]), (of.x_pool, of.sources[1])))
    relabelled = _lr(c, steps).fit(gold[rows], of.y[rows]).predict(pool)
    return _lr(c, steps).fit(*_joined(of, rows, relabelled))


def _boosted(of: Features, rows: Array, c: float, steps: int) -> Any:
    return HistGradientBoostingClassifier(max_iter=100).fit(*_joined(of, rows, of.labels))


METHODS: dict[str, Fit] = {
    "LR, gold": _on_gold, "LR, everything": _on_everything, "cleanlab + LR": _filtered, "self-training": _self_trained,
    "stacked + LR": _stacked,
}  # fmt: skip
TABLES: dict[str, Fit] = {"boosting, everything": _boosted}


def alternatives(of: Features, seed: int, *, table: bool = False) -> dict[str, dict[str, float]]:
    found = {}
    for name, fit in (METHODS | (TABLES if table else {})).items():
        if name.startswith("cleanlab") and not peers.available():
            continue
        started = peers.seconds()
        grid = (1.0,) if fit is _boosted else GRID
        scores = dict.fromkeys(grid, 0)
        for train, out in KFold(FOLDS, shuffle=True, random_state=seed).split(of.y):
            for c in grid:
                scores[c] += int((fit(of, train, c, SEARCH_STEPS).predict(of.x_gold[out]) == of.y[out]).sum())
        c = max(grid, key=lambda each: scores[each])
        model = fit(of, np.arange(len(of.y)), c, STEPS)
        accuracy = float((model.predict(of.x_test) == of.y_test).mean())
        found[name] = {"cv": scores[c] / len(of.y), "accuracy": accuracy, "seconds": peers.seconds() - started}
    return found
