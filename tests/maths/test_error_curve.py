"""The chance of a wrong label by its suspicion: against a plain double loop, on simulated pools, and at the borders."""

import math
from statistics import NormalDist

import numpy as np
import pytest
from scipy.special import expit

from understudy.maths import error_curve
from understudy.maths.error_curve import ErrorCurve


def test_the_posterior_mean_equals_a_plain_sum(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b, c = [-3.0, -1.0, 0.5], [0.0, 1.5], [0.5, 1.0]
    for name, values in (("A", a), ("B", b), ("C", c)):
        monkeypatch.setattr(error_curve, name, np.array(values))
    pool = rng.normal(size=99)
    # The 50th and the 91st of 99 lie at the 50% and the 91% point of a normal distribution.
    ordered, wrong = np.sort(pool), np.array([False, True])
    curve = ErrorCurve.fit(ordered[[49, 90]], wrong, pool)
    high = round(NormalDist().inv_cdf(0.91) * 16) / 16
    total = above = 0.0
    for x in a:
        for y in b:
            for top in c:
                low_p, high_p = (top / (1 + math.exp(-x - y * z)) for z in (0.0, high))
                weight = math.exp(-((y / error_curve.SCALE) ** 2) / 2) * (1 - low_p) * high_p
                total, above = total + weight, above + weight * low_p
    assert curve(ordered[49:50])[0] == pytest.approx(above / total, rel=1e-9)


def simulated(gold: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Scores of gold and whether it is wrong, and the same of a pool; at any score at most half of the labels are."""
    z = rng.normal(size=gold + 4000)
    wrong = rng.random(len(z)) < 0.5 * expit(-3 + 3 * z)
    scores = np.exp(z)  # heavy tails
    return scores[:gold], wrong[:gold], scores[gold:], wrong[gold:]


def test_the_first_rows_of_a_pool_are_not_overstated(rng: np.random.Generator) -> None:
    """Of 200 gold rows: in the mean within 0.1 of the truth, and the interval holds it; a logistic curve says 0.79."""
    stated, true, held = [], [], 0
    for _ in range(12):
        on_gold, gold_wrong, on_pool, pool_wrong = simulated(200, rng)
        first = np.argsort(-on_pool)[:20]
        share = ErrorCurve.fit(on_gold, gold_wrong, on_pool).errors_among(on_pool[first])
        stated.append(share.estimate)
        true.append(pool_wrong[first].mean())
        held += share.low <= true[-1] <= share.high
    assert abs(np.mean(stated) - np.mean(true)) < 0.1 and held >= 10


def test_it_rises_and_without_errors_or_scores_it_claims_little(rng: np.random.Generator) -> None:
    on_gold, wrong, on_pool, _ = simulated(200, rng)
    chances = ErrorCurve.fit(on_gold, wrong, on_pool)(np.sort(on_pool))
    assert (np.diff(chances) > 0).all() and chances[-1] < 0.8
    faultless = ErrorCurve.fit(on_gold, np.zeros(200, dtype=bool), on_pool)
    assert faultless(on_pool).mean() < 0.02
    unscored = ErrorCurve.fit(np.full(200, np.nan), wrong, on_pool)
    assert unscored(on_pool).mean() == pytest.approx(wrong.mean(), abs=0.03)
    width = unscored.errors_among(np.sort(on_pool)[-20:]).width
    assert width > ErrorCurve.fit(on_gold, wrong, on_pool).errors_among(np.sort(on_pool)[-20:]).width
    assert not unscored.errors_among(np.empty(0)).known
