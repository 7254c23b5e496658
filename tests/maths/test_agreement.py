"""Krippendorff's alpha: the paper's number, pairs counted one by one, and what it means at the ends."""

from itertools import permutations

import pytest
import torch

from understudy.maths.annotators import krippendorff_alpha

GAP = -1
# Krippendorff (2011), section C: four observers, twelve units, categories 1 to 5, gaps.
PAPER = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, GAP, GAP, GAP],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, GAP, 3],
    [GAP, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, GAP],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, GAP],
]


def test_the_papers_number() -> None:
    votes = torch.tensor(PAPER).T
    assert krippendorff_alpha(votes.where(votes < 0, votes - 1), 5) == pytest.approx(0.743, abs=5e-4)


def test_a_number_by_hand() -> None:
    # Rows aa, ab, bb: of 6 answers n_a = n_b = 3. Pairs that disagree: 2 of the row ab, D_o = 2/6.
    # Two answers drawn at random differ with 2 · 3 · 3 / (6 · 5) = 3/5; alpha = 1 − (1/3) / (3/5) = 4/9.
    assert krippendorff_alpha(torch.tensor([[0, 0], [0, 1], [1, 1]]), 2) == pytest.approx(4 / 9)


def brute_force(rows: list[list[int]]) -> float | None:
    """One less the weighed share of pairs within rows that differ, over that of all pairs of answers."""
    units = [[label for label in row if label >= 0] for row in rows]
    units = [unit for unit in units if len(unit) > 1]
    answers = [label for unit in units for label in unit]
    observed = sum(sum(a != b for a, b in permutations(unit, 2)) / (len(unit) - 1) for unit in units)
    pairs = len(answers) * (len(answers) - 1)
    expected = sum(a != b for a, b in permutations(answers, 2)) / pairs if pairs else 0
    return 1 - observed / len(answers) / expected if expected else None


@pytest.mark.parametrize("seed", range(20))
def test_against_pairs_counted_one_by_one(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    votes = torch.randint(-1, 2 + seed % 4, (7, 2 + seed % 3), generator=generator)
    expected, alpha = brute_force(votes.tolist()), krippendorff_alpha(votes, 6)
    assert (alpha is None) == (expected is None)
    if expected is not None:
        assert alpha == pytest.approx(expected)


def test_the_ends() -> None:
    assert krippendorff_alpha(torch.tensor([[0, 0], [1, 1], [2, 2]]), 3) == 1
    random = torch.randint(0, 3, (20_000, 2), generator=torch.Generator().manual_seed(0))
    assert abs(krippendorff_alpha(random, 3) or 1) < 0.02
    assert krippendorff_alpha(torch.tensor([[0, 0], [0, 0]]), 2) is None
    assert krippendorff_alpha(torch.tensor([[0, -1], [-1, 1]]), 2) is None
