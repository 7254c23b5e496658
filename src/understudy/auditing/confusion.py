"""Which mistakes the teacher makes: the largest flows between classes, what they mean for the pool, and their lean.

A flow truth→named is its mistakes on rows of class ``truth`` that it called ``named``. Its rate is taken among the rows
named so, since that is what a pool shows, and weighed to the pool's confidences. A pair of classes *leans* where one
direction holds more mistakes than the other than chance explains: the exact McNemar test (a fair coin decided each
mistake's direction), corrected for the number of pairs by Holm's rule.
"""

from dataclasses import dataclass

import numpy as np

from understudy.auditing.record import Ints, Record
from understudy.auditing.strata import Strata
from understudy.maths.proportions import Share, exact, holm, stratified, two_sided

SURE = 0.05


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
    found = []
    for one, other in np.argwhere(np.triu(matrix + matrix.T, 1)):
        there, back = int(matrix[one, other]), int(matrix[other, one])
        pair = (int(one), int(other)) if there >= back else (int(other), int(one))
        found.append((*pair, max(there, back), min(there, back), two_sided(there, there + back)))
    corrected = holm([lean[-1] for lean in found])
    leans = [Lean(*lean[:4], p_value=float(p)) for lean, p in zip(found, corrected, strict=True)]
    return sorted(leans, key=lambda lean: (lean.p_value, -lean.more))
