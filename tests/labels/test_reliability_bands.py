"""Bands around alpha: their place, their coverage, and their limits."""

import time

import numpy as np
import pytest
import torch

import understudy as us
from understudy.maths.accuracy_curves import _limits


def _accuracy(margin: np.ndarray) -> np.ndarray:
    return 0.5 + 0.45 * margin**0.7


def _probs(margin: np.ndarray) -> np.ndarray:
    return np.stack([(1 + margin) / 2, (1 - margin) / 2], 1)


def _gold(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    margin = rng.random(rows)
    return _probs(margin), (rng.random(rows) >= _accuracy(margin)).astype(int)


QUERIED = _probs(np.linspace(0.05, 0.95, 19))


def test_bands_hold_the_estimate_and_rise_with_it() -> None:
    trust = us.Reliability.fit(*_gold(300, 0), lower_bound=0.3)
    bands = trust.bands(QUERIED, repeats=200)
    alpha = trust.alpha(QUERIED)
    inside = (bands.lower <= alpha + 1e-9) & (alpha <= bands.upper + 1e-9)
    assert inside.double().mean() > 0.9
    for edge in (bands.lower, bands.upper):
        assert (edge.diff() >= 0).all()
        assert edge.min() >= 0.3
        assert edge.max() <= 1
    wider = trust.bands(QUERIED, level=0.99)
    assert (wider.upper - wider.lower).mean() > (bands.upper - bands.lower).mean()


def test_seeded() -> None:
    trust = us.Reliability.fit(*_gold(100, 0))
    assert trust.bands(QUERIED, seed=3).lower.equal(trust.bands(QUERIED, seed=3).lower)
    assert not trust.bands(QUERIED, seed=3).lower.equal(trust.bands(QUERIED, seed=4).lower)


def test_two_knots_by_the_binomial() -> None:
    """100 sure rows, 80 right, and 100 unsure rows, 55 right: far enough apart that the fit is the two shares."""
    probs = _probs(np.repeat([0.2, 0.9], 100))
    labels = np.concatenate([np.arange(100) >= 55, np.arange(100) >= 80]).astype(int)
    bands = us.Reliability.fit(probs, labels, lower_bound=0.0).bands(_probs(np.array([0.2, 0.9])), repeats=4000)
    for row, share in ((0, 0.55), (1, 0.80)):
        # Laplace's share, and the spread of a binomial over about 100 redrawn rows.
        centre = (100 * share + 1) / 102
        reach = 1.96 * np.sqrt(centre * (1 - centre) / 100)
        assert bands.lower[row].item() == pytest.approx(centre - reach, abs=0.015)
        assert bands.upper[row].item() == pytest.approx(centre + reach, abs=0.015)


def test_few_rows_all_right_are_not_certain() -> None:
    """Eight sure rows, all right: alpha is 1, and the band must not be."""
    probs = _probs(np.concatenate([np.full(40, 0.2), np.full(8, 0.9)]))
    labels = np.concatenate([np.arange(40) % 2, np.zeros(8)]).astype(int)
    trust = us.Reliability.fit(probs, labels, lower_bound=0.3)
    queried = _probs(np.array([0.9]))
    assert trust.alpha(queried).item() == 1
    assert trust.bands(queried).lower.item() < 0.9
    assert trust.bands(queried).upper.item() == 1


@pytest.mark.slow
@pytest.mark.parametrize("rows", [60, pytest.param(400, marks=pytest.mark.torture)])
def test_coverage(rows: int) -> None:
    truth = torch.tensor(_accuracy(np.linspace(0.05, 0.95, 19)))
    held = [
        ((bands.lower <= truth) & (truth <= bands.upper)).double()
        for bands in (us.Reliability.fit(*_gold(rows, seed), lower_bound=0.0).bands(QUERIED) for seed in range(80))
    ]
    share = torch.stack(held).mean(0)
    assert 0.93 <= float(share.mean()) <= 0.995
    assert float(share.min()) >= 0.82


def test_limits_by_hand() -> None:
    """Of 0 … 100 around 60, 60% are below: the corrected quantiles are those at Φ(2 · 0.266 ± 1.96), 7.6 and 99.4%."""
    curves = np.arange(101.0)[:, None]
    assert _limits(curves, 0.025, None)[:, 0] == pytest.approx([2.5, 97.5])
    assert _limits(curves, 0.025, np.array([60.0]))[:, 0] == pytest.approx([2.5, 100])
    assert _limits(curves, 0.025, np.array([40.0]))[:, 0] == pytest.approx([0, 97.5])


def test_the_ends_of_a_flat_curve_are_held() -> None:
    """Where confidence tells nothing; by plain quantiles in 58% of these draws."""
    held = []
    for seed in range(60):
        labels = (np.random.default_rng(seed + 500).random(60) >= 0.6).astype(int)
        bands = us.Reliability.fit(_gold(60, seed)[0], labels, lower_bound=0.0).bands(_probs(np.array([0.02, 0.98])))
        held.append(((bands.lower <= 0.6) & (bands.upper >= 0.6)).double().mean())
    assert np.mean(held) >= 0.75


def test_hard_labels_have_bands_per_class() -> None:
    """Class 0 named 400 times, class 1 named 20 times: the second is less sure."""
    named = np.array([0] * 400 + [1] * 20)
    truth = np.where(np.arange(420) % 5 == 0, 1 - named, named)
    trust = us.Reliability.fit(named, truth, classes=3)
    bands = trust.bands([0, 1, -1])
    widths = (bands.upper - bands.lower).tolist()
    assert widths[0] == pytest.approx(2 * 1.96 * np.sqrt(0.16 / 400), rel=0.2)
    assert widths[1] > 1.5 * widths[0]
    assert np.isnan(widths[2])
    inside = (bands.lower <= trust.alpha([0, 1, -1])) & (trust.alpha([0, 1, -1]) <= bands.upper)
    assert inside.tolist() == [True, True, False]


def test_hard_labels_with_confidence_have_a_curve() -> None:
    probs, labels = _gold(200, 0)
    confidence = np.round(probs[:, 0], 1)
    trust = us.Reliability.fit(us.Hard(np.zeros(200, int), confidence), labels)
    bands = trust.bands(us.Hard([0, 0, -1], [0.5, 0.9, float("nan")]))
    assert (bands.lower[:2] < bands.upper[:2]).all()
    assert bands.lower[2].isnan()


def test_fast() -> None:
    trust = us.Reliability.fit(*_gold(2000, 0))
    pool = _probs(np.random.default_rng(0).random(100_000))
    start = time.process_time()
    trust.bands(pool)
    assert time.process_time() - start < 3


def test_bad_levels_and_repeats_are_errors() -> None:
    trust = us.Reliability.fit(*_gold(50, 0))
    with pytest.raises(us.UnderstudyError, match="level"):
        trust.bands(QUERIED, level=1.0)
    with pytest.raises(us.UnderstudyError, match="at least 20"):
        trust.bands(QUERIED, repeats=5)
