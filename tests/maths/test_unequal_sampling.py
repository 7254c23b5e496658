"""Unequal probabilities: by hand and by bisection; draws have exactly them, and weighted means are unbiased."""

import numpy as np
import pytest
import torch

from understudy.maths.random_order import inclusion_probabilities, systematic


def test_probabilities_by_hand() -> None:
    # 2 draws in proportion to 6, 2, 1, 1 would give 1.2 to the first; it is certain, and 2, 1, 1 share one draw.
    found = inclusion_probabilities(torch.tensor([1.0, 6.0, 2.0, 1.0]), 2)
    assert found.tolist() == pytest.approx([0.25, 1.0, 0.5, 0.25])
    assert inclusion_probabilities(torch.tensor([3.0, 3.0, 3.0]), 3).tolist() == [1.0, 1.0, 1.0]
    assert inclusion_probabilities(torch.tensor([3.0, 1.0]), 0).tolist() == [0.0, 0.0]
    # 85 thirds sum to slightly less than 85 / 3.
    assert float(inclusion_probabilities(torch.full((85,), 1 / 3), 85).max()) == 1


def test_they_are_the_solution_of_their_equation() -> None:
    rng = np.random.default_rng(0)
    for n in (1, 7, 60, 99, 100):
        weight = rng.lognormal(sigma=2, size=100)
        low, high = 0.0, n / weight.min()
        for _ in range(200):  # Σ min(1, c · w) = n
            middle = (low + high) / 2
            low, high = (middle, high) if np.minimum(1, middle * weight).sum() < n else (low, middle)
        found = inclusion_probabilities(torch.from_numpy(weight), n)
        assert found.numpy() == pytest.approx(np.minimum(1, high * weight), abs=1e-9)
        assert float(found.sum()) == pytest.approx(n, abs=1e-9) and float(found.max()) <= 1


def test_rows_are_drawn_with_their_probabilities_and_means_are_unbiased() -> None:
    rng, draws = np.random.default_rng(1), 4000
    value = rng.random(40) < 0.3
    probability = inclusion_probabilities(torch.from_numpy(rng.lognormal(size=40) + 4 * value), 12)
    counts, means = np.zeros(40), np.empty(draws)
    for number in range(draws):
        rows = systematic(probability, 12, start=float(rng.random()), key=int(rng.integers(2**60))).numpy()
        assert len(set(rows.tolist())) == 12
        counts[rows] += 1
        weight = 1 / probability.numpy()[rows]
        means[number] = weight @ value[rows] / 40
    chance = probability.numpy()
    some = chance < 1
    assert (counts[~some] == draws).all()
    off = (counts - draws * chance)[some] / np.sqrt(draws * chance * (1 - chance))[some]
    assert np.abs(off).max() < 4 and 0.4 < (off**2).mean() < 1.8
    assert abs(means.mean() - value.mean()) < 4 * means.std() / draws**0.5


def test_rounding_never_picks_a_row_twice() -> None:
    for start in (0.0, 1 - 2**-53, 0.1 + 0.2):
        assert sorted(systematic(torch.ones(1000), 1000, start=start, key=3).tolist()) == list(range(1000))
        assert len(systematic(torch.tensor([0.1] * 10), 1, start=start, key=3)) == 1
