"""Labels made of an LLM's answers, in memory (``Labelled``) and in the label store."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from understudy.labels.answer_labels import Answers, read_answers
from understudy.labels.answer_matching import AnswerReport
from understudy.labels.forms import Labels, Votes
from understudy.labels.label_store import LabelStore
from understudy.llm.answer_folder import AskFolder
from understudy.llm.request import AskPlan
from understudy.store.arrow import Array
from understudy.store.files import digest
from understudy.store.log import HISTORY, LabelHistory


@dataclass(frozen=True)
class Labelled:
    """``labels`` in the order of ``ids``, none where no answer was usable: ``us.Pool(x, labelled.labels)``."""

    ids: Array
    labels: Labels
    classes: tuple[str, ...]
    sources: tuple[str, ...]
    #: By model, how many answers were usable, and why others were not.
    reports: dict[str, AnswerReport]
    #: Rows that at least one model has not answered yet.
    unanswered: int
    #: Failed requests of this run that were repeated, by reason.
    lost: Counter[str] = field(default_factory=Counter)
    requests: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    #: Of all runs; requests without an answer that may have been charged count in full.
    cost: float = 0.0
    #: Why rows are left; None: all are done.
    stopped: str | None = None

    def __len__(self) -> int:
        return len(self.ids)


def label_answers(
    folder: AskFolder, plan: AskPlan, ids: Sequence[Any]
) -> tuple[Labels, dict[str, AnswerReport], list[Answers]]:
    """Labels of these ids from all answers so far, a report per model, and the answers read."""
    read: list[Answers] = []
    for number in range(len(plan.models)):
        files = [path] if (path := folder.answers(number)).exists() else []
        form = plan.options.form if len(plan.models) == 1 or plan.options.form == "shares" else "hard"
        read.append(read_answers(files, plan.prompt.classes, aliases=plan.options.aliases, form=form))
    reports = {model.name: answers.report for model, answers in zip(plan.models, read, strict=True)}
    if len(read) == 1:
        return read[0].aligned(ids), reports, read
    votes = torch.stack([_vote(answers.aligned(ids), len(plan.prompt.classes)) for answers in read], 1)
    return Votes(votes, len(plan.prompt.classes), sources=[model.name for model in plan.models]), reports, read


def _vote(labels: Labels, classes: int) -> torch.Tensor:
    """One vote a row: the most frequent class; none where two tie."""
    best = labels.top1()
    if labels.ranks and len(labels):
        leading = labels.dense(torch.arange(len(labels)), classes).topk(min(2, classes), 1).values
        best = torch.where(leading[:, 0] > leading[:, 1], best, -1)
    return best


def store_labels(folder: AskFolder, plan: AskPlan, ids: Sequence[Any], labels: Labels, done: Sequence[bool]) -> None:
    """Puts the labels of finished rows into the label store, and those new there into the label history."""
    rows = [row for row, is_done in enumerate(done) if is_done]
    if not rows or not bool(labels.labelled().any()):  # without a label their form is unknown
        return
    names = np.asarray([ids[row] for row in rows])
    some = labels.take(torch.tensor(rows))
    source = ", ".join(str(model) for model in plan.models)
    with LabelStore(folder.path / "labels" / labels.form, plan.prompt.classes, labels.form) as store:
        new = {str(name) for name in store.missing(names).tolist()}
        store.append(names, some, replace=True, source=source)
    added = {
        name: None if label < 0 else plan.prompt.classes[label]
        for name, label in zip(names.tolist(), some.top1().tolist(), strict=True)
        if str(name) in new
    }
    if added:
        prompt = digest(str(plan.options.prompt).encode())
        LabelHistory(folder.path / HISTORY).add("answered", source, added, prompt=prompt, votes=plan.options.votes)
