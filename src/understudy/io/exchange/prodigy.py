"""Prodigy: JSON lines for its ``choice`` interface out; what ``prodigy db-out`` writes in.

    {"row_id": "17", "text": "…", "options": [{"id": "neg", "text": "neg"}, …], "suggestion_shown": false}
    prodigy mark DATASET tasks.jsonl --view-id choice

``_input_hash`` and ``_task_hash`` are added by Prodigy. A suggestion is an option that is preselected (``accept``). In
an export, ``answer`` "accept" counts the options of ``accept``; "ignore" and "reject" (of the task) skip the row. In
the binary interface (``label``, and yes or no) the label itself is a suggestion; "reject" then means the other class,
where there are two.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from understudy.errors import UnderstudyError
from understudy.io.exchange import ROW
from understudy.io.exchange.annotations import OPEN, Annotation, ExportLayout, entry, is_true, objects, read_export
from understudy.io.exchange.tasks import Tasks
from understudy.io.label_columns import SHOWN
from understudy.store.files import write_text

REASONS = {"accept": "accepted without a class", "reject": "rejected", "ignore": "ignored"}
_ANNOTATOR = ("_annotator_id", "_session_id")


class Prodigy:
    suffixes = (".jsonl",)

    def write_tasks(self, path: Path, tasks: Tasks) -> list[Path]:
        options = [{"id": name, "text": name} for name in tasks.classes]
        lines = []
        for task in tasks:
            texts = {name: value for name, value in task.shown.items() if name not in tasks.images}
            shown = {"image": task.shown[tasks.images[0]]} if tasks.images else {}
            if texts:
                several = "\n\n".join(f"{name}: {value}" for name, value in texts.items())
                shown["text"] = several if len(texts) > 1 else next(iter(texts.values()))
            line: dict[str, Any] = {ROW: task.row, **shown, "options": options, **task.marks}
            if task.suggestion is not None:
                line["accept"] = [task.suggestion]
            lines.append(json.dumps(line, ensure_ascii=False))
        write_text(path, "\n".join(lines) + "\n")
        return [path]

    def read_annotations(self, path: Path, layout: ExportLayout) -> list[Annotation]:
        lines = list(_lines(path))
        texts = _option_texts(lines, layout.classes, str(path))
        return [_annotation(line, texts, layout, f"{path}: line {n}") for n, line in enumerate(lines, 1)]


def _annotation(line: dict[str, Any], texts: dict[str, str], layout: ExportLayout, where: str) -> Annotation:
    answer, meta = entry(line, "answer", str, where), line.get("meta")
    row = layout.row_of({**meta, **line} if isinstance(meta, dict) else line, ROW, where)
    annotator = next((line[name] for name in _ANNOTATOR if line.get(name) is not None), None)
    binary = "accept" not in line and isinstance(line.get("label"), str)
    labels: Sequence[str] = ()
    if binary:
        others = [name for name in layout.classes if name != line["label"]]
        if answer == "accept":
            labels = (line["label"],)
        elif answer == "reject" and len(others) == 1 and len(layout.classes) == 2:
            labels = others
    elif answer == "accept":
        labels = [texts.get(str(option), str(option)) for option in entry(line, "accept", list, where)]
    reason = "" if labels else REASONS.get(answer, OPEN)
    return Annotation.read(row, annotator, labels, reason, binary or is_true(line.get(SHOWN)), line)


def _option_texts(lines: Sequence[dict[str, Any]], classes: Sequence[str], where: str) -> dict[str, str]:
    """Options' texts by their ids, where the ids are no classes and all the texts are."""
    listed = [each for line in lines for each in objects(line, "options", where)]
    texts = {str(each.get("id")): str(each.get("text")) for each in listed}
    by_text = texts and not set(texts) <= set(classes) and set(texts.values()) <= set(classes)
    return texts if by_text and len(set(texts.values())) == len(texts) else {}


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(read_export(path).split("\n"), 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except ValueError as error:
            raise UnderstudyError(f"{path}: line {number} is no JSON ({error}); export it again") from error
        if not isinstance(record, dict):
            raise UnderstudyError(f"{path}: line {number} is no object; export it again")
        yield record
