"""A strategy is one file: it is found by itself, and says what it needs and why it picked a row."""

from pathlib import Path

import pytest

from understudy.acquisition import strategies
from understudy.acquisition.strategies import STRATEGIES
from understudy.acquisition.strategy import Strategy


def test_every_file_is_a_strategy() -> None:
    files = {path.stem for path in Path(strategies.__file__).parent.glob("*.py")} - {"__init__"}
    assert set(STRATEGIES) == files


@pytest.mark.parametrize("name", STRATEGIES)
def test_needs_are_arrays_that_select_takes(name: str) -> None:
    strategy = STRATEGIES[name]
    assert isinstance(strategy, Strategy)
    assert set(strategy.needs) <= {"probs", "hidden", "probs_ema", "hidden_ema"}
