"""The folder of an LLM's answers; this file loads without PyTorch.

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
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from understudy.errors import UnderstudyError
from understudy.llm.request import HINTS, AskPlan, LabelModel, Row, ServerFeatures
from understudy.store.checked_folder import Finding, FolderKind, Manifest, read_checked, write_checked
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
