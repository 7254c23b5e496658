"""The reports' texts: a line is a sentence whatever names it holds, and what the templates name exists."""

import numpy as np
import pytest

import understudy as us
from understudy.labels.answer_matching import NOT_USED
from understudy.report import templates


def test_names_with_line_breaks_and_markup_stay_in_their_sentence() -> None:
    truth, named = np.repeat([0, 1, 1], [30, 30, 20]), np.repeat([0, 1, 0], [30, 30, 20])
    gold = us.Gold(np.zeros((80, 1)), truth, teacher=named)
    plain, odd = (us.audit(gold, class_names=names) for names in (["a", "b"], ["<i>a: {{ 1 }}\n", "b | \u2028b"]))
    assert len(odd.verdict) == len(plain.verdict) and len(odd.expectations) == len(plain.expectations)
    assert any("20 gold rows b | \u2028b→<i>a: {{ 1 }}  vs 0" in sentence for sentence in odd.verdict)
    forward = {each.method: each for each in odd.expectations}["forward"]
    assert forward.outlook == "likely" and "<i>a: {{ 1 }} " in forward.reason


def test_every_cure_is_of_a_kind_of_answer() -> None:
    cures = templates._templates().get_template("ask.txt.jinja").module.CURES  # type: ignore[attr-defined]
    assert cures and set(cures) <= set(NOT_USED)


@pytest.mark.parametrize(("value", "shown", "up"), [(7, "7", "7"), (231, "230", "240"), (1_260, "1,300", "1,300")])
def test_two_digits_are_enough_to_plan_by(value: float, shown: str, up: str) -> None:
    assert (templates.two_digits(value), templates.two_digits(value, up=True)) == (shown, up)
