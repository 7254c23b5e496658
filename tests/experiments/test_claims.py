"""Claims are decided from paired intervals; the numbers here are worked by hand."""

import pytest
from experiments.claims import NO, UNCLEAR, YES, Claim, decide, larger_lead
from experiments.sweep import Cell

from understudy.errors import UnderstudyError


def cells(row: str, values: list[float], column: str = "100") -> list[Cell]:
    return [Cell(row, column, seed, value, (value - 0.2, value)) for seed, value in enumerate(values)]


BASE = cells("Vanilla", [0.70, 0.60, 0.80])


def test_differences_are_paired_by_seed() -> None:
    """Differences 0.02, 0.03, 0.04: mean 0.03, sd 0.01, half width 4.3027 · 0.01 / √3 = 0.02484."""
    verdict = decide(Claim("", ["SLaM"], ["Vanilla"]), BASE + cells("SLaM", [0.72, 0.63, 0.84]))
    assert verdict.answer == YES
    assert verdict.difference.mean == pytest.approx(0.03)
    assert verdict.difference.high - verdict.difference.mean == pytest.approx(0.024841, abs=1e-5)


def test_the_other_side_is_no_and_a_wide_interval_is_unclear() -> None:
    assert decide(Claim("", ["SLaM"], ["Vanilla"]), BASE + cells("SLaM", [0.68, 0.57, 0.76])).answer == NO
    # 0.00, 0.03, 0.03: mean 0.02, half width 4.3027 · 0.01732 / √3 = 0.043.
    assert decide(Claim("", ["SLaM"], ["Vanilla"]), BASE + cells("SLaM", [0.70, 0.63, 0.83])).answer == UNCLEAR


def test_a_limit_must_be_exceeded() -> None:
    found = BASE + cells("SLaM", [0.72, 0.63, 0.84])
    assert decide(Claim("", ["SLaM"], ["Vanilla"], beyond=0.004), found).answer == YES
    assert decide(Claim("", ["SLaM"], ["Vanilla"], beyond=0.01), found).answer == UNCLEAR
    assert decide(Claim("", ["SLaM"], ["Vanilla"], beyond=0.06), found).answer == NO
    assert decide(Claim("", ["Vanilla"], beyond=0.4), BASE).answer == YES


def test_one_seed_decides_nothing() -> None:
    assert decide(Claim("", ["SLaM"], ["Vanilla"]), BASE[:1] + cells("SLaM", [0.99])).answer == UNCLEAR


def test_columns_are_averaged_or_named() -> None:
    found = [*BASE, *cells("Vanilla", [0.9, 0.9, 0.9], "500"), *cells("SLaM", [0.75, 0.66, 0.84]),
             *cells("SLaM", [0.9, 0.9, 0.9], "500")]  # fmt: skip
    both = decide(Claim("", ["SLaM"], ["Vanilla"]), found)
    assert both.difference.mean == pytest.approx(0.025)
    # Leads of 0.05 at 100 labels and 0 at 500.
    shrinks = decide(larger_lead("", "SLaM", "Vanilla", at="100", than_at="500"), found)
    assert shrinks.difference.mean == pytest.approx(0.05)


def test_measures_of_the_curve() -> None:
    falling = [Cell("a", "x", seed, 0.5, (0.4, 0.8, 0.7, 0.5 + seed / 100)) for seed in range(3)]
    flat = [Cell("b", "x", seed, 0.5, (0.5, 0.5, 0.5, 0.5)) for seed in range(3)]
    assert decide(Claim("", ["a"], ["b"], measure="drop"), falling + flat).difference.mean == pytest.approx(0.29)
    assert decide(Claim("", ["a"], ["b"], measure="average"), falling + flat).difference.mean == pytest.approx(0.1025)
    assert decide(Claim("", ["a"], ["b"], measure="early"), falling + flat).difference.mean == pytest.approx(-0.1)


def test_a_claim_about_what_was_not_measured_is_an_error() -> None:
    with pytest.raises(UnderstudyError, match="'SLaM@7', which was not measured"):
        decide(Claim("", ["SLaM@7"], ["Vanilla"]), BASE)
    with pytest.raises(UnderstudyError, match="were not followed"):
        decide(Claim("", ["a"], measure="drop"), [Cell("a", "x", 0, 0.5)])
