"""Bounds on whole classes of predictors: Weighted Distillation, Corollary D.2, and Catastrophic Failures, Theorem 1."""

import math

import pytest
import torch
from torch import Tensor

from experiments.theory import debias_weight

PREDICTORS, DELTA = 60, 0.05


def test_corollary_d_2_holds_for_all_predictors_at_once() -> None:
    """With Theorem D.1's own constants and its covering number, here the number of predictors.

    The weighted risk lies within the bound of the clean one, which falls as n grows. The unweighted one lies within it
    of risk + bias, hence at the largest n outside of it around the risk: its limit is another.
    """
    gaps, bounds = [], []
    for n in (1_000, 20_000, 400_000):
        generator = torch.Generator().manual_seed(n)
        p, clean, corrupted = losses(n, generator)
        weight = debias_weight(p, clean, corrupted)
        # The theorem is about values in [0, 1]: scaled by the largest weighted loss there can be, 0.9 / (1 − p).
        largest = 0.9 / 0.6
        noisy = torch.rand(p.shape, generator=generator, dtype=p.dtype) < p
        observed = torch.where(noisy, corrupted, clean)
        risk, bias = 0.5, expected_bias()
        weighted = bound(weight * observed / largest) * largest
        gap = ((weight * observed).mean(1) - risk).abs()
        assert bool((gap <= weighted).all())
        plain, plain_bound = observed.mean(1), bound(observed)
        assert bool(((plain - risk - bias).abs() <= plain_bound).all())
        gaps.append(float(gap.max()))
        bounds.append(float(weighted.max()))
    assert gaps[0] > 5 * gaps[2] and bounds[0] > 10 * bounds[2]
    assert bool(((plain - risk).abs() > plain_bound).all()) and bounds[2] < expected_bias()


def losses(n: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Of every predictor and row: the chance of a wrong label, and the loss of the right and of the wrong one."""
    uniform = torch.rand(2, PREDICTORS, n, generator=generator, dtype=torch.float64)
    clean = 0.2 + 0.6 * uniform[0]
    return 0.4 * uniform[1], clean, 0.9 * torch.ones_like(clean)


def expected_bias() -> float:
    """E[p (ℓ(wrong) − ℓ(right))] = 0.2 (0.9 − 0.5)."""
    return 0.2 * (0.9 - 0.5)


def bound(values: Tensor) -> Tensor:
    """Maurer & Pontil's, Theorem 6, with a covering number of the class's size."""
    n = values.shape[1]
    log = math.log(2 * 10 * PREDICTORS / DELTA)
    return (18 * values.var(1) * log / n).sqrt() + 15 * log / (n - 1)


def test_theorem_1_holds_and_its_factor_is_below_0_where_noise_is_fitted() -> None:
    """All 256 labellings of eight points, 0-1 loss, q = half of the rows, the labels of three points flipped.

    The bound holds in all of 40 draws (95% are promised). Its factor Q is at least 0 on clean labels; on flipped ones
    the labelling that has fitted them has no training loss and an error of 3/8: Q is −3/8, and so is the gap that no
    number of rows closes.
    """
    generator = torch.Generator().manual_seed(0)
    labellings = (torch.arange(256)[:, None] >> torch.arange(8)) & 1
    truth = torch.tensor([0, 1, 1, 0, 1, 0, 0, 1])
    given = torch.where(torch.arange(8) < 3, 1 - truth, truth)
    error = (labellings != truth).double().mean(1)
    for n in (200, 4_000):
        x = torch.randint(8, (40, n), generator=generator)
        risk = top_half(labellings != truth, x, n)
        for labels, factor in ((truth, 0.0), (given, -3 / 8)):
            top = top_half(labellings != labels, x, n // 2)
            found = float((top - risk).min(1).values.mean())
            assert found == pytest.approx(factor, abs=0.01)
            # Massart's lemma for 256 labellings; M = 1 and every γ is 1, so that s = 1 · n, over q = n / 2.
            slack = 2 * math.sqrt(2 * math.log(256) / n) + 4 * math.sqrt(math.log(2 / DELTA) / (2 * n))
            assert bool((error <= top + slack - found).all())
            gap = float((error - top).max())
            assert gap == pytest.approx(-factor, abs=1e-9)


def top_half(losses: Tensor, x: Tensor, q: int) -> Tensor:
    """The mean of each draw's q highest 0-1 losses, for every labelling: ``(256, 8), (draws, n) -> (draws, 256)``."""
    wrong = torch.stack([losses.double()[:, points].sum(1) for points in x])
    return (wrong / q).clamp(max=1.0)
