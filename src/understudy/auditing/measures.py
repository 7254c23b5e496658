"""The teacher measured on gold: how many labels of the pool are wrong, which classes it confuses, and whether its
confidence is calibrated. ``audit_data`` has the labels that all of these start from.

*Noise*: the error rate on gold, post-stratified to the pool.
Gold need not hold the teacher's labels in the pool's proportions. Rows of gold and pool are therefore sorted into
*strata*: the same class predicted by the teacher and, where it gave a confidence, a similar one. Within a stratum the
error rate is taken to be the same on the pool as on gold; the strata are then weighted as the pool has them. A stratum
has at least ``FEWEST`` gold rows: confidence is cut at gold quantiles into up to ``MOST_BINS`` bins of about
``PER_BIN`` rows, and classes with too few gold rows share one stratum.

*Accuracy and confusion*: accuracy, precision, recall and top-k accuracy, the most frequent confusions, how many pool
rows they affect, and their asymmetry. The rate of a confusion truth→predicted is taken among the rows predicted so,
since that is what a pool shows, and weighted by the pool's confidences. A pair of classes is *asymmetric* where one
direction has more errors than chance explains: the exact McNemar test, Holm-corrected for the number of pairs.

*Calibration*: the expected calibration error (ECE, equal bins) is never 0 on few rows, however calibrated the teacher.
So the audit also draws what a calibrated teacher would show on these very rows, each correct with exactly the
probability given.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, from_numpy

from understudy.data.examples import Gold, Pool, drop_unlabelled
from understudy.errors import UnderstudyError
from understudy.labels.base import Ranking
from understudy.labels.forms import Labels
from understudy.maths.classification_metrics import by_class, confusion_counts
from understudy.maths.confidence import calibration_error
from understudy.maths.proportions import Bools, Floats, Ints, Share, exact, holm, stratified, two_sided
from understudy.maths.temperature import calibration_gap

FEWEST, PER_BIN, MOST_BINS = 5, 15, 4
DEEPEST = 5
SIGNIFICANT = 0.05
DRAWS = 1000


@dataclass(frozen=True)
class TeacherLabels:
    """The teacher's labels of some rows."""

    labels: Labels
    #: Where these lie in gold or pool.
    rows: Tensor
    #: The most probable class per row.
    predicted: Ints
    #: The margin, or the confidence given; None for bare hard labels.
    confidence: Floats | None

    @classmethod
    def of(cls, labels: Labels, rows: Tensor) -> "TeacherLabels":
        confidence = labels.confidence("margin").numpy() if labels.has_confidence else None
        return cls(labels, rows, labels.top1().numpy(), confidence)

    def __len__(self) -> int:
        return len(self.predicted)


class AuditData(NamedTuple):
    gold: TeacherLabels
    truth: Ints
    #: Only rows with a label.
    pool: TeacherLabels | None
    names: list[str]
    #: How many further rows the pool has.
    unlabelled: int

    @property
    def classes(self) -> int:
        return len(self.names)

    @property
    def wrong(self) -> Bools:
        return np.not_equal(self.gold.predicted, self.truth)


def audit_data(gold: Gold, pool: Pool | None, class_names: Sequence[Any] | None) -> AuditData:
    """The gold rows that calibrate the teacher, and the pool rows it labelled."""
    rows, on_gold = gold.calibration()
    if on_gold is None or not len(rows):
        cure = "give rows it labelled (by ids of the pool file, or us.Gold(x, y, teacher=…)) that were not chosen"
        raise UnderstudyError(f"no gold row has a teacher label; {cure}")
    labelled, kept = drop_unlabelled(pool)
    theirs = None
    if labelled is not None and labelled.teacher is not None:
        theirs = TeacherLabels.of(labelled.teacher.simplest(), torch.arange(len(labelled)) if kept is None else kept)
    # One teacher: where its pool labels are all one-hot, its few on gold count as hard too.
    simplest = on_gold.simplest() if theirs is None else theirs.labels
    mine = TeacherLabels.of(on_gold if simplest.ranks else on_gold.simplest(), rows)
    if mine.labels.title != simplest.title:
        raise UnderstudyError(f"gold holds {mine.labels.title}, the pool {simplest.title}; use one form in both")
    truth = gold.y[rows].numpy()
    seen = int(max(gold.y.max(), mine.predicted.max(), -1 if theirs is None else theirs.predicted.max())) + 1
    count = max(seen, mine.labels.classes or 0, simplest.classes or 0)
    names = [str(name) for name in (range(count) if class_names is None else class_names)]
    if len(names) < count:
        raise UnderstudyError(f"class_names holds {len(names)} names for {count} classes; name them all, in order")
    return AuditData(mine, truth, theirs, names, 0 if pool is None or theirs is None else len(pool) - len(theirs))


@dataclass(frozen=True)
class Noise:
    #: The teacher's error rate on gold.
    gold: Share
    #: Its error rate on the pool, post-stratified; without a pool the same as ``gold``.
    pool: Share
    strata: int
    #: Share of the pool in classes with too few gold rows for a stratum of their own.
    uncovered: float


@dataclass(frozen=True)
class RowStrata:
    gold: Ints
    pool: Ints
    count: int
    #: Classes with fewer than FEWEST gold rows predicted so.
    rare: list[int]

    def tally(self, hit: Bools) -> tuple[Floats, Floats, Floats]:
        """Hits and rows of gold, and the pool's share, per stratum."""
        parts = (self.gold[hit], self.gold, self.pool)
        hits, rows, pool = (np.bincount(part, minlength=self.count).astype(np.float64) for part in parts)
        return hits, rows, pool / max(len(self.pool), 1)


def pool_noise(data: AuditData) -> tuple[Noise, RowStrata | None]:
    """The share of wrong labels on gold and on the pool, and the strata it was estimated in."""
    on_gold = exact(int(data.wrong.sum()), len(data.truth))
    if data.pool is None:
        return Noise(on_gold, on_gold, 1, 0.0), None
    strata = strata_of(data)
    hits, rows, weights = strata.tally(data.wrong)
    rare = float(sum((data.pool.predicted == label).mean() for label in strata.rare))
    pool = stratified(hits, rows, weights, population=len(data.pool))
    return Noise(on_gold, pool, int((weights > 0).sum()), rare), strata


def strata_of(data: AuditData) -> RowStrata:
    """The strata of the gold rows and of the pool, which must be there."""
    assert data.pool is not None
    classes = data.classes
    counts = np.bincount(data.gold.predicted, minlength=classes)
    rare = counts < FEWEST
    # Row j of a class holds the confidences at which its next bins begin; infinity where it has no more.
    edges = np.full((classes, MOST_BINS - 1), np.inf)
    if data.gold.confidence is not None and data.pool.confidence is not None:
        for label in np.flatnonzero(~rare):
            mine = data.gold.confidence[data.gold.predicted == label]
            cuts = quantile_cuts(mine, min(MOST_BINS, len(mine) // PER_BIN), FEWEST)
            edges[label, : len(cuts)] = cuts
    bins = np.where(rare, 0, 1 + np.isfinite(edges).sum(1))
    first = bins.cumsum() - bins
    rest = int(bins.sum())
    first[rare] = rest
    gold, pool = (_stratum(labels, first, edges) for labels in (data.gold, data.pool))
    few = 0 < counts[rare].sum() < FEWEST or (counts[rare].sum() == 0 and (pool == rest).any())
    if few and rest:
        # Too few even together: they join the stratum that has fewest gold rows itself.
        fewest = np.bincount(gold, minlength=rest + 1)[:rest].argmin()
        gold, pool = (np.where(stratum == rest, fewest, stratum) for stratum in (gold, pool))
    return RowStrata(gold, pool, rest + 1, np.flatnonzero(rare).tolist())


def quantile_cuts(values: Floats, parts: int, fewest: int, at: Floats | None = None) -> list[float]:
    """Where up to so many parts begin: at quantiles (or ``at``), equal values together, each with ``fewest`` rows."""
    cuts: list[float] = []
    below = 0
    wanted: Any = np.quantile(values, np.arange(1, parts) / parts, method="higher") if parts > 1 else ()
    for cut in wanted if at is None else at:
        under = int((values < cut).sum())
        if under - below >= fewest and len(values) - under >= fewest:
            cuts.append(float(cut))
            below = under
    return cuts


def _stratum(labels: TeacherLabels, first: Ints, edges: Floats) -> Ints:
    stratum = first[labels.predicted]
    if labels.confidence is not None:
        for column in edges.T:
            if np.isfinite(column).any():
                stratum = stratum + (labels.confidence >= column[labels.predicted])
    return stratum


@dataclass(frozen=True)
class ClassAccuracy:
    name: str
    precision: Share
    recall: Share
    #: Gold rows that the teacher labelled with this class.
    predicted: int
    #: Gold rows of this class.
    actual: int
    #: Share of the pool that the teacher labelled with this class.
    pool_share: float | None


@dataclass(frozen=True)
class Accuracy:
    overall: Share
    macro_precision: Share
    #: Means over the classes that occur.
    macro_recall: Share
    per_class: list[ClassAccuracy]
    #: Top-1, top-2, … accuracy; empty where the teacher does not rank the classes.
    top_k: list[Share]


@dataclass(frozen=True)
class ConfusedPair:
    truth: int
    predicted: int
    gold_rows: int
    #: P(truth | predicted).
    rate: Share
    #: Pool rows with this predicted class.
    pool_rows: int | None

    @property
    def size(self) -> float:
        """Affected rows of the pool, or of gold where there is none."""
        return self.gold_rows if self.pool_wrong is None else self.pool_wrong.estimate

    @property
    def pool_wrong(self) -> Share | None:
        """Estimated pool rows with this confusion, with the 95% interval."""
        if self.pool_rows is None:
            return None
        rate, rows = self.rate, self.pool_rows
        return Share(rows * rate.estimate, rows * rate.low, rows * rate.high, rate.rows)


@dataclass(frozen=True)
class Asymmetry:
    """Errors between two classes; ``truth``→``predicted`` is the more frequent direction."""

    truth: int
    predicted: int
    more: int
    less: int
    p_value: float

    @property
    def significant(self) -> bool:
        return self.p_value < SIGNIFICANT


@dataclass(frozen=True)
class Confusion:
    #: Gold rows, ``[truth, predicted]``.
    matrix: Ints
    #: The most frequent first.
    pairs: list[ConfusedPair]
    #: Every pair with errors, the smallest p-value first.
    asymmetries: list[Asymmetry]


def accuracy_of(data: AuditData) -> Accuracy:
    """The teacher's accuracy on gold, overall and by class."""
    matrix = confusion_counts(data.truth, data.gold.predicted, classes=data.classes)
    correct, predicted, shares = matrix.diagonal(), matrix.sum(0), [None] * data.classes
    if data.pool is not None:
        shares = (np.bincount(data.pool.predicted, minlength=data.classes) / len(data.pool)).tolist()
    of_classes = zip(data.names, by_class(matrix), predicted.tolist(), shares, strict=True)
    return Accuracy(
        overall=exact(int(correct.sum()), len(data.truth)),
        macro_precision=_macro(correct, predicted),
        macro_recall=_macro(correct, matrix.sum(1)),
        per_class=[
            ClassAccuracy(name, one.precision, one.recall, named, one.rows, pool_share)
            for name, one, named, pool_share in of_classes
        ],
        top_k=_top_k(data),
    )


def _macro(correct: Ints, rows: Ints) -> Share:
    """Every class that occurs is a stratum of the same weight."""
    occurs = rows > 0
    return stratified(correct[occurs], rows[occurs], np.full(int(occurs.sum()), 1 / int(occurs.sum())))


def _top_k(data: AuditData) -> list[Share]:
    ranking = data.gold.labels
    if not isinstance(ranking, Ranking):
        return []
    positions = ranking.positions(from_numpy(data.truth)).numpy()
    deepest = min(ranking.listed, ranking.classes - 1, DEEPEST)
    return [exact(int((positions < k).sum()), len(positions)) for k in range(1, deepest + 1)]


def confusion_of(data: AuditData, strata: RowStrata | None, *, most: int) -> Confusion:
    """The confusion matrix on gold, its ``most`` frequent errors on the pool, and their asymmetries."""
    classes = data.classes
    matrix = confusion_counts(data.truth, data.gold.predicted, classes=classes)
    pool = None if data.pool is None else np.bincount(data.pool.predicted, minlength=classes)
    # Affected rows of the pool (of gold, without one): the rate among rows predicted so, times those rows.
    sizes = (matrix / np.maximum(matrix.sum(0), 1)) * (matrix.sum(0) if pool is None else pool)
    np.fill_diagonal(sizes, 0)
    largest = np.argsort(-sizes, axis=None, kind="stable")[:most]
    pairs = []
    for truth, predicted in (divmod(int(cell), classes) for cell in largest if sizes.flat[cell] > 0):
        rate, rows = _rate(data, strata, truth, predicted), int(matrix[truth, predicted])
        pairs.append(ConfusedPair(truth, predicted, rows, rate, None if pool is None else int(pool[predicted])))
    return Confusion(matrix, sorted(pairs, key=lambda pair: -pair.size), _asymmetries(matrix))


def _rate(data: AuditData, strata: RowStrata | None, truth: int, predicted: int) -> Share:
    mine = data.gold.predicted == predicted
    hit = data.truth[mine] == truth
    if strata is not None and data.pool is not None and predicted not in strata.rare:
        # Only this class's strata: the same confidences, weighted as the pool has them.
        theirs = strata.pool[data.pool.predicted == predicted]
        if len(theirs):
            within = RowStrata(strata.gold[mine], theirs, strata.count, [])
            return stratified(*within.tally(hit), population=len(theirs))
    return exact(int(hit.sum()), len(hit))


def _asymmetries(matrix: Ints) -> list[Asymmetry]:
    pairs = []
    for one, other in np.argwhere(np.triu(matrix + matrix.T, 1)):
        there, back = int(matrix[one, other]), int(matrix[other, one])
        pair = (int(one), int(other)) if there >= back else (int(other), int(one))
        pairs.append((*pair, max(there, back), min(there, back), two_sided(there, there + back)))
    corrected = holm([p_value for *_, p_value in pairs])
    found = [Asymmetry(*pair[:4], p_value=float(p)) for pair, p in zip(pairs, corrected, strict=True)]
    return sorted(found, key=lambda pair: (pair.p_value, -pair.more))


@dataclass(frozen=True)
class Calibration:
    #: Expected calibration error.
    error: float
    #: Of a calibrated teacher on as many rows: the median of the draws.
    expected: float
    #: The share of calibrated teachers with an error as large.
    p_value: float
    gap: float
    low: float
    #: Mean probability minus accuracy, with its 95% interval: above 0 the teacher is overconfident.
    high: float

    @property
    def miscalibrated(self) -> bool:
        return self.p_value < SIGNIFICANT


def calibration_of(data: AuditData, *, seed: int = 0) -> Calibration | None:
    """The calibration of the teacher's probabilities; None where the labels have none."""
    probs = _top_probabilities(data)
    if probs is None or len(probs) < 2:
        return None
    correct = torch.from_numpy(~data.wrong).double()
    error = calibration_error(probs, correct)
    rng = np.random.default_rng(seed)
    draws = np.array([calibration_error(probs, torch.from_numpy(rng.random(len(probs))) < probs) for _ in range(DRAWS)])
    gap = calibration_gap(probs, correct)
    p_value = float((1 + (draws >= error).sum()) / (1 + DRAWS))
    return Calibration(error, float(np.median(draws)), p_value, gap.estimate, gap.low, gap.high)


def _top_probabilities(data: AuditData) -> Tensor | None:
    """The probability of the predicted class, where the labels have one."""
    labels = data.gold.labels
    if isinstance(labels, Ranking):
        return labels.leading(0, len(labels), 1).probs[:, 0].double()
    given = labels.confidence("margin")
    return given if labels.has_confidence and float(given.min()) >= 0 and float(given.max()) <= 1 else None
