"""Argilla: a folder for ``rg.Dataset.from_disk`` out; such folders, and records as ``datasets``, in.

    FOLDER/.argilla/dataset.json, .argilla/settings.json, records.json

A record's id is the row's. Of the responses, a submitted one counts, a discarded one is a skipped row, a draft is not
an answer yet. ``records.json`` does not hold their status: there, only the one response of a completed record is known
to be submitted. ``dataset.records.to_datasets().save_to_disk(FOLDER)``, or the folder of ``to_hub``, holds it.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from understudy.errors import UnderstudyError
from understudy.io.exchange import QUESTION
from understudy.io.exchange.annotations import OPEN, UNKNOWN, Annotation, ExportLayout, entry, is_true, objects
from understudy.io.exchange.tasks import Task, Tasks
from understudy.io.label_columns import SHOWN
from understudy.io.readers.folders import declared_names, is_datasets_folder, read_datasets_folder
from understudy.store.files import folder_appearing_whole, read_json, write_json

RECORDS = "records.json"
_RESPONSES, _SUGGESTION = ".responses", ".suggestion"
#: User, value, status.
Response = tuple[Any, Any, Any]


class Argilla:
    suffixes = ()

    def write_tasks(self, path: Path, tasks: Tasks) -> list[Path]:
        for name in tasks.shown:
            if name != name.lower():
                raise UnderstudyError(
                    f"Argilla's fields are in lower case; rename {name!r}: --column {name.lower()}={name}"
                )
        with folder_appearing_whole(path) as folder:
            (folder / ".argilla").mkdir()
            write_json(folder / ".argilla" / "settings.json", _settings(tasks))
            about = {"name": path.name, "status": "draft", "guidelines": None, "allow_extra_metadata": True}
            write_json(folder / ".argilla" / "dataset.json", about)
            write_json(folder / RECORDS, [_record(task) for task in tasks])
        return [path]

    def read_annotations(self, path: Path, layout: ExportLayout) -> list[Annotation]:
        if path.is_dir() and is_datasets_folder(path):
            table = read_datasets_folder(path)
            return list(_from_columns(table.to_pylist(), declared_names(table), layout, path))
        file = path / RECORDS if path.is_dir() else path
        records = read_json(file)
        if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
            raise UnderstudyError(f"{file} is no list of records; save the dataset again")
        return list(_from_records(records, layout, file))


def _settings(tasks: Tasks) -> dict[str, Any]:
    options = [{"text": name, "value": name} for name in tasks.classes]
    choice = {"type": "label_selection", "options": options, "visible_options": None}
    kinds = {name: {"type": "text", "use_markdown": False} for name in tasks.shown}
    kinds |= {name: {"type": "image"} for name in tasks.images}
    return {
        "guidelines": None,
        "questions": [_setting(QUESTION, choice)],
        "fields": [_setting(name, kind) for name, kind in kinds.items()],
        "vectors": [],
        "metadata": [],
        "allow_extra_metadata": True,
        "distribution": {"strategy": "overlap", "min_submitted": 1},
        "mapping": None,
    }


def _setting(name: str, kind: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": name, "title": name, "description": None, "required": True, "settings": kind}


def _record(task: Task) -> dict[str, Any]:
    suggestion = {"value": task.suggestion, "score": task.score, "agent": "teacher"}
    return {
        "id": task.row,
        "fields": task.shown,
        "metadata": {name: str(mark).lower() for name, mark in task.marks.items()},
        "suggestions": {} if task.suggestion is None else {QUESTION: suggestion},
        "responses": {},
        "vectors": {},
        "status": "pending",
    }


def _from_records(records: Sequence[Mapping[str, Any]], layout: ExportLayout, path: Path) -> Iterator[Annotation]:
    found = (name for record in records for name in entry(record, "responses", dict, str(path)))
    question = layout.find_question(found, str(path))
    for number, record in enumerate(records):
        where = f"{path}: record {number}"
        given = objects(entry(record, "responses", dict, where), question, where)
        marks = entry(record, "metadata", dict, where)
        suggested = entry(entry(record, "suggestions", dict, where), question, dict, where)
        default = "submitted" if record.get("status") == "completed" and len(given) == 1 else None
        responses = [(each.get("user_id"), each.get("value"), each.get("status") or default) for each in given]
        row = layout.row_of({**marks, **entry(record, "fields", dict, where), **record}, "id", where)
        yield from _annotations(row, responses, suggested.get("value") is not None, marks)


def _from_columns(
    records: Sequence[Mapping[str, Any]], names: Mapping[str, Sequence[Any]], layout: ExportLayout, path: Path
) -> Iterator[Annotation]:
    """Records as columns of their own: ``label.responses``, ``label.responses.users``, ``label.responses.status``."""
    found = [name.removesuffix(_RESPONSES) for name in (records[0] if records else ()) if name.endswith(_RESPONSES)]
    question = layout.find_question(found, str(path))
    if not found:
        raise UnderstudyError(f"{path} has no column that ends in '{_RESPONSES}'; no record is answered yet")
    key = question + _RESPONSES
    for number, record in enumerate(records):
        where = f"{path}: record {number}"
        values = entry(record, key, list, where)
        users = entry(record, f"{key}.users", list, where) or [None] * len(values)
        statuses = entry(record, f"{key}.status", list, where) or [None] * len(values)
        if not len(values) == len(users) == len(statuses):
            raise UnderstudyError(f"{where} has {len(values)} responses of {len(users)} users; save the records again")
        suggested = record.get(question + _SUGGESTION)
        declared = names.get(question + _SUGGESTION, ())
        if isinstance(suggested, int) and 0 <= suggested < len(declared):
            suggested = declared[suggested]  # which may be None: Argilla declares that as a class, too
        responses = list(zip(users, values, statuses, strict=True))
        yield from _annotations(layout.row_of(record, "id", where), responses, suggested is not None, record)


def _annotations(
    row: str, responses: Sequence[Response], suggested: bool, marks: Mapping[str, Any]
) -> Iterator[Annotation]:
    if not responses:
        yield Annotation(row, reason=OPEN)
    for user, value, status in responses:
        labels = value if isinstance(value, list) else [] if value is None else [value]
        empty = "" if labels else "submitted without a class"
        reason = {"submitted": empty, "discarded": "discarded", "draft": OPEN}.get(str(status), UNKNOWN)
        shown = suggested or bool(is_true(marks.get(SHOWN)))
        yield Annotation.read(row, user, labels, reason, shown, marks)
