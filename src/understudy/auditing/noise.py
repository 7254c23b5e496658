"""How many labels of the pool are wrong: the gold error, weighed to the pool's mix of the teacher's answers.

Gold need not hold the teacher's answers in the pool's mix. Rows of gold and pool are therefore sorted into *strata*:
the same class named by the teacher and, where it gave a confidence, a similar one. Within a stratum the teacher is
taken to be wrong as often on the pool as on gold; the strata are then weighed as the pool has them. A stratum has at
least ``FEWEST`` gold rows: confidence is cut at gold quantiles into up to ``MOST_BINS`` parts of about ``PER_BIN``
rows, and classes with too few gold rows share one stratum.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from understudy.auditing.record import Answers, Floats, Ints, Record
from understudy.maths.proportions import Share, exact, stratified

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
        rows, hits = (
            np.bincount(part, minlength=self.count).astype(np.float64) for part in (self.gold, self.gold[hit])
        )
        return hits, rows, np.bincount(self.pool, minlength=self.count) / max(len(self.pool), 1)


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
