"""The temperature: by hand, against another optimizer, with few rows; and the calibration gap with its coverage."""

import math

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from scipy.special import expit, log_softmax, logit
from torch import Tensor

from understudy.maths.proportions import wilson
from understudy.maths.temperature import PRIOR, calibration_gap, cross_tempered, fit_temperature, gap_of


def test_temperature_worked_by_hand() -> None:
    """Ten rows with log-odds of 4, eight of them right: the likeliest log-odds are log 4, and T = 4 / log 4 = 2.885."""
    logits = torch.tensor([[4.0, 0.0]]).repeat(10, 1)
    y = (torch.arange(10) >= 8).long()
    assert fit_temperature(logits, y, prior=math.inf) == pytest.approx(4 / math.log(4), rel=1e-4)
    assert 1 < fit_temperature(logits, y) < 4 / math.log(4), "the prior pulls it towards 1"


@pytest.mark.parametrize("prior", [PRIOR, math.inf])
def test_temperature_equals_a_gradient_free_search_in_numpy(prior: float, rng: np.random.Generator) -> None:
    z = rng.normal(size=(60, 5)) * 3
    y = (z + rng.normal(size=z.shape) * 4).argmax(1)

    def loss(u: np.ndarray) -> float:
        return -float(log_softmax(z * np.exp(-u[0]), 1)[np.arange(60), y].sum()) + np.log(1 + (u[0] / prior) ** 2)

    best = minimize(loss, np.array([0.2]), method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12}).x[0]
    assert fit_temperature(torch.from_numpy(z), torch.from_numpy(y), prior=prior) == pytest.approx(math.exp(best), 1e-4)


def draw(rows: int, classes: int, times: float, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Labels of calibrated logits; and these logits, multiplied: the temperature is ``times``."""
    logits = 2 * torch.randn(rows, classes, generator=generator, dtype=torch.float64)
    return logits * times, torch.multinomial(logits.softmax(1), 1, generator=generator).squeeze(1)


def test_few_rows_do_no_harm_and_many_find_it(generator: torch.Generator) -> None:
    """24 rows of a calibrated student cost 0.01 nats in the mean, 0.03 without a prior; 4,000 of another one find T."""
    many, labels = draw(4000, 4, 3.0, generator)
    assert fit_temperature(many, labels) == pytest.approx(3, rel=0.08)
    population, truth = draw(4000, 4, 1.0, generator)
    few = [draw(24, 4, 1.0, generator) for _ in range(30)]

    def cost(prior: float) -> float:
        found = [fit_temperature(*rows, prior=prior) for rows in few]
        losses = [float(torch.nn.functional.cross_entropy(population / each, truth)) for each in (1.0, *found)]
        return float(np.mean(losses[1:])) - losses[0]

    assert cost(PRIOR) < 0.015 < 0.02 < cost(math.inf)


def test_a_row_does_not_fit_its_own_temperature(generator: torch.Generator) -> None:
    logits, y = draw(40, 3, 2.0, generator)
    before = cross_tempered(logits, y)
    y[7] = (y[7] + 1) % 3
    after = cross_tempered(logits, y)
    own = torch.arange(40) % 10 == 7
    torch.testing.assert_close(after[own], before[own], rtol=0, atol=0)
    assert not torch.equal(after[~own], before[~own])


def test_gap_worked_by_hand() -> None:
    """Confidence 0.9, 68 of 100 right: +22 points, and the ends are 0.9 minus Wilson's of 68%, 0.583 to 0.763."""
    gap = calibration_gap(torch.full((100,), 0.9), torch.arange(100) < 68)
    share = wilson(68, 100)
    assert gap.estimate == pytest.approx(0.22) and (gap.low, gap.high) == pytest.approx((0.1366, 0.3167), abs=1e-4)
    assert (gap.low, gap.high) == pytest.approx((0.9 - share.high, 0.9 - share.low), abs=1e-6)
    probs = torch.tensor([[0.9, 0.1], [0.3, 0.7]], dtype=torch.float64)
    assert gap_of(probs, torch.tensor([0, 0])).estimate == pytest.approx(0.3)


def test_confidence_that_tells_nothing_widens_the_interval() -> None:
    sure, correct = (torch.arange(100) % 2).double() / 2 + 0.5, torch.arange(100) % 4 < 2
    plain = calibration_gap(torch.full((100,), 0.75), correct)
    gap = calibration_gap(sure, correct)
    assert gap.estimate == plain.estimate and gap.high - gap.low > 1.1 * (plain.high - plain.low)


def confidences(kind: str, rows: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Confidences, and the chance of each to be right."""
    if kind == "calibrated":
        confidence = rng.beta(9, 1, rows) * 0.5 + 0.5
        return confidence, confidence
    if kind == "overconfident":
        confidence = 1 - rng.beta(0.3, 1.5, rows) * 0.5
        return confidence, expit(logit(np.clip(confidence, 0.5, 1 - 1e-9)) / 4)
    return 0.5 + 0.5 * rng.beta(0.3, 0.3, rows), np.full(rows, 0.5)


@pytest.mark.parametrize("kind", ["calibrated", "overconfident", "uninformative"])
@pytest.mark.parametrize("rows", [24, 100])
def test_the_interval_holds_the_gap(kind: str, rows: int, rng: np.random.Generator) -> None:
    """In 93 to 97% of samples, within three standard errors of 500; a t-interval: 70% of calibrated ones at 24."""
    confidence, chance = confidences(kind, 500_000, rng)
    truth, held = float((confidence - chance).mean()), 0
    for _ in range(500):
        confidence, chance = confidences(kind, rows, rng)
        gap = calibration_gap(torch.from_numpy(confidence), torch.from_numpy(rng.random(rows) < chance))
        held += gap.low <= truth <= gap.high
    assert 0.905 <= held / 500 <= 0.993
