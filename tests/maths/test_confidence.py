"""Margins and entropies against numbers worked by hand."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from understudy.maths.confidence import entropy, grouped_entropy, margin, topk_margin

ROW = torch.tensor([[0.2, 0.5, 0.3]], dtype=torch.float64)


def test_margin_is_best_minus_second() -> None:
    assert margin(ROW).item() == pytest.approx(0.2, abs=1e-15)


@pytest.mark.parametrize(("k", "value"), [(1, 0.2), (2, 0.6), (3, 1.0), (5, 1.0)])
def test_topk_margin(k: int, value: float) -> None:
    # k = 2: 0.5 + 0.3 − 0.2; from k = C on the missing entry counts as 0.
    assert topk_margin(ROW, k).item() == pytest.approx(value, abs=1e-15)


def test_entropy() -> None:
    rows = torch.tensor([[0.5, 0.25, 0.25], [1.0, 0.0, 0.0]])
    assert entropy(rows).tolist() == pytest.approx([1.5 * math.log(2), 0.0], abs=1e-15)


def test_grouped_entropy_merges_the_favourites() -> None:
    expected = -(0.8 * math.log(0.8) + 0.2 * math.log(0.2))
    assert grouped_entropy(ROW, 2).item() == pytest.approx(expected, abs=1e-15)
    assert grouped_entropy(ROW, 3).item() == pytest.approx(0.0, abs=1e-15)


def test_neighbouring_confidences_stay_apart() -> None:
    # In float32 these two margins would be one number.
    rows = torch.tensor([[0.9, 0.1], [0.9 + 1e-10, 0.1 - 1e-10]], dtype=torch.float64)
    for measure in (margin, entropy):
        values = measure(rows)
        assert values.dtype == torch.float64
        assert values[0] != values[1]
    assert margin(rows.half()).dtype == torch.float64


@given(st.lists(st.floats(0.01, 1), min_size=2, max_size=7))
def test_one_favourite_is_no_group(entries: list[float]) -> None:
    probs = torch.tensor([entries], dtype=torch.float64)
    probs /= probs.sum()
    assert grouped_entropy(probs, 1).item() == pytest.approx(entropy(probs).item(), abs=1e-12)
    assert topk_margin(probs, 1).item() == margin(probs).item()
    assert 0 <= entropy(probs).item() <= math.log(len(entries)) + 1e-12
