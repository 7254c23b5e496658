"""Labels of the answers in a folder: read and judged line by line, then kept in a label store with a trail."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from understudy.labels.forms import Labels, Votes
from understudy.labels.llm import categories
from understudy.labels.llm.answer_labels import Answers, read_answers
from understudy.labels.llm.categories import AnswerReport
from understudy.labels.store.label_store import LabelStore
from understudy.llm.folder import AskFolder
from understudy.llm.plan import Plan
from understudy.store.arrow import Array
from understudy.store.files import digest
from understudy.store.trail import TRAIL, Trail

CURES = {
    categories.UNKNOWN: "tell the model the class names (--describe), or add an --alias for what it says",
    categories.AMBIGUOUS: "describe the classes so that one fits (--describe)",
    categories.EMPTY: "a reasoning model needs more --max-tokens",
    categories.REFUSED: "word the prompt so that labelling is plainly the task (--prompt), or ask another model",
    categories.TRUNCATED: "raise --max-tokens",
    categories.ERROR: "see the messages above; a text that is too long has to be shortened",
    categories.NO_LOGPROBS: "--form hard takes these answers too",
}
"""What helps, by kind; then ``--again`` asks about such rows once more."""


@dataclass(frozen=True)
class Labelled:
    """``labels`` of ``ids`` in their order, none where no answer could be used. ``us.Pool(x, asked.labels)``."""

    ids: Array
    labels: Labels
    classes: tuple[str, ...]
    sources: tuple[str, ...]
    reports: dict[str, AnswerReport]
    """What became of every answer, by model."""
    unanswered: int
    """Rows that at least one model has not answered yet."""
    lost: Counter[str] = field(default_factory=Counter)
    """Requests of this run that brought no answer and were repeated, by what happened."""
    requests: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost: float = 0.0
    """Of all runs into the folder; requests without an answer that may have been paid for count in full."""
    stopped: str | None = None
    """Why not everything was asked; None where it was."""

    def __len__(self) -> int:
        return len(self.ids)


def label_answers(
    folder: AskFolder, plan: Plan, ids: Sequence[Any]
) -> tuple[Labels, dict[str, AnswerReport], list[Answers]]:
    """Labels of these ids, by all that was answered so far."""
    read: list[Answers] = []
    for number in range(len(plan.sources)):
        files = [path] if (path := folder.answers(number)).exists() else []
        form = plan.form if len(plan.sources) == 1 or plan.form == "shares" else "hard"
        read.append(read_answers(files, plan.classes, aliases=plan.aliases, form=form))
    reports = {source.model: answers.report for source, answers in zip(plan.sources, read, strict=True)}
    if len(read) == 1:
        return read[0].aligned(ids), reports, read
    votes = torch.stack([_vote(answers.aligned(ids), len(plan.classes)) for answers in read], 1)
    return Votes(votes, len(plan.classes), sources=[source.model for source in plan.sources]), reports, read


def _vote(labels: Labels, classes: int) -> torch.Tensor:
    """One vote a row: the class named, or named most often; none where two are level."""
    best = labels.top1()
    if labels.ranks and len(labels):
        leading = labels.dense(torch.arange(len(labels)), classes).topk(min(2, classes), 1).values
        best = torch.where(leading[:, 0] > leading[:, 1], best, -1)
    return best


def keep(folder: AskFolder, plan: Plan, ids: Sequence[Any], labels: Labels, done: Sequence[bool]) -> int:
    """The labels of the rows that are done, into the store; the rows that are new there, into the trail."""
    rows = [row for row, is_done in enumerate(done) if is_done]
    if not rows or not bool(labels.labelled().any()):  # without a label nothing tells their form
        return 0
    names = np.asarray([ids[row] for row in rows])
    some = labels.take(torch.tensor(rows))
    source = ", ".join(f"{each.model} at {each.base_url}" for each in plan.sources)
    with LabelStore(folder.store(labels.form), plan.classes, labels.form) as store:
        new = {str(name) for name in store.missing(names).tolist()}
        store.append(names, some, replace=True, source=source)
    said = some.top1().tolist()
    told = {
        name: None if label < 0 else plan.classes[label]
        for name, label in zip(names.tolist(), said, strict=True)
        if str(name) in new
    }
    if told:
        prompt = digest(plan.prompt.source.encode())
        Trail(folder.path / TRAIL).add("answered", source, told, prompt=prompt, votes=plan.manner.votes)
    return len(told)
