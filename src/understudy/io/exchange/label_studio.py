"""Label Studio: tasks and a labelling configuration out; its exports JSON, JSON-MIN, CSV and TSV in.

    [{"data": {"row_id": "17", "text": "…", "suggestion_shown": false}}, …]                     # tasks.json
    <View><Text name="text" value="$text"/><Choices name="label" toName="text" …>…</View>       # tasks.xml

https://labelstud.io/guide/task_format and /guide/export. Of its exports JSON says most. JSON-MIN and CSV leave out
what was cancelled and what was predicted, and their ``id`` may be the number of the task: rows are known by ``row_id``
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
from understudy.io.answers import SHOWN
from understudy.io.exchange import QUESTION, ROW
from understudy.io.exchange.entries import objects_in
from understudy.io.exchange.opinions import OPEN, Opinion, Reading, only_question, row_name, true_of
from understudy.io.exchange.tasks import Tasks
from understudy.store.files import read_json, write_json, write_text

KINDS = (".json",)
CANCELLED, EMPTY = "cancelled", "submitted without a class"
_ENDS = {".csv": ",", ".tsv": "\t"}


def write(path: Path, tasks: Tasks) -> list[Path]:
    """Tasks to import, and beside them the labelling configuration of the project."""
    first = next(iter(tasks.shown))
    content = []
    for task in tasks:
        entry: dict[str, Any] = {"data": {ROW: task.id, **task.shown, **task.marks}}
        if task.suggestion is not None:
            chosen = {"from_name": QUESTION, "to_name": first, "type": "choices"}
            result = {**chosen, "value": {"choices": [task.suggestion]}}
            score = {} if task.score is None else {"score": task.score}
            entry["predictions"] = [{"model_version": "teacher", **score, "result": [result]}]
        content.append(entry)
    config = path.with_suffix(".xml")
    write_text(config, _config(tasks, first))
    write_json(path, content)
    return [path, config]


def _config(tasks: Tasks, first: str) -> str:
    lines = ["<View>"]
    for name in tasks.shown:
        tag = "Image" if name in tasks.images else "Text"
        lines.append(f"  <{tag} name={quoteattr(name)} value={quoteattr('$' + name)}/>")
    lines.append(f'  <Choices name="{QUESTION}" toName={quoteattr(first)} choice="single" showInline="true">')
    lines += [f"    <Choice value={quoteattr(name)}/>" for name in tasks.classes]
    return "\n".join([*lines, "  </Choices>", "</View>", ""])


def read(path: Path, reading: Reading) -> list[Opinion]:
    suffix = path.suffix.lower()
    if suffix in _ENDS:
        return list(_from_small(_lines(path, _ENDS[suffix]), reading, path))
    content = read_json(path)
    if not isinstance(content, list) or not all(isinstance(task, dict) for task in content):
        raise UnderstudyError(f"{path} is no list of tasks; export the project as JSON, JSON-MIN or CSV")
    whole = [isinstance(task.get("data"), dict) for task in content]
    if not any(whole):
        return list(_from_small(content, reading, path))
    if not all(whole):
        raise UnderstudyError(f"{path}: task {whole.index(False)} has no 'data', others have; export it again")
    return list(_from_tasks(content, reading, path))


def _from_tasks(content: Sequence[dict[str, Any]], reading: Reading, path: Path) -> Iterator[Opinion]:
    places = [f"{path}: task {number}" for number in range(len(content))]
    annotated = [_annotations(task, where) for task, where in zip(content, places, strict=True)]
    found = (str(each.get("from_name")) for given in annotated for one in given for each in _choices(one))
    question, key = only_question(found, reading, str(path)), reading.row or ROW
    for task, annotations, where in zip(content, annotated, places, strict=True):
        data = task["data"]
        name = row_name(data.get(key), where, key)
        mine, chosen = true_of(data.get(SHOWN)), true_of(data.get("chosen"))
        if not annotations:
            yield Opinion(name, "", why=OPEN, open=True)
        for one in annotations:
            shown = mine or _suggested(task, one)
            labels = [
                str(label)
                for each in _choices(one)
                if str(each.get("from_name")) == question
                for label in _listed(each)
            ]
            why = CANCELLED if one.get("was_cancelled") or one.get("skipped") else "" if labels else EMPTY
            labels = [] if why else labels
            yield Opinion(name, _who(one.get("completed_by")), tuple(labels), why, False, shown, chosen)


def _annotations(task: Mapping[str, Any], where: str) -> list[dict[str, Any]]:
    given = objects_in(task, "annotations" if "annotations" in task else "completions", where)
    for one in given:
        objects_in(one, "result", where)
    return given


def _choices(annotation: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        each
        for each in annotation.get("result") or []
        if isinstance(each.get("value"), dict) and "choices" in each["value"]
    ]


def _listed(result: Mapping[str, Any]) -> list[Any]:
    choices = result["value"]["choices"]
    return choices if isinstance(choices, list) else [choices]


def _suggested(task: Mapping[str, Any], annotation: Mapping[str, Any]) -> bool | None:
    """Whether a prediction was there to be seen; None: the export has no word of predictions."""
    if task.get("predictions") or task.get("total_predictions") or annotation.get("parent_prediction") is not None:
        return True
    origins = [str(each.get("origin", "")) for each in annotation.get("result") or []]
    if annotation.get("prediction") or any(origin.startswith("prediction") for origin in origins):
        return True
    return False if "predictions" in task else None


def _who(value: Any) -> str:
    if isinstance(value, dict):
        value = value.get("email") or value.get("id")
    return "unknown" if value is None or value == "" else str(value)


def _from_small(lines: Sequence[Mapping[str, Any]], reading: Reading, path: Path) -> Iterator[Opinion]:
    """JSON-MIN and CSV: a line per annotation, the answer under the name of its question."""
    question, key = reading.question or QUESTION, reading.row or ROW
    if not any(question in line for line in lines):
        raise UnderstudyError(f"{path} has no entry {question!r}; name the one that holds the class: --question NAME")
    for number, line in enumerate(lines):
        name = row_name(line.get(key), f"{path}: entry {number}", key)
        if line.get("annotation_id") in (None, ""):
            yield Opinion(name, "", why=OPEN, open=True)
            continue
        labels = _small_labels(line.get(question), f"{path}: entry {number}")
        marks = true_of(line.get(SHOWN)), true_of(line.get("chosen"))
        yield Opinion(name, _who(line.get("annotator")), labels, "" if labels else EMPTY, False, *marks)


def _small_labels(value: Any, where: str) -> tuple[str, ...]:
    """One class as it is; several as {"choices": […]}, in CSV as the text of that."""
    if isinstance(value, str) and value.startswith('{"choices"'):
        try:
            value = json.loads(value)
        except ValueError as error:
            raise UnderstudyError(f"{where}: {value[:40]!r} is no JSON; export it again") from error
    if isinstance(value, dict):
        value = value.get("choices")
    if isinstance(value, list):
        return tuple(map(str, value))
    return () if value is None or value == "" else (str(value),)


def _lines(path: Path, end: str) -> list[dict[str, str]]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UnderstudyError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UnderstudyError(f"cannot read {path}: {error}; export it again") from error
    try:
        rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=end))
    except csv.Error as error:  # a cell beyond 128 KB, say
        raise UnderstudyError(f"cannot read {path}: {error}; export it as JSON") from error
    header, *body = rows or [[]]
    for number, row in enumerate(body):
        if len(row) != len(header):
            raise UnderstudyError(f"{path}: row {number} has {len(row)} cells, the header has {len(header)}")
    return [dict(zip(header, row, strict=True)) for row in body]
