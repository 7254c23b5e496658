"""What is read off sorted probabilities for every k at once, against the one-k functions and by hand."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from understudy.maths.confidence import grouped_entropy, topk_margin
from understudy.maths.ranking import Ranked, grouped_certainties, hits, rank, topk_margins


def test_worked_by_hand() -> None:
    ranked = rank(torch.tensor([[0.2, 0.5, 0.3]], dtype=torch.float64))
    assert ranked.order.tolist() == [[1, 2, 0]]
    assert topk_margins(ranked)[0].tolist() == pytest.approx([0.2, 0.6])
    assert hits(ranked, torch.tensor([2])).tolist() == [[False, True]]
    assert hits(ranked, torch.tensor([0])).tolist() == [[False, False]]
    assert hits(ranked, torch.tensor([1])).tolist() == [[True, True]]


def test_listed_classes_only() -> None:
    """Two of four classes listed; the other two hold 0.05 each."""
    ranked = Ranked(
        torch.tensor([[0.6, 0.3]], dtype=torch.float64), torch.tensor([[3, 1]]), torch.tensor([0.05]).double(), 4
    )
    assert ranked.depths == 2
    assert topk_margins(ranked)[0].tolist() == pytest.approx([0.3, 0.85], abs=1e-7)
    unlisted = 2 * 0.05 * math.log(0.05)
    one = 0.6 * math.log(0.6) + 0.3 * math.log(0.3) + unlisted
    two = 0.9 * math.log(0.9) + unlisted
    assert grouped_certainties(ranked)[0].tolist() == pytest.approx([one, two], abs=1e-6)


def test_ties_keep_class_order() -> None:
    assert rank(torch.tensor([[0.25, 0.25, 0.25, 0.25]])).order.tolist() == [[0, 1, 2, 3]]


@given(st.lists(st.integers(0, 9), min_size=2, max_size=8), st.data())
def test_every_k_at_once_equals_one_at_a_time(counts: list[int], data: st.DataObject) -> None:
    probs = torch.tensor([counts], dtype=torch.float64) + 0.1
    probs /= probs.sum()
    classes = len(counts)
    label = data.draw(st.integers(0, classes - 1))
    ranked = rank(probs)
    margins, certainties = topk_margins(ranked), grouped_certainties(ranked)
    assert margins.shape == certainties.shape == (1, classes - 1)
    for k in range(1, classes):
        assert margins[0, k - 1].item() == pytest.approx(topk_margin(probs, k).item(), abs=1e-12)
        assert certainties[0, k - 1].item() == pytest.approx(-grouped_entropy(probs, k).item(), abs=1e-12)
        better = int((probs[0] > probs[0, label]).sum()) + int((probs[0, :label] == probs[0, label]).sum())
        assert hits(ranked, torch.tensor([label]))[0, k - 1].item() == (better < k)
