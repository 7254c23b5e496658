"""What gold tells of the teacher: how noisy its labels of the pool are, how often and in which way it is wrong, and
whether its confidence means something.

*Noise*: the gold error, weighed to the pool's mix of the teacher's answers.
Gold need not hold the teacher's answers in the pool's mix. Rows of gold and pool are therefore sorted into *strata*:
the same class named by the teacher and, where it gave a confidence, a similar one. Within a stratum the teacher is
taken to be wrong as often on the pool as on gold; the strata are then weighed as the pool has them. A stratum has at
least ``FEWEST`` gold rows: confidence is cut at gold quantiles into up to ``MOST_BINS`` parts of about ``PER_BIN``
rows, and classes with too few gold rows share one stratum.

*Accuracy and confusion*: how often the teacher is right (overall, by the class it named, by the true class, within its
first k), and which mistakes it makes: the largest flows between classes, what they mean for the pool, and their lean.
A flow truth→named is its mistakes on rows of class ``truth`` that it called ``named``. Its rate is taken among the rows
named so, since that is what a pool shows, and weighed to the pool's confidences. A pair of classes *leans* where one
direction holds more mistakes than the other than chance explains: the exact McNemar test (a fair coin decided each
mistake's direction), corrected for the number of pairs by Holm's rule.

*Calibration*: do its probabilities mean what they say? The calibration error (ECE, equal bins) is never 0 on few rows,
however calibrated the teacher. So the audit also draws what a calibrated teacher would show on these very rows: each is
right with exactly the probability given.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, from_numpy

from understudy.auditing.record import Answers, Floats, Ints, Record
from understudy.comparison.interval import Interval
from understudy.maths.confidence import calibration_error
from understudy.maths.proportions import Share, exact, holm, stratified, two_sided

FEWEST, PER_BIN, MOST_BINS = 5, 15, 4


@dataclass(frozen=True)
class Noise:
    plain: Share
    """The teacher's error on the gold rows as they are."""
    pool: Share
    """Its error on the pool: gold in the pool's mix. Without a pool the same as ``plain``."""
    strata: int
    uncovered: float
    """Share of the pool in classes of which gold has too few rows; measured together with others."""


@dataclass(frozen=True)
class Strata:
    gold: Ints
    pool: Ints
    count: int
    rare: list[int]
    """Classes with fewer than FEWEST gold rows that the teacher named so."""

    def tally(self, hit: NDArray[np.bool_]) -> tuple[Floats, Floats, Floats]:
        """Hits and rows of gold, and the pool's share, per stratum."""
        parts = (self.gold[hit], self.gold, self.pool)
        hits, rows, pool = (np.bincount(part, minlength=self.count).astype(np.float64) for part in parts)
        return hits, rows, pool / max(len(self.pool), 1)


def pool_noise(record: Record) -> tuple[Noise, Strata | None]:
    plain = exact(int(record.wrong.sum()), len(record.truth))
    if record.pool is None:
        return Noise(plain, plain, 1, 0.0), None
    strata = strata_of(record)
    hits, rows, weights = strata.tally(record.wrong)
    rare = float(sum((record.pool.named == label).mean() for label in strata.rare))
    pool = stratified(hits, rows, weights, population=len(record.pool))
    return Noise(plain, pool, int((weights > 0).sum()), rare), strata


def strata_of(record: Record) -> Strata:
    """``record.pool`` must be there."""
    assert record.pool is not None
    classes = record.classes
    counts = np.bincount(record.gold.named, minlength=classes)
    rare = counts < FEWEST
    # Row j of a class holds the confidences at which its next bins begin; infinity where it has no more.
    edges = np.full((classes, MOST_BINS - 1), np.inf)
    if record.gold.confidence is not None and record.pool.confidence is not None:
        for label in np.flatnonzero(~rare):
            cuts = _cuts(record.gold.confidence[record.gold.named == label])
            edges[label, : len(cuts)] = cuts
    bins = np.where(rare, 0, 1 + np.isfinite(edges).sum(1))
    first = bins.cumsum() - bins
    rest = int(bins.sum())
    first[rare] = rest
    gold, pool = (_stratum(answers, first, edges) for answers in (record.gold, record.pool))
    few = 0 < counts[rare].sum() < FEWEST or (counts[rare].sum() == 0 and (pool == rest).any())
    if few and rest:
        # Too few even together: they join the stratum that has fewest gold rows itself.
        fewest = np.bincount(gold, minlength=rest + 1)[:rest].argmin()
        gold, pool = (np.where(stratum == rest, fewest, stratum) for stratum in (gold, pool))
    return Strata(gold, pool, rest + 1, np.flatnonzero(rare).tolist())


def _cuts(confidence: Floats) -> list[float]:
    """Where the bins of one class begin, so that each holds FEWEST gold rows or more, ties together."""
    parts = min(MOST_BINS, len(confidence) // PER_BIN)
    cuts: list[float] = []
    below = 0
    for cut in np.quantile(confidence, np.arange(1, parts) / parts, method="higher") if parts > 1 else ():
        under = int((confidence < cut).sum())
        if under - below >= FEWEST and len(confidence) - under >= FEWEST:
            cuts.append(float(cut))
            below = under
    return cuts


def _stratum(answers: Answers, first: Ints, edges: Floats) -> Ints:
    stratum = first[answers.named]
    if answers.confidence is not None:
        for column in edges.T:
            if np.isfinite(column).any():
                stratum = stratum + (answers.confidence >= column[answers.named])
    return stratum


DEEPEST = 5
SURE = 0.05


@dataclass(frozen=True)
class ClassAccuracy:
    name: str
    precision: Share
    """P(truth is this class | the teacher says so), over the gold rows where it does."""
    recall: Share
    """P(the teacher says so | truth is this class), over the gold rows of this class."""
    gold_named: int
    gold_true: int
    pool_share: float | None
    """How much of the pool the teacher calls this class."""


@dataclass(frozen=True)
class Accuracy:
    overall: Share
    macro_precision: Share
    macro_recall: Share
    """Means over the classes that occur, each counting the same."""
    per_class: list[ClassAccuracy]
    top_k: list[Share]
    """The truth is among the teacher's first 1, 2, … classes; empty where it does not rank them."""


@dataclass(frozen=True)
class Flow:
    truth: int
    named: int
    gold_rows: int
    share: Share
    """P(truth | named): of the rows the teacher named so."""
    pool_rows: int | None
    """How many rows of the pool the teacher named so."""

    @property
    def size(self) -> float:
        """Rows of the pool, or of gold where there is none."""
        return self.gold_rows if self.pool_wrong is None else self.pool_wrong[0]

    @property
    def pool_wrong(self) -> tuple[float, float, float] | None:
        """Estimated pool rows in this flow: about, at least, at most."""
        if self.pool_rows is None:
            return None
        share = self.share
        return self.pool_rows * share.estimate, self.pool_rows * share.low, self.pool_rows * share.high


@dataclass(frozen=True)
class Lean:
    """Mistakes between two classes; ``truth``→``named`` is the direction that holds more."""

    truth: int
    named: int
    more: int
    less: int
    p_value: float

    @property
    def share(self) -> Share:
        return exact(self.more, self.more + self.less)

    @property
    def sure(self) -> bool:
        return self.p_value < SURE


@dataclass(frozen=True)
class Confusion:
    matrix: Ints
    """Gold rows, ``[truth, named]``."""
    flows: list[Flow]
    """The largest first."""
    leans: list[Lean]
    """Every pair with mistakes, the surest first."""


def accuracy_of(record: Record) -> Accuracy:
    classes, right = record.classes, ~record.wrong
    named, true = (np.bincount(values, minlength=classes) for values in (record.gold.named, record.truth))
    correct = np.bincount(record.truth[right], minlength=classes)
    shares: list[Any] = [None] * classes
    if record.pool is not None:
        shares = (np.bincount(record.pool.named, minlength=classes) / len(record.pool)).tolist()
    counts = zip(record.names, correct.tolist(), named.tolist(), true.tolist(), shares, strict=True)
    return Accuracy(
        overall=exact(int(right.sum()), len(right)),
        macro_precision=_macro(correct, named),
        macro_recall=_macro(correct, true),
        per_class=[
            ClassAccuracy(name, exact(right, says), exact(right, is_so), says, is_so, pool_share)
            for name, right, says, is_so, pool_share in counts
        ],
        top_k=_coverage(record),
    )


def _macro(correct: Ints, rows: Ints) -> Share:
    """Every class that occurs is a stratum of the same weight."""
    occurs = rows > 0
    return stratified(correct[occurs], rows[occurs], np.full(int(occurs.sum()), 1 / int(occurs.sum())))


def _coverage(record: Record) -> list[Share]:
    if not record.gold.labels.ranks:
        return []
    ranking = record.gold.labels.ranking()
    positions = ranking.positions(from_numpy(record.truth)).numpy()
    deepest = min(ranking.listed, ranking.classes - 1, DEEPEST)
    return [exact(int((positions < k).sum()), len(positions)) for k in range(1, deepest + 1)]


def confusion_of(record: Record, strata: Strata | None, *, most: int) -> Confusion:
    classes = record.classes
    cells = np.bincount(record.truth * classes + record.gold.named, minlength=classes * classes)
    matrix = cells.reshape(classes, classes)
    pool = None if record.pool is None else np.bincount(record.pool.named, minlength=classes)
    # By what each flow holds of the pool (of gold, without one): the rate among rows named so, times those rows.
    sizes = (matrix / np.maximum(matrix.sum(0), 1)) * (matrix.sum(0) if pool is None else pool)
    np.fill_diagonal(sizes, 0)
    largest = np.argsort(-sizes, axis=None, kind="stable")[:most]
    pairs = [divmod(int(cell), classes) for cell in largest if sizes.flat[cell] > 0]
    flows = [
        Flow(truth, named, int(matrix[truth, named]), _rate(record, strata, truth, named), pool_rows)
        for truth, named in pairs
        for pool_rows in [None if pool is None else int(pool[named])]
    ]
    return Confusion(matrix, sorted(flows, key=lambda flow: -flow.size), _leans(matrix))


def _rate(record: Record, strata: Strata | None, truth: int, named: int) -> Share:
    mine = record.gold.named == named
    hit = record.truth[mine] == truth
    if strata is None or named in strata.rare or record.pool is None:
        return exact(int(hit.sum()), len(hit))
    # Only this class's strata: the same confidences, weighed as the pool has them.
    theirs = strata.pool[record.pool.named == named]
    if not len(theirs):
        return exact(int(hit.sum()), len(hit))
    within = Strata(strata.gold[mine], theirs, strata.count, [])
    return stratified(*within.tally(hit), population=len(theirs))


def _leans(matrix: Ints) -> list[Lean]:
    pairs = []
    for one, other in np.argwhere(np.triu(matrix + matrix.T, 1)):
        there, back = int(matrix[one, other]), int(matrix[other, one])
        pair = (int(one), int(other)) if there >= back else (int(other), int(one))
        pairs.append((*pair, max(there, back), min(there, back), two_sided(there, there + back)))
    corrected = holm([p_value for *_, p_value in pairs])
    leans = [Lean(*pair[:4], p_value=float(p)) for pair, p in zip(pairs, corrected, strict=True)]
    return sorted(leans, key=lambda lean: (lean.p_value, -lean.more))


DRAWS = 1000


@dataclass(frozen=True)
class Calibration:
    error: float
    """Expected calibration error."""
    expected: float
    """What a calibrated teacher would show on as many rows: the median of the draws."""
    p_value: float
    """The share of calibrated teachers that would show as much."""
    gap: float
    low: float
    high: float
    """Mean probability minus accuracy, with its 95% interval: above 0 the teacher is too sure of itself."""

    @property
    def off(self) -> bool:
        return self.p_value < SURE


def calibration_of(record: Record, *, seed: int = 0) -> Calibration | None:
    """None where the labels come without probabilities."""
    sure = _probabilities(record)
    if sure is None or len(sure) < 2:
        return None
    right = torch.from_numpy(~record.wrong).double()
    error = calibration_error(sure, right)
    rng = np.random.default_rng(seed)
    draws = np.array([calibration_error(sure, torch.from_numpy(rng.random(len(sure))) < sure) for _ in range(DRAWS)])
    gap = Interval.of((sure - right).tolist())
    p_value = float((1 + (draws >= error).sum()) / (1 + DRAWS))
    return Calibration(error, float(np.median(draws)), p_value, gap.mean, gap.low, gap.high)


def _probabilities(record: Record) -> Tensor | None:
    """The chance the teacher gave its own answer, where it is one."""
    labels = record.gold.labels
    if labels.ranks:
        return labels.ranking().leading(0, len(labels), 1).probs[:, 0]
    given = labels.confidence("margin")
    return given if labels.has_confidence and float(given.min()) >= 0 and float(given.max()) <= 1 else None
