"""Hugging Face ``datasets``: out, a folder that ``load_dataset("FOLDER")`` reads; in, such a one or ``save_to_disk``'s.

    FOLDER/README.md, data/train-00000-of-00001.parquet      # id, what is shown, label (ClassLabel, empty), marks

Argilla and others import it from there. In the folder that comes back, ``label`` holds the answer (a number of the
declared classes, or a name; empty or −1: none yet), ``annotator`` (optional) the person; rows may repeat, one for each
person.
"""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from understudy.errors import UnderstudyError
from understudy.io.exchange import QUESTION
from understudy.io.exchange.annotations import OPEN, Annotation, ExportLayout, is_true
from understudy.io.exchange.tasks import Tasks
from understudy.io.label_columns import SHOWN
from understudy.io.readers.folders import CARD, declared_names, is_datasets_folder, read_datasets_folder
from understudy.store.files import folder_appearing_whole, write_text

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


class HFDatasets:
    suffixes = ()

    def write_tasks(self, path: Path, tasks: Tasks) -> list[Path]:
        columns: dict[str, Any] = {"id": pa.array([task.row for task in tasks], pa.string())}
        for name in tasks.shown:
            columns[name] = pa.array([task.shown[name] for task in tasks], pa.string())
        columns[QUESTION] = pa.nulls(len(tasks), pa.int64())
        if any(task.suggestion is not None for task in tasks):
            columns[SUGGESTION] = pa.array([task.suggestion for task in tasks], pa.string())
        for mark in tasks.items[0].marks:
            columns[mark] = pa.array([task.marks[mark] for task in tasks], pa.bool_())
        features: dict[str, Any] = {
            name: {"dtype": str(column.type), "_type": "Value"} for name, column in columns.items()
        }
        features[QUESTION] = {"names": list(tasks.classes), "_type": "ClassLabel"}
        metadata = {b"huggingface": json.dumps({"info": {"features": features}}).encode()}
        table = pa.table(columns).replace_schema_metadata(metadata)
        with folder_appearing_whole(path) as folder:
            (folder / "data").mkdir()
            pq.write_table(table, folder / "data" / "train-00000-of-00001.parquet")
            write_text(folder / CARD, _CARD.format(rows=len(tasks), classes=", ".join(tasks.classes)))
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
