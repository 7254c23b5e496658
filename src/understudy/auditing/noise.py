"""How many labels of the pool are wrong: the gold error, weighed to the pool's mix of the teacher's answers."""

from dataclasses import dataclass

from understudy.auditing.record import Record
from understudy.auditing.strata import Strata, strata_of
from understudy.maths.proportions import Share, exact, stratified


@dataclass(frozen=True)
class Noise:
    plain: Share
    """The teacher's error on the gold rows as they are."""
    pool: Share
    """Its error on the pool: gold in the pool's mix. Without a pool the same as ``plain``."""
    strata: int
    uncovered: float
    """Share of the pool in classes of which gold has too few rows; measured together with others."""


def pool_noise(record: Record) -> tuple[Noise, Strata | None]:
    plain = exact(int(record.wrong.sum()), len(record.truth))
    if record.pool is None:
        return Noise(plain, plain, 1, 0.0), None
    strata = strata_of(record)
    hits, rows, weights = strata.tally(record.wrong)
    rare = float(sum((record.pool.named == label).mean() for label in strata.rare))
    found = stratified(hits, rows, weights, population=len(record.pool))
    return Noise(plain, found, int((weights > 0).sum()), rare), strata
