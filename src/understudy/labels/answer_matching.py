"""Which class a free-text answer names, if it names one.

    match = AnswerMatcher(["neg", "pos"], aliases={"good": "pos"})
    match("The answer is: Pos.")               # Match(label=1, how="one class named in a sentence", start=15)

In this order, the first that applies: the name itself; the name but for case, surrounding quotes and punctuation,
spaces, hyphens and underscores (aliases count like names); a sentence that states one class as whole words, where a
longer name hides those inside it ("not spam" is no mention of "spam"); one typing error (two in names of 8 letters or
more) in an answer that is nothing else, the first letter and all digits being right. An answer that was cut off must be
the beginning of exactly one name, or all of it. Anything else has no label.

A clause states a class if its other words are known to be plain ("the label of this text is …"); there are too many
ways to deny or doubt ("non-toxic", "anything but pos", "nicht positiv") to list them all. Clauses without a class may
say anything but negations and doubts: reasons are free text.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from understudy.errors import UnderstudyError
from understudy.labels.class_names import checked_names
from understudy.store.console import from_report

EXACT = "exactly a class name"
NORMALISED = "other case, spaces or punctuation"
ALIAS = "an alias"
MENTIONED = "one class named in a sentence"
NEAR = "near miss (typing error)"
PREFIX = "cut off, but only one class begins so"
USED = (EXACT, NORMALISED, ALIAS, MENTIONED, NEAR, PREFIX)

UNKNOWN = "unknown answer"
AMBIGUOUS = "ambiguous answer"
EMPTY = "empty answer"
REFUSED = "refused"
TRUNCATED = "cut off (token limit)"
ERROR = "error of the service"
MALFORMED = "malformed line"
BLANK = "blank line"
NO_LOGPROBS = "no usable log-probabilities"
REPEATED = "repeated, same answer"
CONFLICT = "conflicting answers for one id"
NOT_USED = (
    *(UNKNOWN, AMBIGUOUS, EMPTY, REFUSED, TRUNCATED, ERROR),
    *(MALFORMED, BLANK, NO_LOGPROBS, REPEATED, CONFLICT),
)

# Kept of each category.
EXAMPLES = 5


@dataclass
class AnswerReport:
    """How many answers fell into each category, with examples of those that could not be used."""

    #: Answers that were read: one per line, or each of a line's several choices.
    lines: int = 0
    #: ``answers`` where a line held several choices.
    unit: str = "lines"
    counts: Counter[str] = field(default_factory=Counter)
    #: ``file:line`` and text by category; the raw text, not safe for a terminal.
    examples: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    #: ``file:line`` of every malformed line.
    malformed: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def used(self) -> int:
        return sum(self.counts[name] for name in USED)

    @property
    def rows(self) -> list[tuple[str, int]]:
        """How many answers were used, and not, by category."""
        used, not_used = (
            [(f"  {name}", self.counts[name]) for name in kind if self.counts[name]] for kind in (USED, NOT_USED)
        )
        return [("used", self.used), *used, ("not used", self.lines - self.used), *not_used, (self.unit, self.lines)]

    @property
    def first_examples(self) -> list[tuple[str, str, str]]:
        """Category, place and text of answers that were not used: one of every category before the second of any."""
        kept = [(name, self.examples[name]) for name in NOT_USED if name in self.examples and name != BLANK]
        turns = ((name, *shown[turn]) for turn in range(EXAMPLES) for name, shown in kept if turn < len(shown))
        return list(turns)[:EXAMPLES]

    def count(self, category: str, where: str, text: str) -> None:
        self.counts[category] += 1
        if category == MALFORMED:
            self.malformed.append(where)
        if category in NOT_USED:
            shown = self.examples.setdefault(category, [])
            if len(shown) < EXAMPLES:
                shown.append((where, text))

    def __str__(self) -> str:
        return "\n".join(from_report("templates").sentences("ask", "answer_report", self))


# Signs belong to numbers and to names such as C++ and are not stripped.
JUNK = " \t\r\n\f\v\u00a0\"'`´“”‘’«»„*_.,:;!?()[]{}<>|~"
_WORD = re.compile(r"(?<!\w)[+-]?\d+(?:[.,]\d+)*(?!\w)|[^\W_]+(?:['’][^\W_]+)*")
_REFUSAL = re.compile(
    r"(?:(?:i\W?m|i am) )?(?:very |so |really )?(?:sorry\b|unable to\b|not able to\b|i apologi[sz]e|i can\W?t\b"
    r"|i can ?not\b|i won\W?t\b|as an ai\b)",
    re.IGNORECASE,
)
#: Words beside a class's name in a clause that states it.
_PLAIN_WORDS = """
    a an the this that these it it's its i i'd i'll i'm i've we my your is are was be as to of for with would will
    can should must has have say think believe choose pick select assign classify classified label labels labeled
    labelled labelling tag tagged categorize categorized rate rated mark marked call go belong belongs fall falls fit
    fits under into seem seems appear appears look looks sound sounds express expresses convey conveys indicate
    indicates show shows carry carries give given answer class category classification prediction verdict result output
    response choice option name topic intent type score rating star stars sentiment tone polarity opinion attitude
    emotion mood feeling text texts sentence review message tweet comment post email mail document article headline
    passage statement ticket question query feedback input row item content writer author reviewer customer user speaker
    clearly definitely certainly very strongly overall mostly mainly primarily generally quite highly likely probably
    most correct right best final true appropriate proper main predicted here ok okay sure yes following high
    confidence certainty strong boxed json
"""
#: Words that make the class of another clause doubtful.
_DENIAL_WORDS = """
    not no never neither nor none nothing without cannot hardly barely scarcely unlikely non un anti dis far
    anything everything except doubt doubts doubtful wrong wrongly incorrect false untrue unsure uncertain unclear
    opposite contrary reverse impossible supposedly allegedly kidding joking zero 0 0.0 0,0
"""
_PLAIN, _DENIALS = frozenset(_PLAIN_WORDS.split()), frozenset(_DENIAL_WORDS.split())
# What comes after is a clause of its own; so is what follows a name in brackets, after a dash or a tag.
_REASONS = {"because", "since", "due", "so", "therefore", "thus", "hence"}
_CLAUSE = re.compile(r"[.,;!?\n…]")
_ASIDE = re.compile(r"[.,;!?\n…(<|—–]|\s-\s")
# "!pos", "~~pos~~", "≠ pos": a name that is struck out.
_STRUCK = re.compile(r"(?:^|[^\w!~])[!~]+(?=\w)|!=|<>|\[ \]|[¬≠✗✘❌☐]")
_HYPHENS = ("-", "‐", "‑", "‒", "–")
# Cut after one token, these begin a sentence and not a class name.
_OPENERS = {"the", "this", "that", "there", "it", "its", "it's", "i", "an", "answer", "based", "as", "in", "is"}
_SHORTEST_PREFIX = 2
# Longer answers are essays; reading them could take a while, and they mention every class.
_LONGEST_ANSWER = 10_000
_CACHE = 1 << 17
_CACHED_LENGTH = 200
_SEVERAL = -2
#: A word, folded, with its start and end.
_Span = tuple[str, int, int]


@dataclass(frozen=True, slots=True)
class Match:
    #: −1: none.
    label: int
    how: str
    #: Where in the answer the class is named.
    start: int = 0


class AnswerMatcher:
    """Maps an answer to a ``Match``; results are cached, as LLMs give few different answers."""

    def __init__(self, names: Sequence[str], aliases: Mapping[str, str] | None = None) -> None:
        self.names = checked_names(names, "classes", printable=True)
        self.surfaces = {name: number for number, name in enumerate(self.names)}
        for alias, name in (aliases or {}).items():
            if name not in self.names:
                raise UnderstudyError(f"alias {alias!r} stands for {name!r}, which is not among the classes")
            if not alias.strip() or self.surfaces.setdefault(alias, self.surfaces[name]) != self.surfaces[name]:
                raise UnderstudyError(f"alias {alias!r} of {name!r} is empty or names another class; choose another")
        self._trimmed: dict[str, int] = {}
        self._words: dict[tuple[str, ...], int] = {}
        for surface, number in self.surfaces.items():
            _enter(self._trimmed, _fold(surface.strip(JUNK)), number)
            _enter(self._words, _words(surface), number)
        self._longest = max(map(len, self._words), default=0)
        self._own: set[str | tuple[str, ...]] = {_fold(name.strip(JUNK)) for name in self.names}
        self._own |= {_words(name) for name in self.names}
        self._cached = lru_cache(_CACHE)(self._match)

    def __call__(self, text: str, *, cut: bool = False) -> Match:
        return (self._cached if len(text) <= _CACHED_LENGTH else self._match)(text, cut)

    def _match(self, text: str, cut: bool) -> Match:
        whole = self._whole(text) if len(text) <= _LONGEST_ANSWER else None
        if whole is not None and not (cut and self._goes_on(text, whole.label)):
            return whole
        if not text.strip():
            return Match(-1, EMPTY)
        if cut:
            return self._beginning(text)
        if len(text) > _LONGEST_ANSWER:
            return Match(-1, UNKNOWN)
        if _REFUSAL.match(text.lstrip(JUNK)[:60]):
            return Match(-1, REFUSED)
        spans = [(_fold(word[0].replace("’", "'")), *word.span()) for word in _WORD.finditer(text)]
        for how, classes in ((MENTIONED, self._stated(text, spans)), (NEAR, self._near(spans))):
            if len(classes) > 1 or _SEVERAL in classes:
                return Match(-1, AMBIGUOUS)
            for number, start in classes.items():
                return Match(number, how, start)
        return Match(-1, UNKNOWN)

    def _whole(self, text: str) -> Match | None:
        """The answer is a name and nothing else."""
        if text in self.surfaces:
            return Match(self.surfaces[text], EXACT if text in self.names else ALIAS)
        if _STRUCK.search(text):
            return None
        start = len(text) - len(text.lstrip(JUNK))
        trimmed, words = _fold(text.strip(JUNK)), _words(text)
        number = self._trimmed.get(trimmed, -1)
        if number < 0:
            number = self._words.get(words, -1)
        if number >= 0:
            own = trimmed in self._own or words in self._own
            return Match(number, NORMALISED if own else ALIAS, start)
        return None

    def _stated(self, text: str, spans: list[_Span]) -> dict[int, int]:
        """Classes, and where each is first named; several where one is denied, doubted or merely mentioned."""
        words = [word for word, _, _ in spans]
        mentioned: dict[int, int] = {}
        #: The other words of each clause, and whether it names a class.
        clauses: list[tuple[list[str], list[int]]] = [([], [])]
        index = end = 0
        named = False
        while index < len(words):
            start, lengths = spans[index][1], range(min(self._longest, len(words) - index), 0, -1)
            found = ((self._words.get(tuple(words[index : index + length])), length) for length in lengths)
            number, length = next((pair for pair in found if pair[0] is not None), (None, 1))
            reason = number is None and words[index] in _REASONS
            if reason or (_ASIDE if named else _CLAUSE).search(text, end, start):
                clauses.append(([], []))
            others, names = clauses[-1]
            if number is not None:
                mentioned.setdefault(number, start)
                names.append(number)
                # "post-pos" is another word, and "pos is a label" states nothing.
                if text[end:start] in _HYPHENS or words[index + length :][:2] == ["is", "a"]:
                    others.append("-")
            elif not reason and (others or names or words[index] not in ("and", "but")):
                others.append(words[index])
            index, end, named = index + length, spans[index + length - 1][2], number is not None
        stated = all(all(map(_is_plain, others)) if names else not _denies(others) for others, names in clauses)
        if mentioned and (not stated or _STRUCK.search(text) or "?" in text[min(mentioned.values()) :]):
            mentioned[_SEVERAL] = 0
        return mentioned

    def _near(self, spans: list[_Span]) -> dict[int, int]:
        """Classes that are one typing error away (two in long names), and where the answer starts."""
        answer = " ".join(word for word, _, _ in spans)
        close: dict[int, int] = {}
        for words, number in self._words.items():
            name = " ".join(words)
            allowed = 2 if len(name) >= 8 else 1 if len(name) >= 4 else 0
            # Without these "atypical" would be a slip for "typical", and "class 10" for "class 1".
            alike = answer[:1] == name[:1] and _digits(answer) == _digits(name)
            if alike and abs(len(answer) - len(name)) <= allowed and edit_distance(answer, name) <= allowed:
                close[number] = spans[0][1]
        return close

    def _goes_on(self, text: str, label: int) -> bool:
        """Whether another class begins with this name."""
        key, words = _fold(text.strip(JUNK)), " ".join(_words(text))
        names = [*self._trimmed.items(), *((" ".join(each), number) for each, number in self._words.items())]
        return any(number != label and name.startswith((key, words or key)) for name, number in names)

    def _beginning(self, text: str) -> Match:
        """The answer was cut off: it may be the beginning of a name."""
        key = _fold(text.strip(JUNK))
        if len(key) >= _SHORTEST_PREFIX and key not in _OPENERS:
            begins = {number for surface, number in self._trimmed.items() if surface.startswith(key)}
            if len(begins) == 1 and _SEVERAL not in begins:
                return Match(begins.pop(), PREFIX, len(text) - len(text.lstrip(JUNK)))
        return Match(-1, TRUNCATED)


def edit_distance(one: str, other: str) -> int:
    """Insertions, deletions, replacements and swaps of neighbours (each place touched once)."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        last, before, row = before, row, [i]
        for j, b in enumerate(other, 1):
            best = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (a != b))
            if i > 1 and j > 1 and a == other[j - 2] and one[i - 2] == b:
                best = min(best, last[j - 2] + 1)
            row.append(best)
    return row[-1]


def _is_plain(word: str) -> bool:
    return word.removesuffix("'s") in _PLAIN


def _denies(words: list[str]) -> bool:
    return any(word in _DENIALS or word.endswith("n't") for word in words)


def _enter(known: dict[Any, int], key: Any, number: int) -> None:
    """Two classes that are equal once normalised can only be matched by their exact names."""
    if key:
        known[key] = number if known.get(key, number) == number else _SEVERAL


def _fold(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def _words(text: str) -> tuple[str, ...]:
    return tuple(_fold(word.replace("’", "'")) for word in _WORD.findall(text))


def _digits(text: str) -> str:
    return "".join(letter for letter in text if letter.isdigit())
