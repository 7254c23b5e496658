"""Hugging Face ``datasets``: out, a folder that ``load_dataset("FOLDER")`` reads; in, such a one or ``save_to_disk``'s.

    FOLDER/README.md, data/train-00000-of-00001.parquet      # id, what is shown, label (ClassLabel, empty), marks

Argilla and others import it from there. Coming back, ``label`` holds the answer (a number of the declared classes, or a
name; empty or −1: none yet), ``annotator`` (optional) who gave it; rows may repeat, one for each person.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from understudy.errors import UnderstudyError
from understudy.io.answers import SHOWN
from understudy.io.exchange import QUESTION
from understudy.io.exchange.opinions import OPEN, Opinion, Reading, row_name, true_of
from understudy.io.exchange.tasks import Tasks
from understudy.io.readers.datasets_folder import CARD, class_names, datasets_table, is_datasets_folder
from understudy.store.files import folder_appearing_whole, write_text

KINDS = ()
SUGGESTION = "suggestion"
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


def write(path: Path, tasks: Tasks) -> list[Path]:
    suggests = any(task.suggestion is not None for task in tasks)
    columns: dict[str, Any] = {"id": pa.array([task.id for task in tasks], pa.string())}
    for name in tasks.shown:
        columns[name] = pa.array([task.shown[name] for task in tasks], pa.string())
    columns[QUESTION] = pa.nulls(len(tasks), pa.int64())
    if suggests:
        columns[SUGGESTION] = pa.array([task.suggestion for task in tasks], pa.string())
    for mark in tasks.items[0].marks:
        columns[mark] = pa.array([task.marks[mark] for task in tasks], pa.bool_())
    table = pa.table(columns)
    features = {
        name: _feature(name, kind, tasks) for name, kind in zip(table.column_names, table.schema.types, strict=True)
    }
    known = {b"huggingface": json.dumps({"info": {"features": features}}).encode()}
    with folder_appearing_whole(path) as folder:
        (folder / "data").mkdir()
        pq.write_table(table.replace_schema_metadata(known), folder / "data" / "train-00000-of-00001.parquet")
        write_text(folder / CARD, _CARD.format(rows=len(tasks), classes=", ".join(tasks.classes)))
    return [path]


def _feature(name: str, kind: Any, tasks: Tasks) -> dict[str, Any]:
    if name == QUESTION:
        return {"names": list(tasks.classes), "_type": "ClassLabel"}
    return {"dtype": str(kind), "_type": "Value"}


def read(path: Path, reading: Reading) -> list[Opinion]:
    if not (path.is_dir() and is_datasets_folder(path)):
        raise UnderstudyError(f"{path} is no folder of datasets (state.json, or README.md and data/*.parquet)")
    return list(_opinions(path, reading))


def _opinions(path: Path, reading: Reading) -> Iterator[Opinion]:
    table = datasets_table(path)
    question, key = reading.question or QUESTION, reading.row or "id"
    if question not in table.column_names:
        raise UnderstudyError(f"{path} has no column {question!r}; name the one that holds the class: --question NAME")
    names = class_names(table).get(question)
    for number, row in enumerate(table.to_pylist()):
        name, value = row_name(row.get(key), f"{path}: row {number}", key), row[question]
        if value is None or value == "" or value == -1:
            yield Opinion(name, "", why=OPEN, open=True)
            continue
        if names is not None and isinstance(value, int):
            if not 0 <= value < len(names):
                raise UnderstudyError(f"{path}: row {number} has label {value}, of {len(names)} classes; correct it")
            value = names[value]
        labels = tuple(map(str, value)) if isinstance(value, list) else (str(value),)
        who = row.get("annotator")
        marks = true_of(row.get(SHOWN)), true_of(row.get("chosen"))
        yield Opinion(name, "unknown" if who is None else str(who), labels, "", False, *marks)
