"""Do gold and pool hold the same classes? Compared by what the teacher says of both, since the pool has no truth.

Trust is measured on gold and applied to the pool, which is only fair where gold is a random sample of it. The teacher's
best classes on the estimate rows and on the pool are two rows of a contingency table: their total variation distance
tells how far apart they are, a chi-square test of homogeneity whether chance explains it. Classes too rare for the test
(fewer than 5 expected gold rows) are counted together. Chance alone raises the alarm (p < 0.001 *and* distance > 0.1)
in about 1 of 1,000 trainings at most.

    shift = class_shift(gold_labels, pool_labels, classes=10)
    shift.distance, shift.p_value, shift.alarming
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc

from understudy.labels.forms import Labels

SURE, LARGE = 1e-3, 0.1
# The chi-square approximation's usual condition.
_EXPECTED = 5.0


@dataclass(frozen=True)
class ClassShift:
    distance: float
    """Total variation: the share of rows that would have to change class."""
    p_value: float
    most: int
    """The class whose share differs most, and its shares."""
    gold_share: float
    pool_share: float

    @property
    def alarming(self) -> bool:
        return self.p_value < SURE and self.distance > LARGE


def class_shift(gold: Labels, pool: Labels, classes: int) -> ClassShift:
    """Compare the classes the teacher names on gold and on the pool; rows without a label do not count."""
    here, there = (_counts(labels, classes) for labels in (gold, pool))
    gold_shares, pool_shares = here / max(here.sum(), 1), there / max(there.sum(), 1)
    most = int(np.abs(gold_shares - pool_shares).argmax())
    return ClassShift(
        distance=float(np.abs(gold_shares - pool_shares).sum() / 2),
        p_value=homogeneity(here, there),
        most=most,
        gold_share=float(gold_shares[most]),
        pool_share=float(pool_shares[most]),
    )


def _counts(labels: Labels, classes: int) -> NDArray[np.float64]:
    best = labels.top1()
    return np.bincount(best[best >= 0].numpy(), minlength=classes).astype(np.float64)


def homogeneity(here: NDArray[np.float64], there: NDArray[np.float64]) -> float:
    """p-value of "both counts ``(C,)`` come from one distribution"; 1 where there is too little to tell."""
    table = _merged(np.stack([here, there]))
    totals = table.sum(1, keepdims=True)
    if table.shape[1] < 2 or totals.min() == 0:
        return 1.0
    expected = totals * table.sum(0) / table.sum()
    return float(chdtrc(table.shape[1] - 1, ((table - expected) ** 2 / expected).sum()))


def _merged(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rare classes in one column; if even that is rare, it joins the next smallest."""
    pooled = table.sum(0)
    expected = pooled * table.sum(1).min() / max(table.sum(), 1)
    order = np.argsort(pooled, kind="stable")
    rare = int((expected < _EXPECTED).sum())
    if rare and expected[order[:rare]].sum() < _EXPECTED:
        rare += 1
    merged = table[:, order[:rare]].sum(1, keepdims=True)
    return np.concatenate([merged, table[:, order[rare:]]], axis=1) if rare else table
