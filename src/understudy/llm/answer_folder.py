"""The folder of an LLM's answers, and the labels made of them.

request.json       classes, prompt, models …, and where the files below ended; another request needs another folder
answers-1.jsonl    every answer of the first model as it came; append-only
requests.jsonl     every request with its maximum cost, then with its actual tokens
servers.json       the optional fields that each server accepts
labels/FORM/       the label store made of the answers
label_history.jsonl  which labels, when, by which command
batch/             request files for batch services
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from understudy.errors import UnderstudyError
from understudy.labels.answer_labels import Answers, read_answers
from understudy.labels.answer_matching import AnswerReport
from understudy.labels.forms import Labels, Votes
from understudy.labels.label_store import LabelStore
from understudy.llm.request import HINTS, AskPlan, LabelModel, Row, ServerFeatures
from understudy.store.arrow import Array
from understudy.store.checked_folder import Finding, FolderKind, Manifest, read_checked, write_checked
from understudy.store.files import digest
from understudy.store.log import HISTORY, LabelHistory, Log
from understudy.store.settings import as_json, check_same

REQUEST, REQUESTS, SERVERS, BATCH = "request.json", "requests.jsonl", "servers.json", "batch"
#: The entry of the request for the last line of each log.
SEALED = "sealed"


@dataclass
class RowAnswers:
    """The answers of one model to one row: choices so far, whether the row was refused, and its fingerprint."""

    choices: int = 0
    refused: bool = False
    pin: str = ""


class AskFolder:
    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.requests, self.batch, self._servers = (self.path / name for name in (REQUESTS, BATCH, SERVERS))

    def answers(self, number: int) -> Path:
        return self.path / f"answers-{number + 1}.jsonl"

    def begin(self, plan: AskPlan) -> None:
        """Write the request down; refuse another one than the folder was begun with."""
        settings, file = as_json(plan.settings()), self.path / REQUEST
        files = [*self.path.glob("answers-*.jsonl"), *self.batch.glob("requests-*.jsonl")]
        # Without an answer or a request under way, another request may still replace the first.
        if not any(path.stat().st_size for path in files):
            ASK.write(self.path, {**settings, SEALED: self._seals()})
        elif file.exists():
            stored = ASK.read(self.path)
            check_same({name: stored.get(name) for name in settings}, settings, self.path, hints=HINTS)
        else:
            raise UnderstudyError(f"{self.path} holds answers but no {REQUEST}; restore it, or choose a new folder")

    def answered(self, number: int) -> dict[str, RowAnswers]:
        """By id, the answers of this model."""
        found: dict[str, RowAnswers] = {}
        for entry in Log(self.answers(number)).entries(self.sealed(self.answers(number))):
            kept = found.setdefault(str(entry.get("custom_id")), RowAnswers())
            response = entry.get("response") or {}
            body = response.get("body")
            choices = body.get("choices") if isinstance(body, dict) else None
            kept.choices += len(choices) if isinstance(choices, list) else 0
            kept.refused |= response.get("status_code") != 200
            kept.pin = str(entry.get("row", ""))
        return found

    def seal(self) -> None:
        """Write down where each log ends now: lines that are cut off later are missed."""
        logs = [*sorted(self.path.glob("answers-*.jsonl")), self.requests, self.path / HISTORY]
        ends = {path.name: Log(path).last() for path in logs if path.exists()}
        ASK.write(self.path, {**ASK.read(self.path), SEALED: ends})

    def sealed(self, path: Path) -> str:
        """The checksum of a log's last line at the end of the last run; "" where there was none."""
        return str(self._seals().get(path.name, ""))

    def _seals(self) -> Manifest:
        return dict(ASK.read(self.path).get(SEALED, {})) if (self.path / REQUEST).exists() else {}

    def features(self, model: LabelModel) -> ServerFeatures | None:
        """The fields that this server accepted last time; None: not known."""
        found = self._known_servers().get(str(model))
        return None if found is None else ServerFeatures(**found)

    def remember(self, model: LabelModel, features: ServerFeatures) -> None:
        write_checked(self._servers, {**self._known_servers(), str(model): asdict(features)})

    def _known_servers(self) -> Manifest:
        return read_checked(self._servers, cure="delete it") if self._servers.exists() else {}


def _also(path: Path, manifest: Manifest) -> Iterator[Finding]:
    sealed = manifest.get(SEALED, {})
    for name in sorted({*sealed, *(file.name for file in path.glob("answers-*.jsonl")), REQUESTS}):
        yield from Log(path / name).verify(sealed.get(name, ""))
    if HISTORY not in sealed:
        yield from LabelHistory(path / HISTORY).verify()


ASK = FolderKind("ask folder", REQUEST, _also)


def answer_line(name: Any, pin: str, model: str, body: Mapping[str, Any], status: int | None = 200) -> dict[str, Any]:
    """A line of a file of answers, as batch services write it; ``pin``: the row's fingerprint."""
    response = {"status_code": status, "body": body}
    return {"custom_id": name, "row": pin, "model": model, "response": response, "error": None}


def pin_of(row: Row) -> str:
    """A fingerprint of the row."""
    plain = row if isinstance(row, str) else json.dumps(sorted(row.items()), ensure_ascii=False, default=str)
    return hashlib.sha256(plain.encode(errors="surrogatepass")).hexdigest()[:16]


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
