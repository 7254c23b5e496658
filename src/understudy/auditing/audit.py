"""How good are these labels? Asked before any training, answered from the gold rows the teacher has labelled too.

found = us.audit(gold, pool, class_names=["neg", "pos"])
found.noise.pool                    # Share(estimate=0.062, low=0.034, high=0.104, …)
found.verdict, found.expectations   # in words
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from understudy.arguments import checked_plainly
from understudy.auditing.measures import accuracy_of, calibration_of, confusion_of, pool_noise
from understudy.auditing.record import Floats, Record, read_record
from understudy.auditing.result import Audit, Curve, GoldSize
from understudy.auditing.sources import sources_of
from understudy.auditing.suspects import find_suspects
from understudy.auditing.words import expectations_of, verdict_of, warnings_of
from understudy.data.examples import Gold, Pool
from understudy.data.weighing import check_meeting, weighed
from understudy.errors import UnderstudyError
from understudy.labels.class_names import joint_names
from understudy.labels.evidence import class_shift, enough_estimates
from understudy.labels.reliability import Reliability
from understudy.maths.proportions import area


@checked_plainly
def audit(
    gold: Gold,
    pool: Pool | None = None,
    *,
    class_names: Sequence[Any] | None = None,
    rows_wrong: int = 20,
    flows: int = 8,
    target: float = 0.02,
    seed: int = 0,
) -> Audit:
    """Measure the teacher on gold, and say what that means for the pool.

    ``rows_wrong``: how many suspect pool rows to list (0: do not look at the features at all). ``flows``: how many
    confusions. ``target``: the half-width of the noise interval for which more gold is counted, 0.02 for ±2 points.
    """
    check_numbers(rows_wrong, flows, target)
    if not isinstance(pool, Pool | None):
        raise UnderstudyError(f"audit(pool=<{type(pool).__name__}>) must be a us.Pool, or None")
    check_meeting(gold, pool, "gold", "the pool")
    gold, pool = weighed(gold, gold), weighed(pool, gold)
    named = joint_names(*(part.class_order if isinstance(part, Gold | Pool) else None for part in (gold, pool)))
    record = read_record(gold, pool, class_names or (named.names if named else None))
    return measured(record, gold, pool, rows_wrong=rows_wrong, flows=flows, target=target, seed=seed)


def check_numbers(rows_wrong: int, flows: int, target: float) -> None:
    if rows_wrong < 0 or flows < 0 or not 0 < target < 1:
        raise UnderstudyError(f"audit(rows_wrong={rows_wrong}, flows={flows}, target={target}): counts, and a share")


def measured(
    record: Record, gold: Gold, pool: Pool | None, *, rows_wrong: int, flows: int, target: float, seed: int
) -> Audit:
    """The audit of what was read, wherever the pool lies; ``pool``: where its rows are to be looked at too."""
    noise, strata = pool_noise(record)
    trust = None
    if len(record.truth) >= 2:
        trust = Reliability.fit(record.gold.labels, torch.from_numpy(record.truth), 0.0, classes=record.classes)
    suspects = None
    if pool is not None and rows_wrong and trust is not None:
        suspects = find_suspects(gold, pool, record, trust, noise.pool.estimate, top=rows_wrong, seed=seed)
    confident, rows = record.gold.confidence, len(record.truth)
    wanted = enough_estimates(record.gold.labels, record.classes)
    found = Audit(
        class_names=record.names,
        form=record.form,
        gold_rows=rows,
        pool_rows=None if record.pool is None else len(record.pool),
        unlabelled=record.unlabelled,
        accuracy=accuracy_of(record),
        noise=noise,
        confusion=confusion_of(record, strata, most=flows),
        calibration=calibration_of(record, seed=seed),
        telling=None if confident is None else area(-confident, record.wrong),
        curve=None if trust is None or confident is None else _curve(record, confident, trust, seed),
        shift=None if record.pool is None else class_shift(record.gold.labels, record.pool.labels, record.classes),
        size=GoldSize(rows, wanted, noise.pool.width / 2, target, noise.pool.more_rows_for(target, rows)),
        suspects=suspects,
        sources=sources_of(record, pool),
    )
    found = replace(found, warnings=warnings_of(found, record))
    expected = expectations_of(found, record)
    return replace(found, expectations=expected, verdict=verdict_of(found))


def _curve(record: Record, confidence: Floats, trust: Reliability, seed: int) -> Curve:
    _, rows = np.unique(confidence, return_index=True)
    asked = record.gold.labels.take(torch.from_numpy(rows))
    bands, alpha = trust.bands(asked, seed=seed), trust.alpha(asked).numpy()
    return Curve(confidence[rows], alpha, bands.lower.numpy(), bands.upper.numpy(), confidence, record.wrong)
