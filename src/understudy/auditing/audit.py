"""The quality of a pool's labels before any training, measured on the gold rows that the teacher labelled too.

audit = us.audit(gold, pool, class_names=["neg", "pos"])
audit.noise.pool                      # Share(estimate=0.062, low=0.034, high=0.104, …)
audit.verdict, audit.expectations     # as sentences, and the outlook of each method
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
import torch

from understudy.auditing import measures
from understudy.auditing.measures import AuditData
from understudy.auditing.sources import AuditedSources, audit_sources
from understudy.auditing.suspects import Suspects, find_suspects
from understudy.data.examples import Gold, Pool, check_sets, weighed
from understudy.data.fitted_rows import mark_fitted
from understudy.errors import UnderstudyError
from understudy.labels.class_names import joint_names
from understudy.labels.reliability import ClassShift, Reliability, class_shift, enough_calibration_rows
from understudy.maths.proportions import Bools, Floats, Share, area
from understudy.store.console import Shown, from_report
from understudy.store.option_fields import checked_plainly
from understudy.store.settings import without_nan


class AccuracyCurve(NamedTuple):
    """Estimated accuracy against the teacher's confidence, with its 95% band, at the confidences of the gold rows."""

    confidence: Floats
    accuracy: Floats
    low: Floats
    high: Floats
    #: Of every gold row, and whether its label is wrong.
    gold_confidence: Floats
    wrong: Bools


@dataclass(frozen=True)
class GoldSize:
    """Whether gold is large enough for these estimates."""

    rows: int
    #: The fewest rows for a stable estimate.
    wanted: int
    #: Of the noise's 95% interval.
    half_width: float
    target: float
    #: About how many more rows bring it to ± ``target``.
    more: int

    @property
    def enough(self) -> bool:
        return self.rows >= self.wanted


class Expectation(NamedTuple):
    method: str
    #: Better than vanilla ("baseline")? "likely", "possible", "unlikely", or "not possible": what it needs is missing.
    outlook: str
    reason: str


@dataclass(frozen=True)
class Audit(Shown):
    """Everything that was measured."""

    class_names: list[str]
    form: str
    #: Rows that measure the teacher.
    gold_rows: int
    #: With a label.
    pool_rows: int | None
    unlabelled: int
    accuracy: measures.Accuracy
    noise: measures.Noise
    confusion: measures.Confusion
    calibration: measures.Calibration | None
    #: ROC-AUC of the teacher's confidence for its correct labels; None without a confidence.
    confidence_auc: Share | None
    curve: AccuracyCurve | None
    shift: ClassShift | None
    size: GoldSize
    suspects: Suspects | None
    #: Each annotator or rule, where the labels are votes of several.
    sources: AuditedSources | None = None
    #: Whether the votes on gold and pool are weighted by the same model.
    same_vote_model: bool = True

    @property
    def verdict(self) -> list[str]:
        """The findings as sentences, the most important first."""
        return self._sentences("verdict")

    @property
    def expectations(self) -> list[Expectation]:
        """Whether each method is expected to beat vanilla."""
        return [Expectation(*line.split(": ", 2)) for line in self._sentences("expectations")]

    @property
    def warnings(self) -> list[str]:
        """What makes the findings doubtful, as sentences."""
        return self._sentences("warnings")

    def _sentences(self, part: str) -> list[str]:
        return list(from_report("templates").sentences("audit", part, self))

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON; without the curve and the scores of every single pool row."""
        values = asdict(self) | {"verdict": self.verdict, "warnings": self.warnings}
        values["expectations"] = [each._asdict() for each in self.expectations]
        values.pop("curve")
        if values["suspects"] is not None:
            for scores in ("probability", "labels", "suggestions"):
                del values["suspects"][scores]
        return dict(without_nan(values))


@checked_plainly
def audit(
    gold: Gold, pool: Pool | None = None, *, class_names: Sequence[Any] | None = None, rows_wrong: int = 20,
    confusions: int = 8, target: float = 0.02, seed: int = 0,
) -> Audit:  # fmt: skip
    """Measure the teacher on gold, and estimate from it the quality of the pool's labels.

    ``rows_wrong``: how many suspect pool rows to list (0: features are not used at all). ``confusions``: how many pairs
    of classes. ``target``: the half-width of the noise interval for which more gold is counted, 0.02 for ±2 points.
    """
    if rows_wrong < 0 or confusions < 0 or not 0 < target < 1:
        raise UnderstudyError(f"audit({rows_wrong=}, {confusions=}, {target=}): counts, and a share")
    if gold is None:
        raise UnderstudyError("audit measures the teacher on gold, but gold=None; pass us.Gold(x, y, teacher=…)")
    check_sets(gold, pool)
    gold = mark_fitted(gold, pool)
    gold, pool = weighed(gold, gold), weighed(pool, gold)
    named = joint_names(gold.class_order, None if pool is None else pool.class_order)
    data = measures.audit_data(gold, pool, class_names or (named.names if named else None))
    noise, strata = measures.pool_noise(data)
    confidence, rows, on_gold, on_pool = data.gold.confidence, len(data.truth), data.gold.labels, data.pool
    trust = Reliability.fit(on_gold, torch.from_numpy(data.truth), 0.0, classes=data.classes) if rows >= 2 else None
    suspects = None
    if pool is not None and rows_wrong and trust is not None:
        suspects = find_suspects(gold, pool, data, trust, top=rows_wrong, seed=seed)
    wanted = enough_calibration_rows(on_gold, data.classes)
    return Audit(
        class_names=data.names,
        form=on_gold.title,
        gold_rows=rows,
        pool_rows=None if on_pool is None else len(on_pool),
        unlabelled=data.unlabelled,
        accuracy=measures.accuracy_of(data),
        noise=noise,
        confusion=measures.confusion_of(data, strata, most=confusions),
        calibration=measures.calibration_of(data, seed=seed),
        confidence_auc=None if confidence is None else area(-confidence, data.wrong),
        curve=None if trust is None or confidence is None else _curve(data, confidence, trust, seed),
        shift=None if on_pool is None else class_shift(on_gold, on_pool.labels, data.classes),
        size=GoldSize(rows, wanted, noise.pool.width / 2, target, noise.pool.more_rows_for(target, rows)),
        suspects=suspects,
        sources=audit_sources(data, pool),
        same_vote_model=on_pool is None or on_gold.weighed_like(on_pool.labels),
    )


def _curve(data: AuditData, confidence: Floats, trust: Reliability, seed: int) -> AccuracyCurve:
    _, rows = np.unique(confidence, return_index=True)
    labels = data.gold.labels.take(torch.from_numpy(rows))
    bands, alpha = trust.bands(labels, seed=seed), trust.alpha(labels).numpy()
    return AccuracyCurve(confidence[rows], alpha, bands.lower.numpy(), bands.upper.numpy(), confidence, data.wrong)
