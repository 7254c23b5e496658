"""Claims are decided from paired differences over seeds; the numbers here are worked by hand."""

from dataclasses import replace

import pytest
from experiments.claims import (
    NO,
    OPEN,
    VOID,
    WITHIN,
    YES,
    Claim,
    Needs,
    Verdict,
    decide,
    larger_lead,
    needing,
    with_effect,
)
from experiments.needs import fair, memorised, useful_teacher, weighs
from experiments.sweep import Cell

from understudy.errors import UnderstudyError


def cells(row: str, values: list[float], column: str = "100") -> list[Cell]:
    return [Cell(row, column, seed, value, (value - 0.2, value)) for seed, value in enumerate(values)]


BASE = cells("Vanilla", [0.70, 0.60, 0.80])


def one(claim: Claim, found: list[Cell]) -> Verdict:
    return decide([claim], found)[0]


def test_differences_are_paired_by_seed() -> None:
    """Differences 0.028, 0.030, 0.032: mean 0.03, s.e. 0.002 / √3 = 0.0011547; t = 25.98, p = 0.001478, five times
    0.00739; the 99% half width is 9.92484 · 0.0011547 = 0.01146."""
    verdict = one(Claim("", ["SLaM"], ["Vanilla"]), BASE + cells("SLaM", [0.728, 0.63, 0.832]))
    assert verdict.answer == YES and verdict.seeds == 3
    assert verdict.difference.mean == pytest.approx(0.03)
    assert verdict.difference.high - verdict.difference.mean == pytest.approx(0.01146, abs=1e-5)
    assert verdict.p == pytest.approx(0.00739, abs=1e-5)


def test_the_other_side_is_no_and_what_three_seeds_do_not_show_is_open() -> None:
    assert one(Claim("", ["SLaM"], ["Vanilla"]), BASE + cells("SLaM", [0.672, 0.57, 0.768])).answer == NO
    # 0.02, 0.03, 0.04 has p = 0.035, which a single look would have called a yes.
    assert one(Claim("", ["SLaM"], ["Vanilla"]), BASE + cells("SLaM", [0.72, 0.63, 0.84])).answer == OPEN


def test_a_limit_must_be_exceeded() -> None:
    found = BASE + cells("SLaM", [0.728, 0.63, 0.832])
    assert one(Claim("", ["SLaM"], ["Vanilla"], beyond=0.01), found).answer == YES
    assert one(Claim("", ["SLaM"], ["Vanilla"], beyond=0.025), found).answer == OPEN
    assert one(Claim("", ["SLaM"], ["Vanilla"], beyond=0.06), found).answer == NO
    assert one(Claim("", ["Vanilla"], beyond=0.01), cells("Vanilla", [0.70, 0.705, 0.71])).answer == YES


def test_what_lies_within_half_of_the_papers_effect_is_an_answer() -> None:
    """Differences ±0.001 and 0: s.e. 0.001 / √3 = 0.000577; within ±0.01: t = 17.3, one-sided p = 0.00166, times
    five 0.0083. Within ±0.002: t = 3.46, p = 0.037, times five 0.19."""
    found = BASE + cells("SLaM", [0.701, 0.60, 0.799])
    verdict = one(Claim("", ["SLaM"], ["Vanilla"], effect=2.0), found)
    assert verdict.answer == WITHIN and verdict.shown == "no difference larger than 1"
    assert one(Claim("", ["SLaM"], ["Vanilla"], effect=0.4), found).answer == OPEN
    assert one(Claim("", ["SLaM"], ["Vanilla"], effect=0.4, delta=1.0), found).answer == WITHIN
    assert one(Claim("", ["SLaM"], ["Vanilla"]), found).answer == OPEN, "without an effect there is no δ"


def test_a_yes_of_one_claim_alone_is_not_one_among_many() -> None:
    """p = 0.00739 alone; times seven it is 0.0517. Claims that are not counted do not count here either."""
    found = BASE + cells("SLaM", [0.728, 0.63, 0.832]) + cells("Other", [0.71, 0.60, 0.79])
    claim, noise = Claim("", ["SLaM"], ["Vanilla"]), Claim("", ["Other"], ["Vanilla"])
    assert decide([claim, *6 * [noise]], found)[0].answer == OPEN
    assert decide([claim, *5 * [noise]], found)[0].answer == YES
    repeated = Claim("", ["Other"], ["Vanilla"], same_as="slam_table1")
    built = Claim("", ["Vanilla"], structural="it is a share")
    verdicts = decide([claim, *5 * [noise], repeated, built], found)
    assert verdicts[0].answer == YES
    assert [verdict.answer for verdict in verdicts[-2:]] == ["", ""]
    assert [verdict.shown for verdict in verdicts[-2:]] == ["see slam_table1", "by construction"]


def test_a_claim_whose_precondition_fails_is_void() -> None:
    found = BASE + cells("SLaM", [0.728, 0.63, 0.832]) + cells("Teacher", [0.5, 0.6, 0.7])
    claim = Claim("", ["SLaM"], ["Vanilla"])
    (met,) = needing([claim], Needs("the teacher is above 55%", "Teacher", at_least=0.55))
    (failed,) = needing([claim], Needs("teacher minus Vanilla", "Teacher", "Vanilla", at_least=0.0))
    (unknown,) = needing([claim], Needs("Gold only", "Gold only", at_least=0.5))
    assert one(met, found).answer == YES
    assert one(failed, found).answer == VOID
    assert one(failed, found).shown == "void: teacher minus Vanilla -10.0%"
    assert one(unknown, found).shown == "void: Gold only not measured"
    assert one(replace(claim, withdrawn="another net"), found).shown == "void: another net"
    # No verdict that another one's correction would count: alone it is a yes, among seven it was open.
    assert decide([claim, *6 * [failed]], found)[0].answer == YES


def test_what_speaks_of_something_else_is_shown_and_not_counted() -> None:
    verdict = one(Claim("", ["SLaM"], ["Vanilla"], aside="a control"), BASE + cells("SLaM", [0.728, 0.63, 0.832]))
    assert verdict.answer == "" and verdict.shown == "not counted"


def test_the_shared_preconditions() -> None:
    """Each just met and just missed."""

    def holds(needs: Needs, **rows: float) -> bool:
        return not needs.unmet([Cell(row, "40%", 0, value) for row, value in rows.items()])

    def share(name: str, fact: str, value: float) -> Cell:
        return Cell(name, "40%", 0, 0.5, facts={fact: value})

    assert holds(useful_teacher(10), Teacher=0.21) and not holds(useful_teacher(10), Teacher=0.19)
    assert holds(useful_teacher(2), Teacher=0.61) and not holds(useful_teacher(2), Teacher=0.59)
    repeated = {"Baseline: given labels repeated on the training rows": 0.86}
    assert holds(memorised("40%"), **repeated) and not holds(memorised("60%"), **repeated)
    assert not holds(memorised("40%"), **dict.fromkeys(repeated, 0.84))
    fact = "debias.share_weight_1"
    assert not weighs("Weighted").unmet([share("Weighted", fact, 0.89)])
    assert weighs("Weighted").unmet([share("Weighted", fact, 0.91)])
    assert weighs("Weighted").unmet([Cell("Weighted", "40%", 0, 0.5)])
    (level,) = fair("UPS")
    assert holds(level, UPS=0.496, Vanilla=0.5) and not holds(level, UPS=0.494, Vanilla=0.5)
    assert fair("VID") and not fair("Taylor-CE")


def test_one_seed_decides_nothing() -> None:
    assert one(Claim("", ["SLaM"], ["Vanilla"]), BASE[:1] + cells("SLaM", [0.99])).answer == OPEN


def test_columns_are_averaged_or_named() -> None:
    found = [*BASE, *cells("Vanilla", [0.9, 0.9, 0.9], "500"), *cells("SLaM", [0.75, 0.66, 0.84]),
             *cells("SLaM", [0.9, 0.9, 0.9], "500")]  # fmt: skip
    both = one(Claim("", ["SLaM"], ["Vanilla"]), found)
    assert both.difference.mean == pytest.approx(0.025)
    # Leads of 0.05 at 100 labels and 0 at 500.
    shrinks = one(larger_lead("", "SLaM", "Vanilla", at="100", than_at="500"), found)
    assert shrinks.difference.mean == pytest.approx(0.05)


def test_the_papers_effect_is_read_from_its_table() -> None:
    """(66.82 + 75.01) / 2 − (63.53 + 73.23) / 2 = 2.535."""
    printed = {"SLaM": ["66.82 ± 0.61", "75.01"], "Vanilla": ["63.53 ± 0.29", "73.23"]}
    assert with_effect(Claim("", ["SLaM"], ["Vanilla"]), printed).effect == pytest.approx(2.535, abs=0.006)
    assert with_effect(Claim("", ["SLaM"], ["Vanilla"], effect=1.0), printed).effect == 1.0
    assert with_effect(Claim("", ["Vanilla"], ["SLaM"]), printed).effect is None
    assert with_effect(Claim("", ["SLaM@5"], ["Vanilla@5"]), printed, ["7", "9"]).effect is None
    assert with_effect(Claim("", ["SLaM@9"], ["Vanilla@9"]), printed, ["7", "9"]).effect == pytest.approx(1.78)
    # 66.82 − 63.53 − (75.01 − 73.23) = 1.51.
    shrinks = larger_lead("", "SLaM", "Vanilla", at="7", than_at="9")
    assert with_effect(shrinks, printed, ["7", "9"]).effect == pytest.approx(1.51)


def test_measures_of_the_curve() -> None:
    falling = [Cell("a", "x", seed, 0.5, (0.4, 0.8, 0.7, 0.6, 0.5 + seed / 100)) for seed in range(3)]
    flat = [Cell("b", "x", seed, 0.5, 5 * (0.5,), selected=0.6) for seed in range(3)]

    def gap(measure: str) -> float:
        return one(Claim("", ["a"], ["b"], measure=measure), falling + flat).difference.mean

    # Best three in a row 0.7 (0.8, 0.7, 0.6), last three 0.6 + seed / 300.
    assert gap("drop") == pytest.approx(0.1 - 0.01 / 3)
    assert gap("average") == pytest.approx(0.102)
    assert gap("early") == pytest.approx(-0.1)
    assert gap("last_3") == pytest.approx(0.1 + 0.01 / 3)
    assert gap("selected") == pytest.approx(-0.1), "0.5 where none was chosen, against 0.6"


def test_a_claim_about_what_was_not_measured_is_an_error() -> None:
    with pytest.raises(UnderstudyError, match="'SLaM@7', which was not measured"):
        one(Claim("", ["SLaM@7"], ["Vanilla"]), BASE)
    with pytest.raises(UnderstudyError, match="were not followed"):
        one(Claim("", ["a"], measure="drop"), [Cell("a", "x", 0, 0.5)])
