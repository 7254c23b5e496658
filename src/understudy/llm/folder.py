"""The folder that answers are kept in.

asked.json         what was asked: classes, prompt, models …; another question needs another folder
answers-1.jsonl    every answer of the first model, as it came; only ever added to
requests.jsonl     every request, with the most it could cost, then with what it took
servers.json       what each server takes
labels/FORM/       the label store that is made of the answers
trail.jsonl        who asked for which labels, when and by which command
batch/             request files for batch services
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from understudy.errors import UnderstudyError
from understudy.llm.features import Features
from understudy.llm.journal import entries
from understudy.llm.plan import HINTS, Plan, Source
from understudy.llm.prompt import Row
from understudy.store.files import read_json, write_json
from understudy.store.seal import read_sealed, sealed, unsealed
from understudy.store.settings import as_json, check_same

ASKED, REQUESTS, SERVERS, BATCH = "asked.json", "requests.jsonl", "servers.json", "batch"
FORMAT = 1


@dataclass
class Kept:
    """What is in the folder about one row: choices so far, whether it was refused for good, and the row's pin."""

    choices: int = 0
    refused: bool = False
    pin: str = ""


class AskFolder:
    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    @property
    def requests(self) -> Path:
        return self.path / REQUESTS

    @property
    def batch(self) -> Path:
        return self.path / BATCH

    def answers(self, number: int) -> Path:
        return self.path / f"answers-{number + 1}.jsonl"

    def store(self, form: str) -> Path:
        return self.path / "labels" / form

    def begin(self, plan: Plan) -> None:
        """Note what is asked; refuse another question than the folder was begun with."""
        settings, file = as_json(plan.settings()), self.path / ASKED
        if not self._holds_anything():
            write_json(file, sealed({"format": FORMAT, **settings}))
        elif file.exists():
            stored = unsealed(read_sealed(file, format=FORMAT))
            check_same({name: stored.get(name) for name in settings}, settings, self.path, hints=HINTS)
        else:
            raise UnderstudyError(f"{self.path} holds answers but no {ASKED}; restore it, or choose a new folder")

    def _holds_anything(self) -> bool:
        """Whether an answer was given or is under way; else another question may still take the place of the first."""
        files = [*self.path.glob("answers-*.jsonl"), *self.batch.glob("requests-*.jsonl")]
        return any(path.stat().st_size for path in files)

    def kept(self, number: int) -> dict[str, Kept]:
        """By id, what the journal of this model holds."""
        found: dict[str, Kept] = {}
        for entry in entries(self.answers(number)):
            kept = found.setdefault(str(entry.get("custom_id")), Kept())
            response = entry.get("response") or {}
            body = response.get("body")
            choices = body.get("choices") if isinstance(body, dict) else None
            kept.choices += len(choices) if isinstance(choices, list) else 0
            kept.refused |= response.get("status_code") != 200
            kept.pin = str(entry.get("row", ""))
        return found

    def features(self, source: Source) -> Features | None:
        """What this server took the last time."""
        file = self.path / SERVERS
        known = read_json(file) if file.exists() else {}
        found = known.get(_server(source)) if isinstance(known, dict) else None
        try:
            return None if found is None else Features(**found)
        except TypeError:
            return None

    def remember(self, source: Source, features: Features) -> None:
        file = self.path / SERVERS
        known = read_json(file) if file.exists() else {}
        write_json(file, {**known, _server(source): features.as_dict()})


def _server(source: Source) -> str:
    return f"{source.model} at {source.base_url}"


def pin_of(row: Row) -> str:
    """Changes with what is asked about."""
    plain = row if isinstance(row, str) else json.dumps(_sorted(row), ensure_ascii=False, default=str)
    return hashlib.sha256(plain.encode(errors="surrogatepass")).hexdigest()[:16]


def _sorted(row: Mapping[str, Any]) -> list[list[Any]]:
    return [[name, row[name]] for name in sorted(row)]


def check_pins(names: Sequence[str | int], pins: Sequence[str], kept: Mapping[str, Kept], where: Path) -> None:
    """An answer is about the row as it was; under the same id there may be no other."""
    for name, pin in zip(names, pins, strict=True):
        known = kept.get(str(name))
        if known is not None and known.pin and known.pin != pin:
            raise UnderstudyError(
                f"{where} holds an answer about another text of id {name!r}; choose a new folder, or give changed rows "
                "new ids"
            )
