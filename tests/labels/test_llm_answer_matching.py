"""Which class an answer means: the ladder from the exact name to a typing error, and what gets no label."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.errors import UnderstudyError
from understudy.labels import answer_matching
from understudy.labels.answer_lines import answer_in
from understudy.labels.answer_matching import AnswerMatcher, Match, edit_distance

SENTIMENT = AnswerMatcher(["negative", "neutral", "positive"], {"good": "positive", "n/a": "neutral"})
SPAM = AnswerMatcher(["spam", "not spam"])
NUMBERS = AnswerMatcher(["1", "2", "10"])


@pytest.mark.parametrize(
    ("text", "label", "how", "start"),
    [
        ("positive", 2, answer_matching.EXACT, 0),
        (" Positive.\n", 2, answer_matching.NORMALISED, 1),
        ("**“NEGATIVE”**", 0, answer_matching.NORMALISED, 3),
        ("ｎeutral", 1, answer_matching.NORMALISED, 0),
        ("good", 2, answer_matching.ALIAS, 0),
        ("N/A", 1, answer_matching.ALIAS, 0),
        ("The answer is: Positive.", 2, answer_matching.MENTIONED, 15),
        ("Label - positive (very positive)", 2, answer_matching.MENTIONED, 8),
        ("postive", 2, answer_matching.NEAR, 0),
        ("psoitvie", 2, answer_matching.NEAR, 0),
        ("netural!", 1, answer_matching.NEAR, 0),
    ],
)
def test_an_answer_that_means_a_class(text: str, label: int, how: str, start: int) -> None:
    found = SENTIMENT(text)
    assert (found.label, found.how, found.start) == (label, how, start)


@pytest.mark.parametrize(
    ("text", "how"),
    [
        ("banana", answer_matching.UNKNOWN),
        ("", answer_matching.EMPTY),
        (" \n", answer_matching.EMPTY),
        ("positive or negative", answer_matching.AMBIGUOUS),
        ("It is not positive", answer_matching.AMBIGUOUS),
        ("It isn't positive.", answer_matching.AMBIGUOUS),
        ("nonpositive", answer_matching.UNKNOWN),
        ("I'm sorry, but I can't say whether it is positive.", answer_matching.REFUSED),
        ("As an AI, I do not judge", answer_matching.REFUSED),
        ("x" * 20_000 + " positive", answer_matching.UNKNOWN),
    ],
)
def test_an_answer_that_does_not(text: str, how: str) -> None:
    found = SENTIMENT(text)
    assert (found.label, found.how) == (-1, how)


def test_a_longer_name_hides_those_inside_it() -> None:
    assert SPAM("This is not spam.").label == 1
    assert SPAM("NOT_SPAM").label == 1 and SPAM("not-spam").label == 1
    assert SPAM("This is spam!").label == 0
    assert SPAM("spam, not spam").label == -1


TOXIC = AnswerMatcher(["toxic", "safe", "hate"])
STATED = [
    "The author's tone is toxic",
    "toxic",
    "Toxic.",
    "The answer is: toxic",
    "The answer is toxic.",
    "Label: toxic",
    "label - toxic (very toxic)",
    "**Label:** Toxic",
    "Sentiment: toxic",
    "This text is toxic",
    "This is clearly toxic.",
    "I would classify this as toxic.",
    "I'd say toxic",
    "The text is toxic because it insults people.",
    "Toxic. The author insults the reader.",
    "toxic, since it insults people",
    "It insults people, so it is toxic.",
    "The author insults people. Therefore: toxic",
    "Category: Toxic\n\nExplanation: an insult of a group",
    "<label>toxic</label>",
    "toxic</s>",
    "toxic<|im_end|>",
    "\\boxed{toxic}",
    "Final answer: **toxic**",
    'The correct label is "toxic".',
    "toxic (confidence 0.93)",
    "toxic - an insult",
    "Toxic — an insult",
    "The tone of this message is very toxic",
    "What is the class? toxic",
    "The most likely category is toxic",
    "It's toxic.",
    "It belongs to the category toxic",
    "Classification result: toxic",
    "{toxic}",
    "✅ toxic",
    "Great!! Toxic",
]
DENIED = [
    "post-toxic",
    "toxic is a label",
    "[ ] toxic",
    "all but toxic",
    "calling it toxic is a stretch",
    "Non-toxic",
    "non toxic",
    "Non-toxic.",
    "non\u2011toxic",
    "non–toxic",
    "non_toxic",
    "It is non-toxic",
    "un-toxic",
    "anti-toxic",
    "in-toxic",
    "dis-toxic",
    "in toxic",
    "toxic-free",
    "toxic-like",
    "far from toxic",
    "anything but toxic",
    "toxic? I doubt it",
    "Is it toxic?",
    "the opposite of toxic",
    "hardly toxic",
    "barely toxic",
    "not toxic",
    "It isn't toxic",
    "toxic is wrong",
    "toxic: false",
    "toxic: 0.02",
    "0% toxic",
    "toxic (0)",
    "less toxic",
    "rather than toxic",
    "instead of toxic",
    "nothing toxic",
    "free of toxic content",
    "no sign of toxic language",
    "I'd rule out toxic",
    "it would be toxic if it were longer",
    "could be toxic",
    "maybe toxic",
    "allegedly toxic",
    "so-called toxic",
    "The text mentions the word toxic",
    "everything except toxic",
    "fails to be toxic",
    "I refuse to call it toxic",
    "nicht toxic",
    "pas toxic",
    "no es toxic",
    "!toxic",
    "~~toxic~~",
    "≠ toxic",
    "¬toxic",
    "❌ toxic",
    "lacks toxic",
    "toxic, I doubt",
    "wrong label: toxic",
    "pseudo-toxic",
    "semi-toxic",
    "toxic or safe",
    "neither toxic",
    "impossible to say it is toxic",
    "by no means toxic",
    "toxic would be an exaggeration",
    "almost toxic",
    "toxic - no",
    "non(toxic)",
    "non\u00adtoxic",
    "non\u200btoxic",
    "un safe",
    "un-safe",
    "anti-hate",
    "Some say toxic",
]


@pytest.mark.parametrize("text", STATED)
def test_a_clause_of_plain_words_states_its_class(text: str) -> None:
    assert TOXIC(text).label == 0


@pytest.mark.parametrize("text", DENIED)
def test_a_class_that_is_denied_doubted_or_merely_mentioned_is_ambiguous(text: str) -> None:
    assert TOXIC(text) == Match(-1, answer_matching.AMBIGUOUS)


def test_a_class_whose_own_name_negates() -> None:
    match = AnswerMatcher(["toxic", "non-toxic", "Not spam", "spam"])
    for text in ("Non-toxic", "It is non toxic.", "non_toxic", "NON-TOXIC!", "This text is non-toxic", "nontoxic"):
        assert match(text).label == 1, text
    assert [match(text).label for text in ("not-spam", "It is not spam.", "spam", "toxic")] == [2, 2, 3, 0]
    assert [match(text).label for text in ("not toxic", "not non-toxic", "non-spam", "un-toxic")] == [-1] * 4


def test_numbers_are_whole() -> None:
    assert [NUMBERS(text).label for text in ("1", " 10.", "Rating: 2")] == [0, 2, 1]
    assert [NUMBERS(text).label for text in ("-1", "1.5", "100", "12", "1 or 2", "3")] == [-1] * 6
    signed = AnswerMatcher(["1", "-1"])
    assert signed("-1").label == 1 and signed(" -1 ").label == 1 and signed("It is -1.").label == 1


def test_near_misses_keep_the_first_letter_and_the_digits() -> None:
    typical = AnswerMatcher(["typical", "unusual"])
    assert typical("atypical").label == -1 and typical("typicl").label == 0
    numbered = AnswerMatcher(["class 1", "class 2"])
    assert numbered("class 10").label == -1 and numbered("clas 1").label == 0 and numbered("class 3").label == -1
    # Equally far from two classes; too short a name.
    assert AnswerMatcher(["bold", "cold", "gold"])("fold").label == -1
    assert AnswerMatcher(["cart", "card"])("care").how == answer_matching.AMBIGUOUS
    assert AnswerMatcher(["yes", "no"])("yas").label == -1


def test_classes_that_look_alike_need_their_exact_names() -> None:
    alike = AnswerMatcher(["C", "C++", "c"])
    assert alike("C").label == 0 and alike("c").label == 2 and alike("C++").label == 1 and alike(" c++.").label == 1
    assert alike(" C ").label == -1


def test_an_answer_that_was_cut_off() -> None:
    cut = [SENTIMENT(text, cut=True) for text in ("positive", "Pos", "ne", "neg", "The", "The positive", "")]
    assert [found.label for found in cut] == [2, 2, -1, 0, -1, -1, -1]
    assert [cut[i].how for i in (1, 2, 5, 6)] == [
        *(answer_matching.PREFIX, answer_matching.TRUNCATED, answer_matching.TRUNCATED, answer_matching.EMPTY)
    ]
    assert AnswerMatcher(["theft", "fraud"])("The", cut=True).label == -1
    # A whole name that another class begins with may have been that class.
    months = AnswerMatcher([str(month) for month in range(1, 13)])
    assert [months(text, cut=True).label for text in ("1", " 1\n", "2", "10")] == [-1, -1, 1, 9]
    assert months("1").label == 0 and months("1", cut=True).how == answer_matching.TRUNCATED
    assert AnswerMatcher(["class 1", "class 10"])("Class_1", cut=True).label == -1
    assert AnswerMatcher(["pos", "positive"])("pos", cut=True).label == -1
    assert AnswerMatcher(["pos", "neg"], {"positive": "pos"})("pos", cut=True).label == 0
    # Not cut off, a beginning is no answer.
    assert SENTIMENT("Pos").label == -1


@pytest.mark.parametrize(
    ("names", "aliases", "message"),
    [
        (["a"], {}, "two classes or more"),
        (["a", "a"], {}, "each once"),
        (["a", " "], {}, "blank"),
        (["a", "b\x1b[2J"], {}, "control"),
        ("ab", {}, "list"),
        (["a", "b"], {"x": "c"}, "not among"),
        (["a", "b"], {"a": "b"}, "another class"),
    ],
)
def test_unusable_names_and_aliases_are_errors(names: list[str], aliases: dict[str, str], message: str) -> None:
    with pytest.raises(UnderstudyError, match=message):
        AnswerMatcher(names, aliases)


def test_edit_distance_by_hand() -> None:
    cases = {("", "abc"): 3, ("kitten", "sitting"): 3, ("ab", "ba"): 1, ("abcd", "acbd"): 1, ("ca", "abc"): 3}
    assert {pair: edit_distance(*pair) for pair in cases} == cases


@given(st.text(max_size=300), st.booleans())
def test_any_text_gets_a_verdict(text: str, cut: bool) -> None:
    found = SENTIMENT(text, cut=cut)
    assert found.how in (answer_matching.USED if found.label >= 0 else answer_matching.NOT_USED)
    assert 0 <= found.start <= len(text)


def test_hostile_texts_take_no_time() -> None:
    begun = time.process_time()
    for text in ("1." * 5000 + "a", "!" * 10_000, "not " * 2500, "positive " * 1000, "'" * 9999 + "a"):
        SENTIMENT(text)
        NUMBERS(text)
    assert time.process_time() - begun < 5


@pytest.mark.parametrize(
    ("text", "field", "expected"),
    [
        ('{"label": "pos"}', None, ("pos", 11)),
        ('{"reason": "a \\"label\\": neg", "label": "pos"}', None, ("pos", 41)),
        ('```json\n{"label": "pos"}\n```', None, ("pos", 19)),
        ('{"result": {"sentiment": "pos"}}', None, ("pos", 26)),
        ('{"sentiment": "pos", "score": 0.9}', None, ("pos", 15)),
        ('{"a": "x", "b": "pos"}', "b", ("pos", 17)),
        ('{"a": "x", "b": "y"}', None, ("", None)),
        ('{"a": "x", "b": "y"}', "c", ("", None)),
        ('{"label": 3}', None, ("3", 10)),
        ('{"label": true}', None, ("true", 10)),
        ('{"label": ["pos"]}', None, ("pos", 12)),
        ('{"label": ["pos", "neg"]}', None, ("(several values)", None)),
        ('{"label": null}', None, ("", None)),
        ('{"label": "caf\\u00e9"}', None, ("café", None)),
        ('{"label": "po', None, ('{"label": "po', 0)),
        ("pos {sic}", None, ("pos {sic}", 0)),
    ],
)
def test_structured_answers(text: str, field: str | None, expected: tuple[str, int | None]) -> None:
    assert answer_in(text, field) == expected
