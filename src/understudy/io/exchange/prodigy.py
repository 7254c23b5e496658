"""Prodigy: JSON lines for its ``choice`` interface out; what ``prodigy db-out`` writes in.

    {"row_id": "17", "text": "…", "options": [{"id": "neg", "text": "neg"}, …], "suggestion_shown": false}
    prodigy mark DATASET tasks.jsonl --view-id choice

``_input_hash`` and ``_task_hash`` are Prodigy's to make. A suggestion is an option chosen beforehand (``accept``).
Coming back, ``answer`` "accept" counts ``accept``'s option; "ignore" is a skipped row, and so is "reject", which
refuses the task. In the binary interface (``label``, and yes or no) the label itself is a suggestion; "reject" says
that it is another class, which is one only where there are two.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from understudy.errors import UnderstudyError
from understudy.io.answers import SHOWN
from understudy.io.exchange import ROW
from understudy.io.exchange.entries import list_in, objects_in, word_in
from understudy.io.exchange.opinions import OPEN, Opinion, Reading, row_name, true_of
from understudy.io.exchange.tasks import Tasks
from understudy.store.files import write_text

KINDS = (".jsonl",)
IGNORED, REJECTED, EMPTY = "ignored", "rejected", "accepted without a class"
_WHO = ("_annotator_id", "_session_id")


def write(path: Path, tasks: Tasks) -> list[Path]:
    options = [{"id": name, "text": name} for name in tasks.classes]
    lines = []
    for task in tasks:
        texts = {name: value for name, value in task.shown.items() if name not in tasks.images}
        shown = {"image": task.shown[tasks.images[0]]} if tasks.images else {}
        if texts:
            several = "\n\n".join(f"{name}: {value}" for name, value in texts.items())
            shown["text"] = several if len(texts) > 1 else next(iter(texts.values()))
        entry: dict[str, Any] = {ROW: task.id, **shown, "options": options, **task.marks}
        if task.suggestion is not None:
            entry["accept"] = [task.suggestion]
        lines.append(json.dumps(entry, ensure_ascii=False))
    write_text(path, "\n".join(lines) + "\n")
    return [path]


def read(path: Path, reading: Reading) -> list[Opinion]:
    return list(_opinions(list(_lines(path)), reading, path))


def _opinions(lines: Sequence[dict[str, Any]], reading: Reading, path: Path) -> Iterator[Opinion]:
    texts, key = _option_texts(lines, reading.classes, str(path)), reading.row or ROW
    for number, line in enumerate(lines, 1):
        where = f"{path}: line {number}"
        answer = word_in(line, "answer", where)
        meta = line.get("meta")
        inside = {**meta, **line} if isinstance(meta, dict) else line
        name = row_name(inside.get(key), where, key)
        who = next((str(line[each]) for each in _WHO if line.get(each) is not None), "unknown")
        shown, chosen = true_of(line.get(SHOWN)), true_of(line.get("chosen"))
        if "accept" not in line and isinstance(line.get("label"), str):
            shown = True
            labels, why = _binary(line["label"], answer, reading.classes)
        else:
            accepted = list_in(line, "accept", where) if answer == "accept" else []
            labels = tuple(texts.get(str(each), str(each)) for each in accepted)
            why = "" if labels else _why(answer)
        yield Opinion(name, who, labels, why, why == OPEN, shown, chosen)


def _binary(label: str, answer: str, classes: Sequence[str]) -> tuple[tuple[str, ...], str]:
    if answer == "accept":
        return (label,), ""
    if answer == "reject" and len(classes) == 2 and label in classes:
        return tuple(name for name in classes if name != label), ""
    return (), _why(answer)


def _why(answer: str) -> str:
    return {"accept": EMPTY, "reject": REJECTED, "ignore": IGNORED}.get(answer, OPEN)


def _option_texts(lines: Sequence[dict[str, Any]], classes: Sequence[str], where: str) -> dict[str, str]:
    """Options' texts by their ids, where the ids are no classes and all the texts are."""
    listed = [each for line in lines for each in objects_in(line, "options", where)]
    texts = {str(each.get("id")): str(each.get("text")) for each in listed}
    by_text = texts and not set(texts) <= set(classes) and set(texts.values()) <= set(classes)
    return texts if by_text and len(set(texts.values())) == len(texts) else {}


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UnderstudyError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UnderstudyError(f"cannot read {path}: {error}; export it again") from error
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
        except ValueError as error:
            raise UnderstudyError(f"{path}: line {number} is no JSON ({error}); export it again") from error
        if not isinstance(entry, dict):
            raise UnderstudyError(f"{path}: line {number} is no object; export it again")
        yield entry
