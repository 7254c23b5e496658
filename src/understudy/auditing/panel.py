"""Cross-fitted judges of the teacher's labels: logistic regressions on the features, each blind to a part of the rows.

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
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from understudy.auditing.record import Floats, Ints
from understudy.data.rows import Rows
from understudy.data.splits import stratified_folds
from understudy.errors import UnderstudyError

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


class Judge(Protocol):
    classes_: Ints

    def predict_proba(self, x: Matrix) -> Floats: ...


@dataclass(frozen=True)
class Panel:
    judges: list[Judge]
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


def _probabilities(judge: Judge, x: Matrix, classes: int) -> Floats:
    probs = np.zeros((x.shape[0], classes))
    probs[:, judge.classes_] = judge.predict_proba(x)
    return probs
