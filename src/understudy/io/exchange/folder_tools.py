"""Tools that exchange folders: Argilla, and Hugging Face ``datasets``.

Argilla: a folder for ``rg.Dataset.from_disk`` out; such folders, and records as ``datasets``, in.

    FOLDER/.argilla/dataset.json, .argilla/settings.json, records.json

A record's id is the row's. Of the responses, a submitted one counts, a discarded one is a skipped row, a draft is not
an answer yet. ``records.json`` does not hold their status: there, only the one response of a completed record is known
to be submitted. ``dataset.records.to_datasets().save_to_disk(FOLDER)``, or the folder of ``to_hub``, holds it.

``datasets``: out, a folder that ``load_dataset("FOLDER")`` reads; in, such a one or ``save_to_disk``'s.

    FOLDER/README.md, data/train-00000-of-00001.parquet      # id, what is shown, label (ClassLabel, empty), marks

Argilla and others import it from there. In the folder that comes back, ``label`` holds the answer (a number of the
declared classes, or a name; empty or −1: none yet), ``annotator`` (optional) the person; rows may repeat, one for each
person.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from understudy.errors import UnderstudyError
from understudy.io.exchange import QUESTION
from understudy.io.exchange.annotations import OPEN, UNKNOWN, Annotation, ExportLayout, entry, is_true, objects
from understudy.io.exchange.tasks import Task, Tasks
from understudy.io.label_columns import SHOWN
from understudy.io.readers.folders import CARD, declared_names, is_datasets_folder, read_datasets_folder
from understudy.store.files import folder_appearing_whole, read_json, write_json, write_text

RECORDS = "records.json"
_RESPONSES, _SUGGESTION = ".responses", ".suggestion"
_CARD = """---
configs:
- config_name: default
  data_files:
  - split: train
    path: data/train-*
---

# Rows to label

{rows:,} rows. Fill in `label` ({classes}); leave it empty where no class can be given.
`suggestion_shown` is true where `suggestion` holds a model's: answers given with one in view never measure that model.
"""


class Argilla:
    suffixes = ()

    def write_tasks(self, path: Path, tasks: Tasks) -> list[Path]:
        for name in tasks.shown:
            if name != (lower := name.lower()):
                raise UnderstudyError(f"Argilla's fields are in lower case; rename {name!r}: --column {lower}={name}")
        with folder_appearing_whole(path) as folder:
            (folder / ".argilla").mkdir()
            write_json(folder / ".argilla" / "settings.json", _settings(tasks))
            about = {"name": path.name, "status": "draft", "guidelines": None, "allow_extra_metadata": True}
            write_json(folder / ".argilla" / "dataset.json", about)
            write_json(folder / RECORDS, [_record(task) for task in tasks.items])
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
    fields = [_setting(name, kind) for name, kind in kinds.items()]
    return {
        "guidelines": None, "questions": [_setting(QUESTION, choice)], "fields": fields, "vectors": [], "metadata": [],
        "allow_extra_metadata": True, "distribution": {"strategy": "overlap", "min_submitted": 1}, "mapping": None,
    }  # fmt: skip


def _setting(name: str, kind: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": name, "title": name, "description": None, "required": True, "settings": kind}


def _record(task: Task) -> dict[str, Any]:
    suggestion = {QUESTION: {"value": task.suggestion, "score": task.score, "agent": "teacher"}}
    return {
        "id": task.row, "fields": task.shown, "responses": {}, "vectors": {}, "status": "pending",
        "metadata": {name: str(mark).lower() for name, mark in task.marks.items()},
        "suggestions": {} if task.suggestion is None else suggestion,
    }  # fmt: skip


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
        users, statuses = (entry(record, f"{key}.{part}", list, where) for part in ("users", "status"))
        users, statuses = users or [None] * len(values), statuses or [None] * len(values)
        if not len(values) == len(users) == len(statuses):
            raise UnderstudyError(f"{where} has {len(values)} responses of {len(users)} users; save the records again")
        suggested = record.get(question + _SUGGESTION)
        declared = names.get(question + _SUGGESTION, ())
        if isinstance(suggested, int) and 0 <= suggested < len(declared):
            suggested = declared[suggested]  # which may be None: Argilla declares that as a class, too
        responses = list(zip(users, values, statuses, strict=True))
        yield from _annotations(layout.row_of(record, "id", where), responses, suggested is not None, record)


def _annotations(
    row: str, responses: Sequence[tuple[Any, Any, Any]], suggested: bool, marks: Mapping[str, Any]
) -> Iterator[Annotation]:
    """``responses``: user, value, status."""
    if not responses:
        yield Annotation(row, reason=OPEN)
    for user, value, status in responses:
        labels = value if isinstance(value, list) else [] if value is None else [value]
        empty = "" if labels else "submitted without a class"
        reason = {"submitted": empty, "discarded": "discarded", "draft": OPEN}.get(str(status), UNKNOWN)
        shown = suggested or bool(is_true(marks.get(SHOWN)))
        yield Annotation.read(row, user, labels, reason, shown, marks)


class HFDatasets:
    suffixes = ()

    def write_tasks(self, path: Path, tasks: Tasks) -> list[Path]:
        columns: dict[str, Any] = {"id": pa.array([task.row for task in tasks.items], pa.string())}
        for name in tasks.shown:
            columns[name] = pa.array([task.shown[name] for task in tasks.items], pa.string())
        columns[QUESTION] = pa.nulls(len(tasks.items), pa.int64())
        if any(task.suggestion is not None for task in tasks.items):
            columns["suggestion"] = pa.array([task.suggestion for task in tasks.items], pa.string())
        for mark in tasks.items[0].marks:
            columns[mark] = pa.array([task.marks[mark] for task in tasks.items])
        features: dict[str, Any] = {name: {"dtype": str(each.type), "_type": "Value"} for name, each in columns.items()}
        features[QUESTION] = {"names": list(tasks.classes), "_type": "ClassLabel"}
        metadata = {b"huggingface": json.dumps({"info": {"features": features}}).encode()}
        with folder_appearing_whole(path) as folder:
            (folder / "data").mkdir()
            table = pa.table(columns).replace_schema_metadata(metadata)
            pq.write_table(table, folder / "data" / "train-00000-of-00001.parquet")
            write_text(folder / CARD, _CARD.format(rows=len(table), classes=", ".join(tasks.classes)))
        return [path]

    def read_annotations(self, path: Path, layout: ExportLayout) -> list[Annotation]:
        if not (path.is_dir() and is_datasets_folder(path)):
            raise UnderstudyError(f"{path} is no folder of datasets (state.json, or README.md and data/*.parquet)")
        table = read_datasets_folder(path)
        question = layout.question or QUESTION
        if question not in table.column_names:
            raise UnderstudyError(f"{path} has no column {question!r}; add --question NAME, the column of the class")
        names = declared_names(table).get(question)
        found = []
        for number, record in enumerate(table.to_pylist()):
            where = f"{path}: row {number}"
            row, value = layout.row_of(record, "id", where), record[question]
            if value is None or value == "" or value == -1:
                found.append(Annotation(row, reason=OPEN))
                continue
            if names is not None and isinstance(value, int):
                if not 0 <= value < len(names):
                    raise UnderstudyError(f"{where} has label {value}, of {len(names)} classes; correct it")
                value = names[value]
            labels = value if isinstance(value, list) else [value]
            shown = is_true(record.get(SHOWN))
            found.append(Annotation.read(row, record.get("annotator"), labels, "", shown, record))
        return found
