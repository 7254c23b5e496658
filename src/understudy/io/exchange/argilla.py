"""Argilla: a folder for ``rg.Dataset.from_disk`` out; such folders, and records as ``datasets``, in.

    FOLDER/.argilla/dataset.json, .argilla/settings.json, records.json

A record's id is the row's. Coming back, a submitted response counts, a discarded one is a skipped row, a draft is no
answer yet. ``records.json`` does not say which is which: there, only the one response of a completed record is surely
submitted. ``dataset.records.to_datasets().save_to_disk(FOLDER)``, or the folder of ``to_hub``, says it of every one.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from understudy.errors import UnderstudyError
from understudy.io.answers import SHOWN
from understudy.io.exchange import QUESTION
from understudy.io.exchange.entries import list_in, object_in, objects_in
from understudy.io.exchange.opinions import OPEN, Opinion, Reading, only_question, row_name, true_of
from understudy.io.exchange.tasks import Task, Tasks
from understudy.io.readers.datasets_folder import class_names, datasets_table, is_datasets_folder
from understudy.store.files import folder_appearing_whole, read_json, write_json

KINDS = ()
RECORDS, SETTINGS, DATASET = "records.json", "settings.json", "dataset.json"
DISCARDED, EMPTY = "discarded", "submitted without a class"
UNKNOWN = "of unknown status (records.json does not say; save records.to_datasets() instead)"
_RESPONSES, _SUGGESTION = ".responses", ".suggestion"


def write(path: Path, tasks: Tasks) -> list[Path]:
    for name in tasks.shown:
        if name != name.lower():
            raise UnderstudyError(
                f"Argilla's fields have small letters; rename {name!r}: --column {name.lower()}={name}"
            )
    with folder_appearing_whole(path) as folder:
        (folder / ".argilla").mkdir()
        write_json(folder / ".argilla" / SETTINGS, _settings(tasks))
        about = {"name": path.name, "status": "draft", "guidelines": None, "allow_extra_metadata": True}
        write_json(folder / ".argilla" / DATASET, about)
        write_json(folder / RECORDS, [_record(task) for task in tasks])
    return [path]


def _settings(tasks: Tasks) -> dict[str, Any]:
    options = [{"text": name, "value": name} for name in tasks.classes]
    question = {"type": "label_selection", "options": options, "visible_options": None}
    fields = []
    for name in tasks.shown:
        kind = {"type": "image"} if name in tasks.images else {"type": "text", "use_markdown": False}
        fields.append({"name": name, "title": name, "required": True, "description": None, "settings": kind})
    asked = {"name": QUESTION, "title": QUESTION, "description": None, "required": True, "settings": question}
    return {
        "guidelines": None,
        "questions": [asked],
        "fields": fields,
        "vectors": [],
        "metadata": [],
        "allow_extra_metadata": True,
        "distribution": {"strategy": "overlap", "min_submitted": 1},
        "mapping": None,
    }


def _record(task: Task) -> dict[str, Any]:
    said = {"value": task.suggestion, "score": task.score, "agent": "teacher"}
    marks = {name: str(mark).lower() for name, mark in task.marks.items()}
    return {
        "id": task.id,
        "fields": task.shown,
        "metadata": marks,
        "suggestions": {} if task.suggestion is None else {QUESTION: said},
        "responses": {},
        "vectors": {},
        "status": "pending",
    }


def read(path: Path, reading: Reading) -> list[Opinion]:
    if path.is_dir() and is_datasets_folder(path):
        table = datasets_table(path)
        return list(_from_columns(table.to_pylist(), class_names(table), reading, path))
    file = path / RECORDS if path.is_dir() else path
    records = read_json(file)
    if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
        raise UnderstudyError(f"{file} is no list of records; save the dataset again")
    return list(_from_records(records, reading, file))


def _from_records(records: Sequence[Mapping[str, Any]], reading: Reading, path: Path) -> Iterator[Opinion]:
    found = (name for each in records for name in object_in(each, "responses", str(path)))
    question = only_question(found, reading, str(path))
    for number, record in enumerate(records):
        where = f"{path}: record {number}"
        responses = objects_in(object_in(record, "responses", where), question, where)
        marks = object_in(record, "metadata", where)
        suggested = object_in(object_in(record, "suggestions", where), question, where)
        shown = suggested.get("value") is not None
        surely = record.get("status") == "completed" and len(responses) == 1
        said = [
            (each.get("user_id"), each.get("value"), each.get("status") or ("submitted" if surely else None))
            for each in responses
        ]
        inside = {**marks, **object_in(record, "fields", where), **record}
        yield from _record_opinions(_name(inside, reading, where), said, shown, marks)


def _from_columns(
    records: Sequence[Mapping[str, Any]], names: Mapping[str, Sequence[Any]], reading: Reading, path: Path
) -> Iterator[Opinion]:
    """Records as columns of their own: ``label.responses``, ``label.responses.users``, ``label.responses.status``."""
    columns = list(records[0]) if records else []
    found = [name.removesuffix(_RESPONSES) for name in columns if name.endswith(_RESPONSES)]
    question = only_question(found, reading, str(path))
    if not found:
        raise UnderstudyError(f"{path} has no column that ends in '{_RESPONSES}'; nothing is answered there yet")
    answers = question + _RESPONSES
    for number, record in enumerate(records):
        where = f"{path}: record {number}"
        values = list_in(record, answers, where)
        users = list_in(record, f"{answers}.users", where) or [None] * len(values)
        states = list_in(record, f"{answers}.status", where) or [None] * len(values)
        if not len(values) == len(users) == len(states):
            raise UnderstudyError(f"{where} has {len(values)} responses of {len(users)} users; save the records again")
        suggested = record.get(question + _SUGGESTION)
        declared = names.get(question + _SUGGESTION, ())
        if isinstance(suggested, int) and 0 <= suggested < len(declared):
            suggested = declared[suggested]  # which may be None: Argilla declares that as a class, too
        said = list(zip(users, values, states, strict=True))
        yield from _record_opinions(_name(record, reading, where), said, suggested is not None, record)


def _name(record: Mapping[str, Any], reading: Reading, where: str) -> str:
    key = reading.row or "id"
    return row_name(record.get(key), where, key)


def _record_opinions(
    name: str, said: Sequence[tuple[Any, Any, Any]], shown: bool, marks: Mapping[str, Any]
) -> Iterator[Opinion]:
    if not said:
        yield Opinion(name, "", why=OPEN, open=True)
    for who, value, status in said:
        if status == "draft":
            yield Opinion(name, "", why=OPEN, open=True)
            continue
        labels = tuple(map(str, value)) if isinstance(value, list) else () if value is None else (str(value),)
        why = {"submitted": "" if labels else EMPTY, "discarded": DISCARDED}.get(str(status), UNKNOWN)
        person = "unknown" if who is None else str(who)
        shown = shown or bool(true_of(marks.get(SHOWN)))
        yield Opinion(name, person, () if why else labels, why, why == UNKNOWN, shown, true_of(marks.get("chosen")))
