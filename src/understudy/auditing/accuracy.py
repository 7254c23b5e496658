"""How often the teacher is right (overall, by the class it named, by the true class, within its first k), and which
mistakes it makes: the largest flows between classes, what they mean for the pool, and their lean.

A flow truth→named is its mistakes on rows of class ``truth`` that it called ``named``. Its rate is taken among the rows
named so, since that is what a pool shows, and weighed to the pool's confidences. A pair of classes *leans* where one
direction holds more mistakes than the other than chance explains: the exact McNemar test (a fair coin decided each
mistake's direction), corrected for the number of pairs by Holm's rule.
"""

from dataclasses import dataclass

import numpy as np
from torch import from_numpy

from understudy.auditing.noise import Strata
from understudy.auditing.record import Ints, Record
from understudy.maths.proportions import Share, exact, holm, stratified, two_sided

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
    shares = None if record.pool is None else np.bincount(record.pool.named, minlength=classes) / len(record.pool)
    return Accuracy(
        overall=exact(int(right.sum()), len(right)),
        macro_precision=_macro(correct, named),
        macro_recall=_macro(correct, true),
        per_class=[
            ClassAccuracy(
                name=name,
                precision=exact(int(correct[label]), int(named[label])),
                recall=exact(int(correct[label]), int(true[label])),
                gold_named=int(named[label]),
                gold_true=int(true[label]),
                pool_share=None if shares is None else float(shares[label]),
            )
            for label, name in enumerate(record.names)
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
        Flow(
            truth=truth,
            named=named,
            gold_rows=int(matrix[truth, named]),
            share=_rate(record, strata, truth, named),
            pool_rows=None if pool is None else int(pool[named]),
        )
        for truth, named in pairs
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
