"""Tools that exchange files of JSON: Label Studio and Prodigy.

Label Studio: tasks and a labelling configuration out; its exports JSON, JSON-MIN, CSV and TSV in.

    [{"data": {"row_id": "17", "text": "…", "suggestion_shown": false}}, …]                     # tasks.json
    <View><Text name="text" value="$text"/><Choices name="label" toName="text" …>…</View>       # tasks.xml

https://labelstud.io/guide/task_format and /guide/export. JSON is the most complete export. JSON-MIN and CSV leave out
cancelled annotations and predictions, and their ``id`` may be the number of the task: rows are identified by ``row_id``
of the task's data alone. A prediction of a task counts as shown, whether or not the project's settings displayed it.

Prodigy: JSON lines for its ``choice`` interface out; what ``prodigy db-out`` writes in.

    {"row_id": "17", "text": "…", "options": [{"id": "neg", "text": "neg"}, …], "suggestion_shown": false}
    prodigy mark DATASET tasks.jsonl --view-id choice

``_input_hash`` and ``_task_hash`` are added by Prodigy. A suggestion is an option that is preselected (``accept``). In
an export, ``answer`` "accept" counts the options of ``accept``; "ignore" and "reject" (of the task) skip the row. In
the binary interface (``label``, and yes or no) the label itself is a suggestion; "reject" then means the other class,
where there are two.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

from understudy.errors import UnderstudyError
from understudy.io.exchange import QUESTION, ROW
from understudy.io.exchange.annotations import OPEN, Annotation, ExportLayout, entry, is_true, objects
from understudy.io.exchange.tasks import Tasks
from understudy.io.label_columns import SHOWN
from understudy.io.readers import reading
from understudy.io.readers.csv_jsonl import json_batches
from understudy.io.table import text_columns
from understudy.store.files import read_json, write_json, write_text

EMPTY = "submitted without a class"
_REASONS = {"accept": "accepted without a class", "reject": "rejected", "ignore": "ignored"}


class LabelStudio:
    suffixes = (".json",)

    def write_tasks(self, path: Path, tasks: Tasks) -> list[Path]:
        """Tasks to import, and beside them the labelling configuration of the project."""
        first = tasks.shown[0]
        content = []
        for task in tasks.items:
            line: dict[str, Any] = {"data": {ROW: task.row, **task.shown, **task.marks}}
            if task.suggestion is not None:
                choices = {"from_name": QUESTION, "to_name": first, "type": "choices"}
                result = {**choices, "value": {"choices": [task.suggestion]}}
                score = {} if task.score is None else {"score": task.score}
                line["predictions"] = [{"model_version": "teacher", **score, "result": [result]}]
            content.append(line)
        config = path.with_suffix(".xml")
        write_text(config, _config(tasks, first))
        write_json(path, content)
        return [path, config]

    def read_annotations(self, path: Path, layout: ExportLayout) -> list[Annotation]:
        if path.suffix.lower() in (".csv", ".tsv"):
            columns = text_columns(path)
            lines = [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]
            return list(_from_flat(lines, layout, path))
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
    annotated = []
    for number, task in enumerate(content):
        where = f"{path}: task {number}"
        given = objects(task, "annotations" if "annotations" in task else "completions", where)
        annotated.append([(each, objects(each, "result", where)) for each in given])
    found = (question for answers in annotated for _, results in answers for question, _ in _choices(results))
    question = layout.find_question(found, str(path))
    for number, (task, answers) in enumerate(zip(content, annotated, strict=True)):
        row = layout.row_of(task["data"], ROW, f"{path}: task {number}")
        if not answers:
            yield Annotation(row, reason=OPEN)
        for each, results in answers:
            labels = [label for name, choices in _choices(results) if name == question for label in choices]
            cancelled = each.get("was_cancelled") or each.get("skipped")
            reason = "cancelled" if cancelled else "" if labels else EMPTY
            shown = is_true(task["data"].get(SHOWN)) or _suggested(task, each)
            yield Annotation.read(row, _annotator(each.get("completed_by")), labels, reason, shown, task["data"])


def _choices(results: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, list[Any]]]:
    """The questions that were answered by a choice, and the choices."""
    for result in results:
        value = result.get("value")
        if isinstance(value, dict) and "choices" in value:
            choices = value["choices"]
            yield str(result.get("from_name")), choices if isinstance(choices, list) else [choices]


def _suggested(task: Mapping[str, Any], annotation: Mapping[str, Any]) -> bool | None:
    """Whether a prediction could be seen; None: the export does not mention predictions."""
    predicted = task.get("predictions") or task.get("total_predictions") or annotation.get("prediction")
    results = annotation.get("result") or []
    origins = any(str(each.get("origin", "")).startswith("prediction") for each in results)
    if predicted or origins or annotation.get("parent_prediction") is not None:
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


class Prodigy:
    suffixes = (".jsonl",)

    def write_tasks(self, path: Path, tasks: Tasks) -> list[Path]:
        options = [{"id": name, "text": name} for name in tasks.classes]
        lines = []
        for task in tasks.items:
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
        with reading(path):
            lines = [line for batch in json_batches(path) for line in batch]
        listed = [each for line in lines for each in objects(line, "options", str(path))]
        texts = {str(each.get("id")): str(each.get("text")) for each in listed}
        classes = set(layout.classes)
        # Options' texts by their ids, where the ids are no classes and all the texts are.
        if set(texts) <= classes or not set(texts.values()) <= classes or len(set(texts.values())) < len(texts):
            texts = {}
        return [_annotation(line, texts, layout, f"{path}: line {n}") for n, line in enumerate(lines, 1)]


def _annotation(line: dict[str, Any], texts: dict[str, str], layout: ExportLayout, where: str) -> Annotation:
    answer, meta = entry(line, "answer", str, where), line.get("meta")
    row = layout.row_of({**meta, **line} if isinstance(meta, dict) else line, ROW, where)
    annotators = (line[name] for name in ("_annotator_id", "_session_id") if line.get(name) is not None)
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
    reason = "" if labels else _REASONS.get(answer, OPEN)
    return Annotation.read(row, next(annotators, None), labels, reason, binary or is_true(line.get(SHOWN)), line)
