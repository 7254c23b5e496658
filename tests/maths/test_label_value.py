"""What an answer is worth: numbers by hand, and plans against every other plan of a few rows."""

from itertools import product

import pytest
import torch
from torch import Tensor

from understudy.maths.label_value import (
    answered_together,
    error_after,
    purity,
    purity_after,
    regret,
    steps_by_worth,
    taken,
)


def best_spending(gain: Tensor, price: Tensor, budget: float) -> Tensor:
    return taken(steps_by_worth(gain, price), len(gain), budget)


def symmetric(right: float, classes: int = 2) -> Tensor:
    wrong = (1 - right) / (classes - 1)
    return torch.full((classes, classes), wrong, dtype=torch.float64).fill_diagonal_(right)


def drawn(rows: int, classes: int, seed: int = 0) -> Tensor:
    return torch.rand(rows, classes, generator=torch.Generator().manual_seed(seed)).double().softmax(1)


def test_by_hand() -> None:
    even, sure = torch.tensor([[0.5, 0.5]]).double(), torch.tensor([[1.0, 0.0]]).double()
    assert purity(torch.cat([even, sure])).tolist() == [0, 1]
    # An answer right four times in five leaves (0.8, 0.2) either way: (1 − 2·0.2)² = 0.36.
    assert purity_after(even, symmetric(0.8)).item() == pytest.approx(0.36)
    assert error_after(even, symmetric(0.8)).item() == pytest.approx(0.2)
    # At (0.9, 0.1) it turns no label: 0.9·0.2 > 0.1·0.8. Purity still gains:
    # "0" leaves (0.72, 0.02) / 0.74, "1" leaves (0.18, 0.08) / 0.26, so Σ = 0.5188/0.74 + 0.0388/0.26.
    likely = torch.tensor([[0.9, 0.1]]).double()
    assert error_after(likely, symmetric(0.8)).item() == pytest.approx(0.1)
    assert purity_after(likely, symmetric(0.8)).item() == pytest.approx(2 * (0.5188 / 0.74 + 0.0388 / 0.26) - 1)
    assert purity(likely).item() == pytest.approx(0.64)


@pytest.mark.parametrize("classes", [2, 3, 7])
def test_purity_of_even_errors_is_angluin_and_lairds(classes: int) -> None:
    for error in (0.0, 0.1, 0.3):
        worth = purity(symmetric(1 - error, classes)[:1]).item()
        assert worth == pytest.approx((1 - error * classes / (classes - 1)) ** 2)


def test_against_bayes_rule_row_by_row() -> None:
    probs, confusion = drawn(20, 3), drawn(3, 4, seed=1)
    for row, after, wrong in zip(probs, purity_after(probs, confusion), error_after(probs, confusion), strict=True):
        chances = [sum(row[c] * confusion[c, said] for c in range(3)) for said in range(4)]
        left = [torch.stack([row[c] * confusion[c, said] / chances[said] for c in range(3)]) for said in range(4)]
        assert after == pytest.approx(sum(q * (3 * (p**2).sum() - 1) / 2 for q, p in zip(chances, left, strict=True)))
        assert wrong == pytest.approx(sum(q * (1 - p.max()) for q, p in zip(chances, left, strict=True)))


def test_answers_only_help_and_a_source_that_knows_nothing_gives_nothing() -> None:
    probs = drawn(200, 4)
    assert bool((purity_after(probs, drawn(4, 5, seed=2)) >= purity(probs) - 1e-12).all())
    torch.testing.assert_close(purity_after(probs, torch.full((4, 4), 0.25).double()), purity(probs))
    torch.testing.assert_close(purity_after(probs, torch.eye(4).double()), torch.ones(200).double())
    assert purity_after(probs[:0], torch.eye(4).double()).shape == (0,)


def test_two_sources_are_one_after_the_other() -> None:
    probs, one, other = drawn(10, 3), drawn(3, 3, seed=3), drawn(3, 2, seed=4)
    expected = torch.zeros(10).double()
    for said in range(3):
        joint = probs * one[:, said]
        expected += joint.sum(1) * purity_after(joint / joint.sum(1, keepdim=True), other)
    torch.testing.assert_close(purity_after(probs, answered_together(one, other)), expected)


def test_regret_is_what_the_brier_score_loses() -> None:
    probs, believed, true = drawn(6, 3), drawn(3, 3, seed=5), drawn(3, 3, seed=6)
    assert regret(probs, true, true).abs().max() < 1e-12
    for row, lost in zip(probs, regret(probs, believed, true), strict=True):
        total = 0.0
        for truth, said in product(range(3), range(3)):
            chance = float(row[truth] * true[truth, said])
            for confusion, sign in ((believed, 1), (true, -1)):
                p = row * confusion[:, said] / (row * confusion[:, said]).sum()
                total += sign * chance * float((p - torch.eye(3)[truth]).square().sum())
        assert float(lost) == pytest.approx(1.5 * total)


def value(gain: Tensor, choice: list[int]) -> float:
    return sum(float(gain[row, option]) for row, option in enumerate(choice) if option >= 0)


@pytest.mark.parametrize("seed", range(5))
def test_no_plan_has_more_than_the_last_step_would_bring(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    gain, price = torch.rand(5, 3, generator=generator).double(), torch.tensor([1.0, 3.0, 4.0]).double()
    for budget in (2.0, 5.0, 9.0):
        mine = best_spending(gain, price, budget).tolist()
        assert sum(float(price[option]) for option in mine if option >= 0) <= budget
        best = max(
            value(gain, list(choice))
            for choice in product(range(-1, 3), repeat=5)
            if sum(float(price[option]) for option in choice if option >= 0) <= budget
        )
        largest = float(steps_by_worth(gain, price).gain.max())
        assert best - largest <= value(gain, mine) <= best + 1e-12


def test_the_cheap_first_then_the_better_one() -> None:
    """Two rows, a cheap source and a dear one: the hull's steps in the order of gain per price."""
    gain, price = torch.tensor([[0.3, 0.9], [0.2, 0.3]]).double(), torch.tensor([1.0, 10.0]).double()
    assert best_spending(gain, price, 1).tolist() == [0, -1]
    assert best_spending(gain, price, 2).tolist() == [0, 0]
    assert best_spending(gain, price, 11).tolist() == [1, 0]
    # What is left after a step that does not fit (0.8 for 10) goes to one that does: 0.9 for 10, then 0.1 for 2.
    better, cheap = torch.tensor([[0.05, 0.9], [0.01, 0.8], [0.1, 0.1]]).double(), torch.tensor([2.0, 10.0]).double()
    assert best_spending(better, cheap, 13.0).tolist() == [1, -1, 0]
    assert best_spending(gain, price, 0.5).tolist() == [-1, -1]
    assert best_spending(gain[:0], price, 5).tolist() == []


def test_what_is_free_is_taken_and_what_brings_nothing_is_not() -> None:
    gain = torch.tensor([[0.3, 0.4, 0.9], [0.3, 0.0, -torch.inf], [-torch.inf, -0.1, 0.0]]).double()
    price = torch.tensor([0.0, 0.0, 5.0]).double()
    assert best_spending(gain, price, 0).tolist() == [1, 0, -1]
    assert best_spending(gain, price, 5).tolist() == [2, 0, -1]


def test_ten_times_a_tenth_is_one() -> None:
    assert best_spending(torch.ones(10, 1).double(), torch.tensor([0.1], dtype=torch.float64), 1.0).tolist() == [0] * 10
