"""Corruption: exact on small cases, the promised distribution on large ones."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from understudy.data.noise import background_flip, imbalance, instance_dependent, pair_flip, symmetric, uniform_flip
from understudy.errors import UnderstudyError

CLASSES, N = 5, 50_000
LABELS = torch.arange(N) % CLASSES
FEATURES = torch.randn(N, 12, generator=torch.Generator().manual_seed(9)) + 3

FLIPS: dict[str, Callable[..., tuple[Tensor, Tensor]]] = {
    "uniform": lambda labels, p, seed=0: uniform_flip(labels, p, CLASSES, seed=seed),
    "symmetric": lambda labels, p, seed=0: symmetric(labels, p, CLASSES, seed=seed),
    "background": lambda labels, p, seed=0: background_flip(labels, p, 2, CLASSES, seed=seed),
    "pair": lambda labels, p, seed=0: pair_flip(labels, p, CLASSES, seed=seed),
    "instance": lambda labels, p, seed=0: instance_dependent(FEATURES, labels, p, CLASSES, seed=seed),
}


def confusion(noisy: Tensor) -> np.ndarray:
    return torch.bincount(LABELS * CLASSES + noisy, minlength=CLASSES**2).view(CLASSES, CLASSES).numpy()


def fits(observed: np.ndarray, expected: np.ndarray) -> bool:
    """Chi-square over all cells of non-zero expectation; impossible cells must be empty."""
    possible = expected > 0
    assert (observed[~possible] == 0).all()
    return bool(stats.chisquare(observed[possible], expected[possible]).pvalue > 1e-3)


@pytest.mark.parametrize("flip", FLIPS.values(), ids=FLIPS.keys())
def test_contract(flip: Callable[..., tuple[Tensor, Tensor]]) -> None:
    noisy, changed = flip(LABELS, 0.3, seed=4)
    assert noisy.dtype == torch.int64 and changed.dtype == torch.bool
    assert torch.equal(changed, noisy != LABELS)
    assert torch.equal(LABELS, torch.arange(N) % CLASSES)  # the truth is not written to
    assert torch.equal(flip(LABELS, 0.3, seed=4)[0], noisy)
    assert not torch.equal(flip(LABELS, 0.3, seed=5)[0], noisy)
    assert torch.equal(flip(LABELS.numpy().astype(np.int32), 0.3, seed=4)[0], noisy)
    assert not flip(LABELS, 0.0)[1].any()


def test_uniform_flip_has_its_distribution() -> None:
    noisy, _ = FLIPS["uniform"](LABELS, 0.4)
    rates = np.full((CLASSES, CLASSES), 0.4 / 4)
    np.fill_diagonal(rates, 0.6)
    assert fits(confusion(noisy), rates * N / CLASSES)


def test_symmetric_has_its_distribution() -> None:
    noisy, _ = FLIPS["symmetric"](LABELS, 0.4)
    assert fits(confusion(noisy), (0.6 * np.eye(CLASSES) + 0.4 / CLASSES) * N / CLASSES)


def test_background_flip_has_its_distribution() -> None:
    noisy, changed = FLIPS["background"](LABELS, 0.4)
    rates = 0.6 * np.eye(CLASSES)
    rates[:, 2] += 0.4
    assert fits(confusion(noisy), rates * N / CLASSES)
    assert not changed[LABELS == 2].any()


def test_pair_flip_has_its_distribution() -> None:
    noisy, _ = FLIPS["pair"](LABELS, 0.45)
    assert fits(confusion(noisy), (0.55 * np.eye(CLASSES) + 0.45 * np.roll(np.eye(CLASSES), 1, axis=1)) * N / CLASSES)


def test_certain_flips_are_exact() -> None:
    labels = [0, 1, 2, 3, 4]
    assert pair_flip(labels, 1.0, CLASSES)[0].tolist() == [1, 2, 3, 4, 0]
    assert background_flip(labels, 1.0, 3, 5)[0].tolist() == [3] * 5
    assert uniform_flip(LABELS, 1.0, CLASSES)[1].all()
    assert uniform_flip([0, 1, 1], 1.0, 2)[0].tolist() == [1, 0, 0]
    assert instance_dependent(FEATURES, LABELS, 1.0, CLASSES)[1].all()


@pytest.mark.parametrize("p", [0.05, 0.2, 0.4, 0.9])
def test_instance_dependent_rate(p: float) -> None:
    _, changed = FLIPS["instance"](LABELS, p)
    assert stats.binomtest(int(changed.sum()), N, p).pvalue > 1e-3


def test_instance_dependent_depends_on_the_instance() -> None:
    """Copies of one input share their flip rate and their wrong class's distribution; other inputs have others."""
    copies, kinds = 4000, 6
    kind = torch.arange(kinds).repeat_interleave(copies)
    points = torch.randn(kinds, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    jitter = 1e-6 * torch.randn(len(kind), 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    noisy, changed = instance_dependent(points[kind] + jitter, torch.zeros_like(kind), 0.4, CLASSES, spread=0.13)
    flips = torch.stack([changed[kind == k].double().mean() for k in range(kinds)])
    assert flips.max() - flips.min() > 0.25  # six groups of equal size span about ±1.5 deviations of 0.13
    targets = np.array([[int(((noisy == c) & (kind == k)).sum()) for c in range(1, CLASSES)] for k in range(kinds)])
    assert stats.chi2_contingency(targets).pvalue < 1e-12
    shuffled = torch.randperm(copies, generator=torch.Generator().manual_seed(2))
    first, second = noisy[kind == 0][shuffled].chunk(2)
    halves = np.array([[int((half == c).sum()) for c in range(CLASSES)] for half in (first, second)])
    assert stats.chi2_contingency(halves[:, halves.sum(0) > 0]).pvalue > 1e-3


def test_imbalance_counts() -> None:
    labels = torch.tensor([4, 9]).repeat(6000)
    rows = imbalance(labels, 200, rare=[4], total=5000, seed=3)
    assert torch.bincount(labels[rows])[[4, 9]].tolist() == [25, 4975]
    assert torch.equal(rows, rows.unique())
    assert torch.equal(rows, imbalance(labels.numpy(), 200, rare=[4], total=5000, seed=3))
    assert not torch.equal(rows, imbalance(labels, 200, rare=[4], total=5000, seed=4))


def test_imbalance_of_several_classes() -> None:
    rows = imbalance(LABELS, 10, rare=[0, 3], total=3205)
    assert torch.bincount(LABELS[rows]).tolist() == [100, 1002, 1002, 100, 1001]


def test_bad_input_is_named() -> None:
    with pytest.raises(UnderstudyError, match=r"p = 1\.2"):
        uniform_flip([0, 1], 1.2, 2)
    with pytest.raises(UnderstudyError, match="label 7 in row 1"):
        symmetric([0, 7], 0.1, 3)
    with pytest.raises(UnderstudyError, match="background class 3"):
        background_flip([0, 1], 0.1, 3, 3)
    with pytest.raises(UnderstudyError, match="whole numbers"):
        pair_flip(np.array([0.5, 1.0]), 0.1, 3)
    with pytest.raises(UnderstudyError, match="only one"):
        uniform_flip([0, 0], 0.1, 1)
    with pytest.raises(UnderstudyError, match="2 inputs for 3 labels"):
        instance_dependent(torch.zeros(2, 4), [0, 1, 1], 0.1, 2)
    with pytest.raises(UnderstudyError, match="lower total"):
        imbalance(LABELS, 2, rare=[0], total=10**6)
    with pytest.raises(UnderstudyError, match="rare classes"):
        imbalance(LABELS, 2, rare=[8], total=10)
