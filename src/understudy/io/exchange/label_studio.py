"""Label Studio: tasks and a labelling configuration out; its exports JSON, JSON-MIN, CSV and TSV in.

    [{"data": {"row_id": "17", "text": "…", "suggestion_shown": false}}, …]                     # tasks.json
    <View><Text name="text" value="$text"/><Choices name="label" toName="text" …>…</View>       # tasks.xml

https://labelstud.io/guide/task_format and /guide/export. JSON is the most complete export. JSON-MIN and CSV leave out
cancelled annotations and predictions, and their ``id`` may be the number of the task: rows are identified by ``row_id``
of the task's data alone. A prediction of a task counts as shown, whether or not the project's settings displayed it.
"""

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

from understudy.errors import UnderstudyError
from understudy.io.exchange import QUESTION, ROW
from understudy.io.exchange.annotations import OPEN, Annotation, ExportLayout, is_true, objects, read_export
from understudy.io.exchange.tasks import Tasks
from understudy.io.label_columns import SHOWN
from understudy.store.files import read_json, write_json, write_text

EMPTY = "submitted without a class"
_DELIMITERS = {".csv": ",", ".tsv": "\t"}


class LabelStudio:
    suffixes = (".json",)

    def write_tasks(self, path: Path, tasks: Tasks) -> list[Path]:
        """Tasks to import, and beside them the labelling configuration of the project."""
        first = next(iter(tasks.shown))
        content = []
        for task in tasks:
            entry: dict[str, Any] = {"data": {ROW: task.row, **task.shown, **task.marks}}
            if task.suggestion is not None:
                choices = {"from_name": QUESTION, "to_name": first, "type": "choices"}
                result = {**choices, "value": {"choices": [task.suggestion]}}
                score = {} if task.score is None else {"score": task.score}
                entry["predictions"] = [{"model_version": "teacher", **score, "result": [result]}]
            content.append(entry)
        config = path.with_suffix(".xml")
        write_text(config, _config(tasks, first))
        write_json(path, content)
        return [path, config]

    def read_annotations(self, path: Path, layout: ExportLayout) -> list[Annotation]:
        delimiter = _DELIMITERS.get(path.suffix.lower())
        if delimiter is not None:
            return list(_from_flat(_lines(path, delimiter), layout, path))
        content = read_json(path)
        if not isinstance(content, list) or not all(isinstance(task, dict) for task in content):
            raise UnderstudyError(f"{path} is no list of tasks; export the project as JSON, JSON-MIN or CSV")
        is_task = [isinstance(task.get("data"), dict) for task in content]
        if not any(is_task):
            return list(_from_flat(content, layout, path))
        if not all(is_task):
            raise UnderstudyError(f"{path}: task {is_task.index(False)} has no 'data', others have; export it again")
        return list(_from_tasks(content, layout, path))


def _config(tasks: Tasks, first: str) -> str:
    lines = ["<View>"]
    for name in tasks.shown:
        tag = "Image" if name in tasks.images else "Text"
        lines.append(f"  <{tag} name={quoteattr(name)} value={quoteattr('$' + name)}/>")
    lines.append(f'  <Choices name="{QUESTION}" toName={quoteattr(first)} choice="single" showInline="true">')
    lines += [f"    <Choice value={quoteattr(name)}/>" for name in tasks.classes]
    return "\n".join([*lines, "  </Choices>", "</View>", ""])


def _from_tasks(content: Sequence[dict[str, Any]], layout: ExportLayout, path: Path) -> Iterator[Annotation]:
    places = [f"{path}: task {number}" for number in range(len(content))]
    annotated = [_annotations(task, where) for task, where in zip(content, places, strict=True)]
    found = (question for given in annotated for each in given for question, _ in _choices(each))
    question = layout.find_question(found, str(path))
    for task, annotations, where in zip(content, annotated, places, strict=True):
        row = layout.row_of(task["data"], ROW, where)
        if not annotations:
            yield Annotation(row, reason=OPEN)
        for each in annotations:
            labels = [label for name, choices in _choices(each) if name == question for label in choices]
            cancelled = each.get("was_cancelled") or each.get("skipped")
            reason = "cancelled" if cancelled else "" if labels else EMPTY
            shown = is_true(task["data"].get(SHOWN)) or _suggested(task, each)
            yield Annotation.read(row, _annotator(each.get("completed_by")), labels, reason, shown, task["data"])


def _annotations(task: Mapping[str, Any], where: str) -> list[dict[str, Any]]:
    given = objects(task, "annotations" if "annotations" in task else "completions", where)
    for each in given:
        objects(each, "result", where)
    return given


def _choices(annotation: Mapping[str, Any]) -> Iterator[tuple[str, list[Any]]]:
    """The questions that were answered by a choice, and the choices."""
    for result in annotation.get("result") or []:
        value = result.get("value")
        if isinstance(value, dict) and "choices" in value:
            choices = value["choices"]
            yield str(result.get("from_name")), choices if isinstance(choices, list) else [choices]


def _suggested(task: Mapping[str, Any], annotation: Mapping[str, Any]) -> bool | None:
    """Whether a prediction could be seen; None: the export does not mention predictions."""
    if task.get("predictions") or task.get("total_predictions") or annotation.get("parent_prediction") is not None:
        return True
    origins = [str(each.get("origin", "")) for each in annotation.get("result") or []]
    if annotation.get("prediction") or any(origin.startswith("prediction") for origin in origins):
        return True
    return False if "predictions" in task else None


def _annotator(value: Any) -> Any:
    return (value.get("email") or value.get("id")) if isinstance(value, dict) else value


def _from_flat(lines: Sequence[Mapping[str, Any]], layout: ExportLayout, path: Path) -> Iterator[Annotation]:
    """JSON-MIN and CSV: a line per annotation, the answer under the name of its question."""
    question = layout.question or QUESTION
    if not any(question in line for line in lines):
        raise UnderstudyError(f"{path} has no entry {question!r}; add --question NAME, the entry that holds the class")
    for number, line in enumerate(lines):
        where = f"{path}: entry {number}"
        row = layout.row_of(line, ROW, where)
        if line.get("annotation_id") in (None, ""):
            yield Annotation(row, reason=OPEN)
            continue
        labels = _flat_labels(line.get(question), where)
        reason, shown = "" if labels else EMPTY, is_true(line.get(SHOWN))
        yield Annotation.read(row, _annotator(line.get("annotator")), labels, reason, shown, line)


def _flat_labels(value: Any, where: str) -> list[Any]:
    """One class as it is; several as {"choices": […]}, in CSV as the text of that."""
    if isinstance(value, str) and value.startswith('{"choices"'):
        try:
            value = json.loads(value)
        except ValueError as error:
            raise UnderstudyError(f"{where}: {value[:40]!r} is no JSON; export it again") from error
    if isinstance(value, dict):
        value = value.get("choices")
    if isinstance(value, list):
        return value
    return [] if value is None or value == "" else [value]


def _lines(path: Path, delimiter: str) -> list[dict[str, str]]:
    try:
        rows = list(csv.reader(io.StringIO(read_export(path), newline=""), delimiter=delimiter))
    except csv.Error as error:  # a cell beyond 128 KB, say
        raise UnderstudyError(f"cannot read {path}: {error}; export it as JSON") from error
    header, *body = rows or [[]]
    for number, row in enumerate(body):
        if len(row) != len(header):
            raise UnderstudyError(f"{path}: row {number} has {len(row)} cells, the header has {len(header)}")
    return [dict(zip(header, row, strict=True)) for row in body]
