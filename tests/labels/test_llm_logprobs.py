"""Token log-probabilities as class probabilities: worked by hand, and against a sum over all continuations."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import understudy as us
from understudy.labels.answer_labels import TokenReader, spread

NAMES = {"negative": 0, "neutral": 1, "positive": 2}


def position(written: str, chances: dict[str, float]) -> dict[str, Any]:
    listed = [{"token": token, "logprob": math.log(chance)} for token, chance in chances.items() if token != written]
    own = {"token": written, "logprob": math.log(chances[written])}
    return own | {"top_logprobs": [own, *listed]}


HAND = [
    position("ne", {"ne": 0.6, " pos": 0.2, "Pos": 0.1, "The": 0.04}),
    position("gative", {"gative": 0.75, "utral": 0.2, "ws": 0.03}),
]


def read(names: dict[str, int], tokens: Any, text: str, label: int, start: int = 0) -> dict[int, float] | None:
    found = TokenReader(names).masses(tokens, text, start, label)
    return None if found is None else {number: round(mass, 9) for number, mass in sorted(found.items())}


def test_the_example_of_the_docstring() -> None:
    assert read(NAMES, HAND, "negative", 0) == {0: 0.45, 1: 0.12, 2: 0.3}
    indices, probs, tail, outside = spread([{0: 0.45, 1: 0.12, 2: 0.3}], 3)
    assert indices.tolist() == [[0, 2, 1]]
    np.testing.assert_allclose(probs, [[0.45 / 0.87, 0.3 / 0.87, 0.12 / 0.87]])
    np.testing.assert_allclose([*tail, *outside], [0, 0.13])


def test_several_tokens_of_one_class_and_several_classes_of_one_token() -> None:
    tokens = [position(" Pos", {" Pos": 0.4, "pos": 0.2, "POSITIVE": 0.1, "n": 0.15, "neg": 0.05, "neutral.": 0.01})]
    # "n" was not written and begins two classes: the tail.
    assert read(NAMES, tokens, " Pos", 2, 1) == {0: 0.05, 1: 0.01, 2: 0.7}


def test_words_before_the_name_are_a_condition() -> None:
    tokens = [position(word, {word: 0.1}) for word in ("The", " answer", " is", ":")]
    tokens += [position(" positive", {" positive": 0.7, " negative": 0.2, " neither": 0.1})]
    assert read(NAMES, tokens, "The answer is: positive", 2, 15) == {0: 0.2, 2: 0.7}


def test_structured_answers_are_read_where_the_value_begins() -> None:
    tokens = [position(piece, {piece: 0.99}) for piece in ('{"', "label", '":')]
    tokens += [position(' "pos', {' "pos': 0.6, ' "neg': 0.3, " null": 0.05}), position('"}', {'"}': 1.0})]
    assert read({"neg": 0, "pos": 1}, tokens, '{"label": "pos"}', 1, 11) == {0: 0.3, 1: 0.6}


def test_a_name_that_begins_another() -> None:
    names = {"spam": 0, "spam advert": 1, "ham": 2}
    first = position("spam", {"spam": 0.8, "ham": 0.15})
    assert read(names, [first], "spam", 0) == {0: 0.8, 2: 0.15}
    stopped = [first, position(".", {".": 0.5, " advert": 0.3, " adv": 0.1})]
    assert read(names, stopped, "spam.", 0) == {0: 0.4, 1: 0.32, 2: 0.15}
    longer = [first, position(" advert", {" advert": 0.9, "!": 0.1})]
    assert read(names, longer, "spam advert", 1) == {0: 0.08, 1: 0.72, 2: 0.15}
    digits = {"1": 0, "10": 1}
    assert read(digits, [position("10", {"10": 0.5, "2": 0.2})], "10", 1) == {1: 0.5}


def test_spelling_with_hyphens_and_case() -> None:
    names = {"very good": 0, "very bad": 1}
    tokens = [position("Very", {"Very": 0.9}), position("-", {"-": 0.8, "_": 0.1}), position("Bad", {"Bad": 0.5})]
    assert read(names, tokens, "Very-Bad", 1) == {1: 0.36}


def test_aliases_count_for_their_class() -> None:
    tokens = [position("good", {"good": 0.5, "pos": 0.25, "bad": 0.2})]
    assert read({"neg": 0, "pos": 1, "good": 1, "bad": 0}, tokens, "good", 1) == {0: 0.2, 1: 0.75}


def test_practically_never() -> None:
    for never in (-9999.0, -math.inf, -1e300):
        tokens = [{"token": "pos", "logprob": 0.0, "top_logprobs": [{"token": "neg", "logprob": never}]}]
        assert read({"neg": 0, "pos": 1}, tokens, "pos", 1) == {1: 1.0}


def test_without_alternatives_there_is_the_written_token() -> None:
    assert read(NAMES, [{"token": "positive", "logprob": math.log(0.9)}], "positive", 2) == {2: 0.9}


@pytest.mark.parametrize(
    "tokens",
    [
        None, [], {}, "pos", [None], ["pos"], [{"token": "pos"}], [{"token": 3, "logprob": -1}],
        [{"token": "pos", "logprob": None}], [{"token": "pos", "logprob": "−1"}], [{"token": "pos", "logprob": 0.5}],
        [{"token": "pos", "logprob": math.nan}], [{"token": "pos", "logprob": True}],
        [{"token": "pos", "logprob": -1, "top_logprobs": 3}], [{"token": "pos", "logprob": -1, "top_logprobs": [3]}],
        [{"token": "pos", "logprob": -1, "top_logprobs": [{"token": None, "logprob": -1}]}],
        [{"token": "pos", "logprob": -0.1, "top_logprobs": [{"token": "neg", "logprob": -0.1}]}],
        [{"token": "po", "logprob": -0.1}, {"token": "st", "logprob": -0.1}],
    ],
)  # fmt: skip
def test_broken_or_foreign_log_probabilities_are_not_used(tokens: Any) -> None:
    assert read({"neg": 0, "pos": 1}, tokens, "pos", 1) is None


def test_the_tail_goes_to_classes_that_were_not_seen() -> None:
    """By hand: four classes. Row 0: tail 0.1 for two. Row 1: 0.4 is more than two classes below 0.1 can hold."""
    indices, probs, tail, outside = spread([{0: 0.6, 1: 0.3}, {3: 0.5, 2: 0.1}, {1: 0.2}], 4)
    np.testing.assert_allclose(probs, [[0.6, 0.3], [0.5 / 0.8, 0.1 / 0.8], [0.25, 0]])
    np.testing.assert_allclose(tail, [0.1, 0.2 / 0.8, 0.75])
    np.testing.assert_allclose(outside, [0.1, 0.4, 0.8])
    assert indices.tolist() == [[0, 1], [3, 2], [1, -1]]


@given(st.lists(st.dictionaries(st.integers(0, 4), st.floats(1e-30, 1), min_size=1), min_size=1, max_size=8))
def test_every_spread_is_a_distribution_that_labels_accept(rows: list[dict[int, float]]) -> None:
    masses = [{c: m / max(1.0, sum(row.values())) for c, m in row.items()} for row in rows]
    indices, probs, tail, _ = spread(masses, 5)
    np.testing.assert_allclose(probs.sum(1) + tail, 1)
    labels = us.TopK(indices, probs.astype(np.float32), 5, tail.astype(np.float32))
    assert bool(labels.labelled().all())


def test_against_the_sum_over_all_answers() -> None:
    """A model of two tokens whose every answer is known: where nothing is cut from the lists, masses are exact."""
    rng = np.random.default_rng(0)
    first, second = ["ne", "po", "x"], ["gative", "utral", "sitive", "y"]
    p = rng.dirichlet(np.ones(3))
    q = {token: rng.dirichlet(np.ones(4)) for token in first}
    answers = {a + b: p[i] * q[a][j] for (i, a), (j, b) in itertools.product(enumerate(first), enumerate(second))}
    tokens = [
        position("ne", dict(zip(first, p, strict=True))),
        position("gative", dict(zip(second, q["ne"], strict=True))),
    ]
    found = TokenReader(NAMES).masses(tokens, "negative", 0, 0)
    assert found is not None
    np.testing.assert_allclose(found[0], answers["negative"])
    np.testing.assert_allclose(found[1], answers["neutral"])
    # "po" can only become positive: all that begins so.
    np.testing.assert_allclose(found[2], sum(chance for text, chance in answers.items() if text.startswith("po")))
