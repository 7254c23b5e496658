"""The pool rows whose labels are most likely wrong, without training a student.

A label is suspect where simple classifiers on the features prefer another class, and where the teacher is unsure:

    suspicion = disagreement + log((1 − m) / (1 + m))            m: its margin, or the confidence it gave

No gold label has a part in it. An accuracy by confidence that is fitted to gold and cross-fitted there seems to rank
worse than it does, as leaving a wrong row out makes its like look better: by 14 points of ROC-AUC on noise (24 rows),
and fewer of the first rows were wrong. So gold validates the suspicion in full: its ROC-AUC, and the probability of a
wrong label as a function of it (``maths/error_curve.py``). Weak features give no row a high probability, and few gold
errors a wide interval of how many of the first rows are wrong. With neither a confidence nor features, the accuracy by
predicted class is left, cross-fitted.

The classifiers are cross-fitted: logistic regressions on the features, each fitted without a part of the rows.

    models = CrossFittedModels.fit(rows, index, labels, classes=10, seed=0)   # None: nothing to learn from these rows
    disagreement, suggested = models.score_all(rows, index, labels)

``disagreement`` is log(mean_{b ≠ a} p_b / t_b) − log(p_a / t_a) for the label a. The threshold t_c is the mean
probability of class c among the rows labelled c, as in confident learning (Northcutt et al., 2021): a class that is
never predicted with confidence is not suspect for that alone. Of few rows that mean is pulled towards the one over all
rows: the model of a fold may never have seen a class of one row, which then seemed likelier than its threshold
everywhere. At most ``SAMPLE`` rows are fitted to, and each row of
the sample is scored by the model that was fitted without it; all others are streamed past all models.

Features of any kind are read as a matrix, some rows at a time. Dense ones are standardised. Wide ones that are nearly
all zero (TF-IDF) stay sparse and are taken as they are: 10,000 sentences of 20,000 terms are 800 MB dense, 2 MB sparse.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import logit
from torch import Tensor, nn

from understudy import models
from understudy.auditing.measures import AuditData
from understudy.data.examples import Gold, Pool
from understudy.data.rows import Rows, take_sparse
from understudy.data.splits import cross_fitted_alpha, stratified_folds
from understudy.errors import UnderstudyError
from understudy.labels.reliability import Reliability
from understudy.maths.error_curve import ErrorCurve
from understudy.maths.proportions import UNKNOWN, Floats, Ints, Share, area, widen
from understudy.maths.sparse import sparse_batch
from understudy.training.automatic_options import l2_of_c
from understudy.training.optimizers import LBFGS

Matrix = NDArray[np.float32] | sparse.csr_matrix[Any]
# Numbers read densely at once: 64 MB.
BUDGET = 1 << 24
WIDE, THIN = 1024, 0.1
SAMPLE, FOLDS, ITERATIONS = 10_000, 3, 100
# Of the overall mean in a class's threshold. Of 1,243 messages in ten classes, to which an LLM gave 32, all of the
# first 20 rows are wrong with it, 45% without.
PRIOR_ROWS = 3
# Inverse penalties. Labels are noisy and features many: on standardised features, at 5% and 30% planted noise, 0.01
# ranks best or nearly so on digits and Fashion-MNIST (ROC-AUC 0.965 to 0.998; scikit-learn's default of 1: 0.88 to
# 0.995). Rows of TF-IDF have length 1, for which 1 is good.
DENSE_STRENGTH, THIN_STRENGTH = 0.01, 1.0


class FeatureReader(NamedTuple):
    """Reads one kind of rows as a matrix; fitted on some of them."""

    width: int
    thin: bool
    centre: NDArray[np.float32]
    scale: NDArray[np.float32]

    @classmethod
    def fit(cls, rows: Rows, index: Tensor) -> "FeatureReader | None":
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
        if self.thin and rows.is_sparse:
            matrix: Matrix = take_sparse(rows, index)
            return matrix if matrix.shape[1] == self.width else None
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
        raise UnderstudyError(f"row {row} of the features holds NaN or infinity; fill it in, or pass rows_wrong=0")
    return x


class CrossFittedModels(NamedTuple):
    models: list[nn.Module]
    features: FeatureReader
    #: Positions in ``index``, ascending, and the fold of each.
    sample: Ints
    fold: Ints
    threshold: Floats

    @classmethod
    def fit(cls, rows: Rows, index: Tensor, labels: Ints, *, classes: int, seed: int) -> "CrossFittedModels | None":
        features = FeatureReader.fit(rows, index)
        if features is None:
            return None
        rng = np.random.default_rng(seed)
        most = SAMPLE if features.thin else min(SAMPLE, 4 * BUDGET // features.width)
        sample = np.sort(rng.choice(len(labels), min(most, len(labels)), replace=False))
        y = labels[sample]
        # Every model must see two classes, whatever fold it misses.
        if (np.bincount(y) >= FOLDS).sum() < 2:
            return None
        x = features.read(rows, index[torch.from_numpy(sample)])
        assert x is not None
        fold, strength = stratified_folds(y, FOLDS, rng), THIN_STRENGTH if features.thin else DENSE_STRENGTH
        models = [_learn(x[fold != each], y[fold != each], classes, strength) for each in range(FOLDS)]
        own = np.empty(len(y))
        for left_out, model in enumerate(models):
            mine = fold == left_out
            own[mine] = _probabilities(model, x[mine])[np.arange(mine.sum()), y[mine]]
        count = np.bincount(y, minlength=classes)
        mean = (np.bincount(y, own, minlength=classes) + PRIOR_ROWS * own.mean()) / (count + PRIOR_ROWS)
        return cls(models, features, sample, fold, np.maximum(mean, 1e-6))

    def score(self, x: Matrix, labels: Ints, which: slice = slice(None)) -> tuple[Floats, Ints]:
        """Disagreement with the labels, and the most likely other class."""
        classes = len(self.threshold)
        probs = np.mean([_probabilities(model, x) for model in self.models[which]], axis=0)
        likely = np.maximum(probs, 1e-9) / self.threshold
        each = np.arange(len(labels))
        mine = likely[each, labels].copy()
        likely[each, labels] = 0
        return np.log(likely.sum(1) / (classes - 1)) - np.log(mine), likely.argmax(1)

    def score_all(self, rows: Rows, index: Tensor, labels: Ints) -> tuple[Floats, Ints]:
        """The same of all rows, each by models that were fitted without it."""
        disagreement, suggested = np.empty(len(labels)), np.empty(len(labels), dtype=np.int64)
        others = np.ones(len(labels), dtype=bool)
        others[self.sample] = False
        parts = [(self.sample[self.fold == number], slice(number, number + 1)) for number in range(FOLDS)]
        # Neither the features nor the probabilities of a part may grow large.
        step = min(self.features.step, max(1, BUDGET // len(self.threshold)))
        for positions, which in [*parts, (np.flatnonzero(others), slice(None))]:
            for part in (positions[start : start + step] for start in range(0, len(positions), step)):
                x = self.features.read(rows, index[torch.from_numpy(part)])
                assert x is not None
                disagreement[part], suggested[part] = self.score(x, labels[part], which)
        return disagreement, suggested


def _learn(x: Matrix, y: Ints, classes: int, strength: float) -> nn.Module:
    """Softmax regression, from zero."""
    with torch.random.fork_rng():
        net = models.linear((x.shape[1],), classes)
    rows, truth = _as_batch(x), torch.from_numpy(y)
    for parameter in net.parameters():
        nn.init.zeros_(parameter)
    weights = [parameter for parameter in net.parameters() if parameter.dim() > 1]
    optimizer = LBFGS(net.parameters(), penalised=weights, weight_decay=l2_of_c(strength, len(y), classes))
    optimizer.measure_curvature([net], rows, len(y))
    optimizer.minimise(lambda: nn.functional.cross_entropy(net(rows), truth), ITERATIONS)
    return net.eval()


def _as_batch(x: Matrix) -> Tensor:
    return sparse_batch(x) if sparse.issparse(x) else torch.from_numpy(x)


def _probabilities(model: nn.Module, x: Matrix) -> Floats:
    with torch.inference_mode():
        return np.asarray(model(_as_batch(x)).double().softmax(1))


@dataclass(frozen=True)
class Suspect:
    #: In the pool as given.
    row: int
    id: Any
    label: int
    #: The most likely other class by the features; None without features.
    suggestion: int | None
    #: That the label is wrong.
    probability: float
    confidence: float | None
    #: Of the pool's file, as an editor counts, where it has lines.
    line: int | None = None
    text: str | None = None


@dataclass(frozen=True)
class Suspects:
    top: list[Suspect]
    #: The share of wrong labels among these; unknown without any.
    errors: Share
    #: For every pool row, that its label is wrong; NaN without a label.
    probability: Floats
    #: ROC-AUC of the same ranking on gold.
    roc: Share
    by_features: bool
    #: For every pool row, its label and the class that is suggested instead; -1 where there is none.
    labels: Ints
    suggestions: Ints

    def located(
        self, line: Callable[[int], int] | None, texts: Sequence[Any] | None, *, numbered: bool = False
    ) -> "Suspects":
        """``line``: of a pool row, ``texts``: of all of them; None: the file has none. ``numbered``: ids are ours."""
        found = self.top if line is None else [replace(one, line=line(one.row)) for one in self.top]
        found = [replace(one, id=None) for one in found] if numbered else found
        return replace(self, top=[replace(one, text=None if texts is None else texts[one.row]) for one in found])


def find_suspects(gold: Gold, pool: Pool, data: AuditData, trust: Reliability, *, top: int, seed: int) -> Suspects:
    """The ``top`` pool rows by the probability that their label is wrong."""
    assert data.pool is not None
    index, labels, confidence = data.pool.rows, data.pool.predicted, data.pool.confidence
    models = CrossFittedModels.fit(pool.rows, index, labels, classes=data.classes, seed=seed)
    if confidence is not None and data.gold.confidence is not None:
        suspicion, on_gold = (_doubt((1 + margin) / 2) for margin in (confidence, data.gold.confidence))
    elif models is None:
        suspicion, on_gold = _doubt(trust.alpha(data.pool.labels).numpy()), _doubt(_alpha_on_gold(gold, data))
    else:
        suspicion, on_gold = np.zeros(len(labels)), np.zeros(len(data.gold))
    suggested = None
    if models is not None:
        disagreement, suggested = models.score_all(pool.rows, index, labels)
        suspicion += disagreement
        x = models.features.read(gold.rows, data.gold.rows)
        # Gold's features may be of another kind than the pool's.
        on_gold += np.nan if x is None else models.score(x, data.gold.predicted)[0]
    curve = ErrorCurve.fit(on_gold, data.wrong, suspicion)
    probability, given, other = np.full(len(pool), np.nan), np.full(len(pool), -1), np.full(len(pool), -1)
    probability[index.numpy()], given[index.numpy()] = curve(suspicion), labels
    if suggested is not None:
        other[index.numpy()] = suggested
    first = np.argsort(-suspicion, kind="stable")[:top]
    rows = index[torch.from_numpy(first)].tolist()
    ids = [None] * len(rows) if pool.ids is None else pool.ids[rows].tolist()
    return Suspects(
        top=[
            Suspect(
                row, identity, int(labels[pick]), None if suggested is None else int(suggested[pick]),
                float(probability[row]), None if confidence is None else float(confidence[pick]),
            )
            for pick, row, identity in zip(first, rows, ids, strict=True)
        ],
        errors=curve.errors_among(suspicion[first]),
        probability=probability,
        # What it is on this pool is a draw too.
        roc=widen(area(on_gold, data.wrong), 1 + len(on_gold) / len(labels)) if np.isfinite(on_gold).all() else UNKNOWN,
        by_features=models is not None,
        labels=given,
        suggestions=other,
    )  # fmt: skip


def _alpha_on_gold(gold: Gold, data: AuditData) -> Floats:
    """Cross-fitted on gold; NaN where the folds are too small."""
    fit = partial(Reliability.fit, lower_bound=0.0, classes=data.classes)
    plain = gold.take(data.gold.rows)
    # As the audit reads them: one-hot rows are hard labels in every fold, or in none.
    plain.teacher = data.gold.labels
    try:
        return cross_fitted_alpha(plain, fit).numpy()
    except UnderstudyError:
        return np.full(len(data.truth), np.nan)


def _doubt(alpha: Floats) -> Floats:
    """log((1 − alpha) / alpha), bounded: a teacher that is always sure may be wrong all the same."""
    return -logit(np.clip(alpha, 0.05, 0.95))
