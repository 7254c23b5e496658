"""Is there enough gold to calibrate the teacher on, and is gold a sample of the pool?

Reliability is estimated on gold and applied to the pool, which is valid only where gold is a random sample of it. The
pool has no truth, so the teacher's predicted classes are compared: those on the calibration rows and on the pool are
two rows of a contingency table. Their total variation distance is the size of the shift, a chi-square test of
homogeneity its significance. Classes too rare for the test (fewer than 5 expected gold rows) are pooled. Chance alone
raises the alarm (p < 0.001 *and* distance > 0.1) in about 1 of 1,000 trainings at most.

    shift = class_shift(gold_labels, pool_labels, classes=10)
    shift.distance, shift.p_value, shift.alarming
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from understudy.errors import warn
from understudy.labels.forms import Labels

SIGNIFICANT, LARGE = 1e-3, 0.1
# The chi-square approximation's usual condition.
_EXPECTED = 5.0


@dataclass(frozen=True)
class ClassShift:
    #: Total variation: the share of rows that would have to change class.
    distance: float
    p_value: float
    #: The class whose share differs most, and its shares.
    most: int
    gold_share: float
    pool_share: float

    @property
    def alarming(self) -> bool:
        return self.p_value < SIGNIFICANT and self.distance > LARGE


def class_shift(gold: Labels, pool: Labels, classes: int) -> ClassShift:
    """The shift between the classes the teacher predicts on gold and on the pool; rows without a label do not count."""
    best = [gold.top1(), pool.top1()]
    here, there = (np.bincount(each[each >= 0].numpy(), minlength=classes).astype(np.float64) for each in best)
    gold_shares, pool_shares = here / max(here.sum(), 1), there / max(there.sum(), 1)
    most = int(np.abs(gold_shares - pool_shares).argmax())
    return ClassShift(
        distance=float(np.abs(gold_shares - pool_shares).sum() / 2),
        p_value=homogeneity(here, there),
        most=most,
        gold_share=float(gold_shares[most]),
        pool_share=float(pool_shares[most]),
    )


def homogeneity(here: NDArray[np.float64], there: NDArray[np.float64]) -> float:
    """p-value of "both counts ``(C,)`` come from one distribution"; 1 where there are too few rows."""
    table = _merged(np.stack([here, there]))
    totals = table.sum(1, keepdims=True)
    if table.shape[1] < 2 or totals.min() == 0:
        return 1.0
    expected = totals * table.sum(0) / table.sum()
    from scipy.special import chdtrc

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


def enough_calibration_rows(gold: Labels, classes: int) -> int:
    """How many gold rows an estimate of reliability should have at least.

    Bare hard labels have an accuracy per class: 10 rows for each. Scores and confidences share one curve over all
    classes: 30 rows, and one per class so that the mixture of classes can be represented.
    """
    return max(30, classes) if gold.simplest().has_confidence else 10 * classes


def check_calibration(gold: Labels, pool: Labels, classes: int) -> dict[str, float]:
    """The class shift, with warnings where calibration rows are few, or not a sample of the pool."""
    wanted = enough_calibration_rows(gold, classes)
    if len(gold) < wanted:
        warn(
            f"{len(gold)} gold rows calibrate the teacher over {classes} classes; {wanted} or more are needed for a "
            "stable estimate: add gold rows with teacher=, or use us.vanilla(), which estimates nothing"
        )
    if not gold.weighed_like(pool):
        warn(
            "the votes on gold and on the pool are weighed by different models, so estimates on gold do not hold for "
            "the pool: fit one (fit = votes.dawid_skene()) and pass by=fit to both us.Votes"
        )
    shift = class_shift(gold, pool, classes)
    if shift.alarming:
        warn(
            f"gold and pool hold different classes: the teacher predicts class {shift.most} on {shift.gold_share:.0%} "
            f"of the gold rows and {shift.pool_share:.0%} of the pool (distance {shift.distance:.2f}, p = "
            f"{shift.p_value:.1g}); draw gold at random from the pool, or estimates on it will not hold there"
        )
    return {"class_shift": shift.distance, "class_shift_p": shift.p_value}
