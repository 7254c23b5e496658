"""Proposition D.3 of Weighted Distillation: by hand, on a grid of the definition, by simulation both ways."""

import pytest
import torch

from experiments.theory import debias_weight, debiased_mse, unweighted_is_closer, unweighted_mse


def test_by_hand() -> None:
    # p = 1/2, δ = 0: w = 2. Unweighted misses by 1 half of the time; debiased, by 1 always (2 or 0 for 1).
    flip, distortion = torch.tensor(0.5), torch.tensor(0.0)
    assert unweighted_mse(flip, distortion).item() == pytest.approx(0.5)
    assert debiased_mse(flip, distortion).item() == pytest.approx(1.0)


def test_proposition_is_the_comparison_of_the_definitions() -> None:
    flip, distortion = torch.meshgrid(
        torch.linspace(0, 1, 101, dtype=torch.float64),
        torch.linspace(0, 3, 301, dtype=torch.float64) + 1e-4,
        indexing="ij",
    )
    weight = debias_weight(flip, torch.ones_like(flip), distortion)
    mse = flip * (1 - distortion) ** 2
    mse_weighted = (1 - flip) * (1 - weight) ** 2 + flip * (1 - weight * distortion) ** 2
    torch.testing.assert_close(unweighted_mse(flip, distortion), mse)
    torch.testing.assert_close(debiased_mse(flip, distortion), mse_weighted)
    # Ties (p = 0, and the boundary itself) are decided by rounding in the definitions: leave 1e-12 around them.
    sure = (mse - mse_weighted).abs() > 1e-12
    assert torch.equal(unweighted_is_closer(flip, distortion)[sure], (mse < mse_weighted)[sure])
    assert not unweighted_is_closer(flip, distortion)[flip == 0].any()
    assert unweighted_is_closer(flip, distortion).double().mean() > 0.05


@pytest.mark.parametrize(
    ("flip", "distortion", "unweighted_wins"),
    [
        (0.5, 0.1, True),  # the bound on p is 0.8 / 0.81 = 0.988
        (0.3, 0.3, True),  # 0.4 / 0.49 = 0.816
        (0.9, 0.3, False),
        (0.5, 0.45, False),  # 0.1 / 0.3025 = 0.331
        (0.2, 0.45, True),
        (0.2, 0.6, False),  # distortion above 1/2: never
        (0.3, 4.0, False),
    ],
)
def test_simulated_errors(flip: float, distortion: float, unweighted_wins: bool, generator: torch.Generator) -> None:
    n, clean_loss = 200_000, 1.7
    corrupted = torch.rand(n, generator=generator) < flip
    loss = torch.where(corrupted, clean_loss * distortion, clean_loss)
    weight = debias_weight(torch.tensor(flip), torch.tensor(clean_loss), torch.tensor(clean_loss * distortion))
    difference = (loss - clean_loss) ** 2 - (weight * loss - clean_loss) ** 2
    # Four standard errors away from a tie, on the side the proposition says.
    significance = difference.mean() / difference.std() * n**0.5
    assert (significance < -4) if unweighted_wins else (significance > 4)
    assert bool(unweighted_is_closer(torch.tensor(flip), torch.tensor(distortion))) is unweighted_wins
