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
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from understudy.errors import UnderstudyError
from understudy.labels.forms import Hard, Labels, Soft, TopK
from understudy.labels.llm import FORMS, answer_matching
from understudy.labels.llm.answer_matching import AnswerMatcher
from understudy.labels.llm.lines import LONGEST_LINE, Reply, UnusableError, answer_in, read_line
from understudy.labels.llm.logprobs import TokenReader, spread
from understudy.store.arrow import Array
from understudy.store.files import local_path

# Share of the ids with equally many answers from which on these are votes.
_ON_PURPOSE = 0.9


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
        # Numbers and their texts are alike.
        row_of = {str(name): row for row, name in enumerate(self.ids.tolist())}
        rows = torch.tensor([row_of.get(str(name), -1) for name in np.asarray(ids).tolist()], dtype=torch.long)
        return self.labels.take(rows.clamp(min=0)).without(rows < 0)


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
    if form not in FORMS:
        raise UnderstudyError(f"form={form!r} is unknown; use one of {', '.join(FORMS)}")
    match = AnswerMatcher(classes, aliases)
    reader = TokenReader(match.surfaces)
    report = answer_matching.AnswerReport()
    answers: list[_Answer] = []
    for where, line in _lines([files] if isinstance(files, str | Path) else files):
        replies = _replies(line)
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


def _replies(line: bytes) -> list[Reply | UnusableError]:
    try:
        return read_line(line)
    except UnusableError as error:
        return [error]


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
    value, start = (reply.text, 0) if field is None and "{" not in reply.text else answer_in(reply.text, field)
    match = matcher(value, cut=reply.cut)
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
