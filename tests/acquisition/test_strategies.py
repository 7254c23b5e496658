"""A strategy is one file: it is found by itself, and says what it needs and why it picked a row."""

from pathlib import Path

import pytest
import torch

from understudy.acquisition import strategies
from understudy.acquisition.select import select, selection_probability
from understudy.acquisition.strategies import STRATEGIES
from understudy.acquisition.strategy import Strategy
from understudy.errors import UnderstudyError


def test_every_file_is_a_strategy() -> None:
    files = {path.stem for path in Path(strategies.__file__).parent.glob("*.py")} - {"__init__"}
    assert set(STRATEGIES) == files


@pytest.mark.parametrize("name", STRATEGIES)
def test_needs_are_arrays_that_select_takes(name: str) -> None:
    strategy = STRATEGIES[name]
    assert isinstance(strategy, Strategy)
    assert set(strategy.needs) <= {"probs", "hidden", "probs_ema", "hidden_ema"}


def test_proportional_draws_with_the_stated_probabilities() -> None:
    # √(1 − Σ p²) of (½, ½) is √½, of (1, 0) is 0: the weights are ½ + ½ · 2 and ½, and 2 draws of 3 : 1 are shared out.
    probs = torch.tensor([[0.5, 0.5], [1.0, 0.0]]).repeat(4, 1)
    found = selection_probability("proportional", 2, probs=probs)
    assert found.tolist() == pytest.approx([0.375, 0.125] * 4)
    assert float(found.min()) == pytest.approx(2 / 8 / 2), "half of a random draw's"
    counts = torch.zeros(8)
    for seed in range(2000):
        picks = select("proportional", 2, probs=probs, seed=seed)
        assert len(set(picks.tolist())) == 2
        counts[picks] += 1
    assert (counts / 2000).tolist() == pytest.approx(found.tolist(), abs=4 * (0.375 * 0.625 / 2000) ** 0.5)
    sure = selection_probability("proportional", 2, probs=probs[1::2])
    assert sure.tolist() == pytest.approx([0.5] * 4)


def test_probabilities_are_those_of_the_rows_that_may_be_picked() -> None:
    probs = torch.rand(30, 3, generator=torch.Generator().manual_seed(0)).softmax(1)
    for strategy in ("random", "proportional"):
        found = selection_probability(strategy, 6, probs=probs, labelled=[0, 29])
        assert found[[0, 29]].tolist() == [0, 0] and float(found.sum()) == pytest.approx(6)
    assert selection_probability("random", 6, size=30)[0] == pytest.approx(0.2)
    with pytest.raises(UnderstudyError, match="margin picks rows with probabilities that are not known"):
        selection_probability("margin", 6, probs=probs)
    with pytest.raises(UnderstudyError, match="ask for 0 to 28"):
        selection_probability("random", 29, probs=probs, labelled=[0, 29])
