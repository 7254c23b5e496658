"""What is read off sorted probabilities for every k at once, against the one-k functions and by hand."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from understudy.maths.accuracy_curves import Leading, certainties_in_turn, leading, margins_in_turn, positions
from understudy.maths.confidence import grouped_entropy, topk_margin


def test_worked_by_hand() -> None:
    probs = torch.tensor([[0.2, 0.5, 0.3]], dtype=torch.float64)
    ranked = leading(probs, 3)
    assert ranked.probs.tolist() == [[0.5, 0.3, 0.2]]
    assert [margin.item() for margin in margins_in_turn(ranked)] == pytest.approx([0.2, 0.6])
    assert [positions(probs, torch.tensor([label])).item() for label in range(3)] == [2, 0, 1]


def test_listed_classes_only() -> None:
    """Two of four classes listed; the other two hold 0.05 each."""
    ranked = Leading(torch.tensor([[0.6, 0.3]], dtype=torch.float64), torch.tensor([0.05]).double(), 4)
    assert ranked.depths == 2
    assert [margin.item() for margin in margins_in_turn(ranked)] == pytest.approx([0.3, 0.85], abs=1e-7)
    unlisted = 2 * 0.05 * math.log(0.05)
    one = 0.6 * math.log(0.6) + 0.3 * math.log(0.3) + unlisted
    two = 0.9 * math.log(0.9) + unlisted
    assert [certainty.item() for certainty in certainties_in_turn(ranked)] == pytest.approx([one, two], abs=1e-6)


def test_ties_keep_class_order() -> None:
    tied = torch.full((4, 4), 0.25)
    assert positions(tied, torch.arange(4)).tolist() == [0, 1, 2, 3]


@given(st.lists(st.integers(0, 9), min_size=2, max_size=8), st.data())
def test_every_k_at_once_equals_one_at_a_time(counts: list[int], data: st.DataObject) -> None:
    probs = torch.tensor([counts], dtype=torch.float64) + 0.1
    probs /= probs.sum()
    classes = len(counts)
    label = data.draw(st.integers(0, classes - 1))
    margins, certainties = (
        [column.item() for column in in_turn(leading(probs, classes))]
        for in_turn in (margins_in_turn, certainties_in_turn)
    )
    assert len(margins) == len(certainties) == classes - 1
    for k in range(1, classes):
        assert margins[k - 1] == pytest.approx(topk_margin(probs, k).item(), abs=1e-12)
        assert certainties[k - 1] == pytest.approx(-grouped_entropy(probs, k).item(), abs=1e-12)
    better = int((probs[0] > probs[0, label]).sum()) + int((probs[0, :label] == probs[0, label]).sum())
    assert positions(probs, torch.tensor([label])).item() == better
