"""Labels from files of LLM answers, with a report that counts every line.

    answers = us.read_answers("batch_output.jsonl", classes=["neg", "pos"])
    print(answers.report)
    answers.ids, answers.labels               # us.TopK with log-probabilities, us.Hard without
    us.Pool(x, answers.aligned(pool_ids))     # in the order of the pool, rows without an answer unlabelled

Every line is read by itself. Where one id has several usable answers of the same class, the first counts (the first
with log-probabilities, where these are used) and the others are *repeated*; with different classes, none counts and all
are *conflicting*. Ids 5 and "5" are one id.

Where rows have several answers on purpose, every answer is a vote, and the label is the votes' shares (``form``
"shares"; "auto" takes it where a line holds several choices, as with ``n=5``, and where at least nine ids in ten have
the same number of answers, two or more, and some differ). Answers that name no class do not vote.

Token log-probabilities become class probabilities, with an explicit tail.

*Reading.* Begin at the token in which the answer names its class. Every alternative listed there (and the token itself)
is put behind what was written of the name so far, and belongs to a class if that class alone still fits: the text is
the beginning of its name (" Pos", "pos"), or its name and then something that is no letter or digit ("positive."). Its
probability is added to that class. If the token that was written fits several classes ("ne" of negative and neutral),
the reading goes on with the next token, all probabilities there times that of the path so far; otherwise it ends. An
answer that ends while a longer name was still possible ("spam" of "spam" and "spam advert") gives the path to the class
it named. Alternatives that fit no class, or several and were not written, and whatever was not listed, are the tail:
1 − Σ masses. Words before the name ("The answer is") are a condition: their own probabilities do not enter.

*An example*, classes negative, neutral, positive. First token "ne" 0.6; listed besides: " pos" 0.2, "Pos" 0.1, "The"
0.04. "ne" fits two classes and was written: go on. Next token "gative" 0.75, listed besides: "utral" 0.2, "ws" 0.03.

    positive 0.2 + 0.1 = 0.3     negative 0.6 · 0.75 = 0.45     neutral 0.6 · 0.2 = 0.12     tail 0.13

*From masses to a label* (``spread``). The tail is what the classes that were not seen share, but none of them can have
more than the least class that was; what is left over belongs to no class and is divided out. With m the masses seen, u
the number of classes not seen: t = min(1 − Σ m, u · min m), everything divided by Σ m + t. All classes seen (as above):
u = 0, so 0.3, 0.45 and 0.12 are divided by 0.87.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import exp
from pathlib import Path
from typing import Any

import numpy as np
import torch

from understudy.errors import UnderstudyError
from understudy.labels import ANSWER_FORMS, answer_matching
from understudy.labels.answer_lines import LONGEST_LINE, Reply, UnusableError, class_in, read_line
from understudy.labels.answer_matching import JUNK, AnswerMatcher
from understudy.labels.forms import Hard, Labels, Soft, TopK, aligned
from understudy.store.arrow import Array
from understudy.store.files import local_path

# Share of the ids with equally many answers from which on these are votes.
_ON_PURPOSE = 0.9
# Log-probabilities come rounded.
_OVER_ONE = 1e-3
_CACHE = 1 << 17
_CACHED_LENGTH = 100
_NONE, _SEVERAL = -1, -2
_GAP = re.compile(r"(?<=\w)[\s_-]+")
_WORD = re.compile(r"[^\W_]")


@dataclass(frozen=True)
class Answers:
    """``ids`` and ``labels`` of the answers that could be used, in the order of the file."""

    ids: Array
    labels: Labels
    classes: tuple[str, ...]
    report: answer_matching.AnswerReport

    def __len__(self) -> int:
        return len(self.ids)

    def aligned(self, ids: Any) -> Labels:
        """Labels for these ids, in their order; none where an id has no answer."""
        if not len(self):
            return Hard(np.full(len(ids), -1), classes=len(self.classes))
        return aligned(self.labels, self.ids, ids)


@dataclass(slots=True)
class _Answer:
    id: str | int
    label: int
    how: str
    masses: dict[int, float] | None
    where: str
    text: str

    @property
    def used(self) -> bool:
        return self.how in answer_matching.USED


class TokenReader:
    """``surfaces``: names and aliases with their class numbers."""

    def __init__(self, surfaces: Mapping[str, int]) -> None:
        self._names = [(_key(name), number) for name, number in surfaces.items()]
        self._cached = lru_cache(_CACHE)(self._class_of)

    def masses(self, tokens: Any, text: str, start: int, label: int) -> dict[int, float] | None:
        """Probability seen per class; None where the log-probabilities are absent, broken or of another text."""
        begun = _begin(tokens, text, start)
        if begun is None:
            return None
        first, lead = begun
        masses: dict[int, float] = {}
        so_far, path = "", 1.0
        for entry in tokens[first:]:
            alternatives = _alternatives(entry)
            if alternatives is None:
                return None
            written, onward = entry["token"], 0.0
            for token, chance in alternatives:
                text = so_far + token.removeprefix(lead)
                fits = (self._cached if len(text) <= _CACHED_LENGTH else self._class_of)(text)
                if fits >= 0:
                    masses[fits] = masses.get(fits, 0.0) + path * chance
                elif fits == _SEVERAL and token == written:
                    onward += path * chance
            if not onward:
                break
            so_far, path, lead = so_far + written.removeprefix(lead), onward, ""
        else:
            masses[label] = masses.get(label, 0.0) + path
        seen = {number: mass for number, mass in masses.items() if mass > 0}
        # The token that was written must have counted for the class that was read.
        return seen if label in seen else None

    def _class_of(self, token: str) -> int:
        """The class a text alone fits; below 0 where there is none, or several."""
        text = _key(token)
        fitting = [(name, number) for name, number in self._names if text and _fits(name, text)]
        longest = max((len(name) for name, _ in fitting), default=0)
        # "spam adv" is on its way to "spam advert", not "spam" and something more.
        classes = {number for name, number in fitting if len(name) == longest or not _WORD.search(text[len(name) :])}
        return _NONE if not classes else classes.pop() if len(classes) == 1 else _SEVERAL


def _fits(name: str, text: str) -> bool:
    return name.startswith(text) or (text.startswith(name) and not text[len(name)].isalnum())


def _key(text: str) -> str:
    return _GAP.sub(" ", unicodedata.normalize("NFKC", text).casefold().lstrip(JUNK))


def _begin(tokens: Any, text: str, start: int) -> tuple[int, str] | None:
    """The number of the token the name begins in, and what of that token stands before the name."""
    if not isinstance(tokens, list):
        return None
    try:
        whole = "".join([entry["token"] for entry in tokens])
    except (TypeError, KeyError, IndexError):
        return None
    # Some services strip the text but not the tokens, or list the end-of-text token.
    before, there, after = whole.partition(text)
    if not there or before.strip() or after[:1].isalnum():
        return None
    begins = len(before) + start
    end = 0
    for number, entry in enumerate(tokens):
        end += len(entry["token"])
        if end > begins:
            return number, whole[end - len(entry["token"]) : begins]
    return None


def _alternatives(entry: Any) -> list[tuple[str, float]] | None:
    """Tokens and their probabilities, the written token included; None where a number cannot be one."""
    try:
        # e^−9999, as services write "practically never", and e^−∞ are 0. Two tokens that read alike are two tokens.
        listed = [(other["token"], exp(other["logprob"])) for other in entry.get("top_logprobs") or ()]
        if not any(token == entry["token"] for token, _ in listed):
            listed.append((entry["token"], exp(entry["logprob"])))
        # False for NaN too.
        sound = sum([chance for _, chance in listed]) <= 1 + _OVER_ONE and all(
            type(token) is str for token, _ in listed
        )
        return listed if sound else None
    except (TypeError, KeyError, IndexError, OverflowError, AttributeError):
        return None


def read_answers(
    files: str | Path | Sequence[str | Path],
    classes: Sequence[str],
    *,
    aliases: Mapping[str, str] | None = None,
    field: str | None = None,
    form: str = "auto",
) -> Answers:
    """Labels from JSONL files of answers.

    ``aliases``: other names of a class. ``field``: which entry of a structured answer holds the class. ``form``:
    "hard" (with a confidence where every answer has log-probabilities), "topk" or "probs" (answers without
    log-probabilities are left out), "shares" (each answer of an id is a vote), or "auto": shares if rows have several
    answers each, else topk if at least half of the usable answers have log-probabilities, else hard.
    """
    if form not in ANSWER_FORMS:
        raise UnderstudyError(f"form={form!r} is unknown; use one of {', '.join(ANSWER_FORMS)}")
    match = AnswerMatcher(classes, aliases)
    reader = TokenReader(match.surfaces)
    report = answer_matching.AnswerReport()
    answers: list[_Answer] = []
    for where, line in _lines([files] if isinstance(files, str | Path) else files):
        try:
            replies = read_line(line)
        except UnusableError as error:
            replies = [error]
        report.lines += len(replies)
        report.unit = "answers" if len(replies) > 1 else report.unit
        for reply in replies:
            if isinstance(reply, UnusableError):
                report.count(reply.category, where, reply.detail)
            else:
                answers.append(_classify(reply, match, reader, field, where))
    form = _resolve_form(form, answers, several=report.unit == "answers")
    soft = form in ("topk", "probs")
    if form != "shares":
        _leave_out(answers, soft=soft)
    for answer in answers:
        report.count(answer.how, answer.where, answer.text)
    assert report.counts.total() == report.lines
    used = [answer for answer in answers if answer.used]
    if form == "shares":
        report.notes.append("every answer is a vote; a label is the shares of its row's votes")
        names, labels = _shares(used, len(match.names))
        return Answers(names, labels, match.names, report)
    if report.counts[answer_matching.CONFLICT]:
        report.notes.append("several answers for one id on purpose? form 'shares' takes them as votes")
    labels = _soft(used, len(match.names), form, report) if soft else _hard(used, len(match.names))
    return Answers(_ids(used), labels, match.names, report)


def _resolve_form(form: str, answers: list[_Answer], *, several: bool) -> str:
    """The form that "auto" stands for; ``several``: a line held more than one choice."""
    if form != "auto":
        return form
    usable = [answer for answer in answers if answer.used]
    times = Counter(Counter(str(answer.id) for answer in usable).values())
    usual, rows = times.most_common(1)[0] if times else (1, 0)
    # A few repeated ids are a mistake; nearly all of them, equally often, are votes.
    differ = len({(str(answer.id), answer.label) for answer in usable}) > times.total()
    if several or (usual > 1 and rows >= _ON_PURPOSE * times.total() and differ):
        return "shares"
    with_masses = sum(answer.masses is not None for answer in answers)
    return "topk" if 0 < len(usable) <= 2 * with_masses else "hard"


def _lines(files: Iterable[str | Path]) -> Iterator[tuple[str, bytes]]:
    for path in map(local_path, files):
        try:
            with path.open("rb") as file:
                number = 0
                while line := file.readline(LONGEST_LINE + 1):
                    number += 1
                    rest = line
                    while len(rest) > LONGEST_LINE and not rest.endswith(b"\n"):
                        rest = file.readline(LONGEST_LINE + 1)
                    yield f"{path.name}:{number}", line
        except OSError as error:
            raise UnderstudyError(f"cannot read {path}: {error.strerror}; check the path") from error


def _classify(reply: Reply, matcher: AnswerMatcher, reader: TokenReader, field: str | None, where: str) -> _Answer:
    match, start = class_in(reply, matcher, field)
    masses = None
    if match.label >= 0 and reply.tokens and start is not None:
        masses = reader.masses(reply.tokens, reply.text, start + match.start, match.label)
    return _Answer(reply.id, match.label, match.how, masses, where, reply.text[:200])


def _leave_out(answers: list[_Answer], *, soft: bool) -> None:
    """All but one answer per id, and those without log-probabilities where these are used."""
    chosen: dict[str, _Answer] = {}
    conflicting = set()
    for answer in answers:
        if answer.used:
            name = str(answer.id)
            known = chosen.setdefault(name, answer)
            if known.label != answer.label:
                conflicting.add(name)
            elif soft and known.masses is None:
                chosen[name] = answer
    for answer in answers:
        if answer.used and str(answer.id) in conflicting:
            answer.how = answer_matching.CONFLICT
        elif answer.used and chosen[str(answer.id)] is not answer:
            answer.how = answer_matching.REPEATED
        elif answer.used and soft and answer.masses is None:
            answer.how = answer_matching.NO_LOGPROBS


def _soft(used: list[_Answer], classes: int, form: str, report: answer_matching.AnswerReport) -> Labels:
    indices, probs, tail, outside = spread([answer.masses or {} for answer in used], classes)
    if len(used):
        report.notes.append(f"probability outside the classes: mean {outside.mean():.2%}, largest {outside.max():.1%}")
        unlikely = int((indices[:, 0] != np.array([answer.label for answer in used])).sum())
        if unlikely:
            report.notes.append(f"{unlikely:,} answers do not name their most probable class (temperature above 0)")
    labels = TopK(indices, probs.astype(np.float32), classes, tail.astype(np.float32))
    return Soft(labels.dense(torch.arange(len(used)), classes)) if form == "probs" else labels


def _hard(used: list[_Answer], classes: int) -> Labels:
    named = np.array([answer.label for answer in used], dtype=np.int64)
    masses = [answer.masses for answer in used if answer.masses is not None]
    if not used or len(masses) < len(used):
        return Hard(named, classes=classes)
    indices, probs, _, _ = spread(masses, classes)
    return Hard(named, probs[indices == named[:, None]], classes=classes)


def _shares(used: list[_Answer], classes: int) -> tuple[Array, Labels]:
    """Each id once, with the shares of its votes; a class without a vote has none."""
    row_of: dict[str, int] = {}
    rows = np.array([row_of.setdefault(str(answer.id), len(row_of)) for answer in used], dtype=np.int64)
    first = np.unique(rows, return_index=True)[1]
    votes = np.zeros((len(row_of), classes))
    np.add.at(votes, (rows, np.array([answer.label for answer in used], dtype=np.int64)), 1)
    depth = max(1, int((votes > 0).sum(1).max(initial=0)))
    order = np.argsort(-votes, axis=1, kind="stable")[:, :depth]
    named = np.take_along_axis(votes, order, 1)
    probs = (named / np.maximum(votes.sum(1, keepdims=True), 1)).astype(np.float32)
    labels = TopK(np.where(named > 0, order, -1), probs, classes, np.zeros(len(probs), dtype=np.float32))
    return _ids([used[row] for row in first]), labels


def _ids(used: list[_Answer]) -> Array:
    names = [answer.id for answer in used]
    if names and all(isinstance(name, int) and -(1 << 63) <= name < 1 << 63 for name in names):
        return np.array(names, dtype=np.int64)
    return np.array([str(name) for name in names], dtype=np.str_)


def spread(masses: list[dict[int, float]], classes: int) -> tuple[Array, Array, Array, Array]:
    """Masses of N answers as ``indices (N, K)``, ``probs (N, K)``, ``tail (N,)`` and the mass not seen ``(N,)``.

    Rows are in descending order of probability and padded with index −1.
    """
    depth = max(map(len, masses), default=1)
    indices, seen = np.full((len(masses), depth), -1), np.zeros((len(masses), depth))
    lengths = np.array([len(row) for row in masses], dtype=np.int64)
    rows = np.repeat(np.arange(len(masses)), lengths)
    ranks = np.arange(len(rows)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    indices[rows, ranks] = [number for row in masses for number in row]
    seen[rows, ranks] = [mass for row in masses for mass in row.values()]
    outside = np.clip(1 - seen.sum(1), 0, 1)
    least = np.where(indices >= 0, seen, np.inf).min(1, initial=np.inf)
    tail = np.minimum(outside, (classes - lengths) * least)
    total = seen.sum(1) + tail
    order = np.argsort(-seen, axis=1, kind="stable")
    probs = np.take_along_axis(seen, order, 1) / total[:, None]
    return np.take_along_axis(indices, order, 1), probs, tail / total, outside
