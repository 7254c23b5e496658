"""Annotations read from another tool's export, one per person and row, and the gold labels or votes made of them.

    found = find_tool("label-studio").read_annotations(path, ExportLayout(("neg", "pos")))
    annotations = collect_annotations(found, ("neg", "pos"), aliases={}, where=str(path))
    annotations.answers("answers", where)   # id, label, suggestion_shown: a file for --gold +answers.csv
    annotations.votes()                     # id, teacher_vote_NAME: a pool with each person's label

Labels are matched literally, or by the aliases a user gives; a label that is no class is an error. A label given with
a suggestion in view is biased towards it and never estimates, so its row is marked; an export that does not record
whether a suggestion was shown counts as if one was.

``import_annotations`` and ``import_llm_answers`` write them, or an LLM's batch outputs, to a file with its label
history (``store/log.py``); ``echo`` gets a line about the outcome.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from understudy.errors import UnderstudyError, shown, warn
from understudy.features.raw_columns import TRUE
from understudy.io.exchange import FORMS, TOOLS, find_tool
from understudy.io.exchange.tasks import KNOWN_BY, rows_by_id
from understudy.io.label_columns import DRAWN, SHOWN
from understudy.io.table import Stored, Table, read_table
from understudy.io.write import write_columns, write_table
from understudy.labels.answer_labels import Answers, read_answers
from understudy.labels.class_names import ClassNames
from understudy.labels.forms import Labels, named_columns
from understudy.store.arrow import object_column
from understudy.store.files import as_given, check_new_file, known_as
from understudy.store.log import LabelHistory, file_version, history_beside

SKIP = "skip"
OPEN = "not answered"
UNKNOWN = "of unknown status (records.json does not say; save records.to_datasets() instead)"
SEVERAL = "more than one class, or a class and others"
T = TypeVar("T", list[Any], dict[str, Any], str)


@dataclass(frozen=True)
class Annotation:
    #: The row's id.
    row: str
    annotator: str = ""
    labels: tuple[str, ...] = ()
    #: Why there is no label; ``OPEN`` and ``UNKNOWN``: there may be one later.
    reason: str = ""
    #: Whether a suggestion was in view; None: the export does not say.
    shown: bool | None = None
    #: Whether a strategy picked the row; None: the task did not say.
    chosen: bool | None = None
    #: With which it was drawn, as the task has it; "": it does not say.
    probability: str = ""

    @classmethod
    def read(
        cls, row: str, annotator: Any, labels: Iterable[Any], reason: str, shown: bool | None, marks: Mapping[str, Any]
    ) -> "Annotation":
        """Values as they are in an export; ``marks``: where it keeps the marks of our task."""
        name = "unknown" if annotator is None or annotator == "" else str(annotator)
        drawn = "" if marks.get(DRAWN) is None else str(marks[DRAWN])
        given = () if reason else tuple(map(str, labels))
        return cls(row, name, given, reason, shown, is_true(marks.get("chosen")), drawn)

    @property
    def open(self) -> bool:
        """Whether no final answer was given, which is not the same as a skipped row."""
        return self.reason in (OPEN, UNKNOWN)


@dataclass(frozen=True)
class ExportLayout:
    """Which entries of an export hold the class and the row's id."""

    classes: Sequence[str]
    #: The name of the question for the class; None: the only one, or ours.
    question: str | None = None
    #: The entry that holds the row's id; None: the one we write.
    row: str | None = None

    def row_of(self, record: Mapping[str, Any], default: str, where: str) -> str:
        key = self.row or default
        value = record.get(key)
        if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
            raise UnderstudyError(f"{where} has no {key!r} with its row's id ({value!r}); say which has it: --id NAME")
        return str(value)

    def find_question(self, found: Iterable[str], where: str) -> str:
        """The question for the class, of those that were ``found``."""
        names = sorted(set(found))
        if self.question is not None:
            if names and self.question not in names:
                raise UnderstudyError(f"{where} asks {', '.join(names)}, not {self.question!r}; correct --question")
            return self.question
        if len(names) > 1:
            listed = f"{len(names)} questions ({', '.join(names)})"
            raise UnderstudyError(f"{where} asks {listed}; say which one: --question NAME")
        return names[0] if names else ""


@dataclass
class Annotations:
    classes: Sequence[str]
    #: Row, annotator, class (None: skipped, or contradictory answers).
    by_row: dict[str, dict[str, str | None]] = field(default_factory=dict)
    shown: dict[str, bool] = field(default_factory=dict)
    chosen: dict[str, bool | None] = field(default_factory=dict)
    probability: dict[str, str] = field(default_factory=dict)
    #: How many annotations gave no label, by reason.
    counts: Counter[str] = field(default_factory=Counter)

    @property
    def annotators(self) -> list[str]:
        return list(dict.fromkeys(name for labels in self.by_row.values() for name in labels))

    def disputed(self) -> list[str]:
        """Rows that annotators label differently."""
        return [row for row, labels in self.by_row.items() if len(_classes(labels)) > 1]

    def answers(self, form: str, where: str) -> dict[str, list[Any]]:
        """One label per row; disputed rows are an error, or left out where ``form`` is "agreed"."""
        disputed = set(self.disputed())
        if disputed and form != "agreed":
            differ = f"{len(disputed)} rows have different labels by several people ({min(disputed)!r} …)"
            raise UnderstudyError(f"{where}: {differ}; --as votes keeps all labels, --as agreed leaves these rows out")
        rows = [row for row in self.by_row if row not in disputed]
        skip = "-1" if SKIP in self.classes else SKIP
        labels = [next(iter(_classes(self.by_row[row])), skip) for row in rows]
        columns: dict[str, list[Any]] = {"id": rows, "label": labels}
        if any(self.chosen[row] is not None for row in rows):
            columns["chosen"] = [int(self.chosen[row] is not False) for row in rows]
        if any(self.probability[row] for row in rows):
            columns[DRAWN] = [self.probability[row] for row in rows]
        return columns | {SHOWN: [str(self.shown[row]).lower() for row in rows]}

    def votes(self) -> dict[str, list[Any]]:
        """Each person's label of each row; empty: none."""
        rows = self.by_row
        votes = {f"teacher_vote_{name}": [rows[row].get(name) or "" for row in rows] for name in self.annotators}
        return {"id": list(rows)} | votes

    def summary(self) -> str:
        """One line: how many rows have a label, and why others have none."""
        skipped, people = sum(not _classes(labels) for labels in self.by_row.values()), len(self.annotators)
        labelled = f"{len(self.by_row) - skipped:,} of {len(self.by_row):,} rows have a label"
        parts = [f"{labelled} ({people} {'person' if people == 1 else 'people'})"]
        parts += [f"{skipped:,} skipped"] if skipped else []
        parts += [f"{count:,} {reason}" for reason, count in self.counts.items() if count]
        shown = sum(self.shown.values())
        return "; ".join(parts) + (f"; {shown:,} with a suggestion in view, which never estimate" if shown else "")


def collect_annotations(
    found: Sequence[Annotation], classes: Sequence[str], *, aliases: Mapping[str, str], where: str
) -> Annotations:
    """Annotations by row and person, with their labels as classes."""
    meaning = _meanings(found, classes, aliases, where)
    result = Annotations(classes)
    contradictory: set[tuple[str, str]] = set()
    for each in found:
        if each.reason or len(each.labels) > 1:
            result.counts[each.reason or SEVERAL] += 1
        if each.open:
            continue
        label = meaning[each.labels[0]] if len(each.labels) == 1 else None
        labels, key = result.by_row.setdefault(each.row, {}), (each.row, each.annotator)
        if each.annotator in labels and key not in contradictory:
            same = labels[each.annotator] == label
            result.counts["repeated, same answer" if same else "by one person, different answers: none counts"] += 1
            if not same:
                contradictory.add(key)
        labels[each.annotator] = None if key in contradictory else label
        result.shown[each.row] = result.shown.get(each.row, False) or each.shown is not False
        result.probability[each.row] = each.probability
        if result.chosen.get(each.row) is not True:
            result.chosen[each.row] = each.chosen
    if not result.by_row:
        raise UnderstudyError(f"{where}: no row is labelled yet ({len(found)} entries); label some rows first")
    return result


def _meanings(
    found: Iterable[Annotation], classes: Sequence[str], aliases: Mapping[str, str], where: str
) -> dict[str, str | None]:
    """The class of every label that may occur; None: the row is skipped."""
    for label, name in aliases.items():
        if name not in classes and name != SKIP:
            raise UnderstudyError(f"--alias {label}={name}: {name!r} is none of the classes ({', '.join(classes)})")
    known = {name: name for name in classes} | dict(aliases)
    labels = Counter(label for each in found for label in each.labels if label not in known)
    if labels:
        listed = ", ".join(f"{label!r} {count} times" for label, count in list(labels.items())[:5])
        unknown = f"labels that are none of the classes ({', '.join(classes[:8])}): {listed}"
        raise UnderstudyError(f"{where}: {unknown}; say what they mean: --alias LABEL=CLASS (or =skip), or --classes")
    return {label: None if name == SKIP and SKIP not in classes else name for label, name in known.items()}


def _classes(labels: Mapping[str, str | None]) -> set[str]:
    return {label for label in labels.values() if label is not None}


def is_true(value: Any) -> bool | None:
    """One of our marks as an export holds it, perhaps as text; None: there is none."""
    return None if value is None or value == "" else str(value).strip().lower() in TRUE


def entry(record: Mapping[str, Any], name: str, kind: type[T], where: str) -> T:
    """An entry of a JSON object, of type ``kind``: empty where it is missing, an error where it is of another type."""
    value = record.get(name)
    if value is None:
        return kind()
    if not isinstance(value, kind):
        called = {list: "list", dict: "object", str: "text"}[kind]
        raise UnderstudyError(f"{where}: {name!r} is {str(value)[:40]!r}, which is no {called}; export it again")
    return value


def objects(record: Mapping[str, Any], name: str, where: str) -> list[dict[str, Any]]:
    """A list of objects under ``name``."""
    found = entry(record, name, list, where)
    for each in found:
        if not isinstance(each, dict):
            raise UnderstudyError(f"{where}: {name!r} holds {each!r}, which is no object; export it again")
    return found


Echo = Callable[[str], Any]


def import_llm_answers(
    files: Sequence[Path], classes: Sequence[str], out: Path, *, pool: Path | None = None,
    aliases: Mapping[str, str] | None = None, field: str | None = None, form: str = "auto", echo: Echo = print,
) -> None:  # fmt: skip
    """Writes the labels by id, or with ``pool`` that file with its labels."""
    check_new_file(out, "labels are", (".parquet", ".jsonl", ".npz"))
    answers = read_answers(files, classes, aliases=aliases or {}, field=field, form=form)
    echo(str(answers.report))
    if not len(answers):
        raise UnderstudyError("no answer could be used; check --classes against the examples above")
    if pool is None:
        write_table(out, {"id": answers.ids} | named_columns(answers.labels, answers.classes))
    else:
        table = _unlabelled(pool, "import without --pool")
        labels = _joined(answers, table, echo)
        write_table(out, _stored(table) | named_columns(labels, answers.classes))
    top = zip(answers.ids.tolist(), answers.labels.top1().tolist(), strict=True)
    history = {name: None if label < 0 else answers.classes[label] for name, label in top}
    pinned = {as_given(path): file_version(path) for path in files}
    LabelHistory(history_beside(out)).add("answered", ", ".join(map(known_as, files)), history, files=pinned)
    echo(shown(f"{len(answers):,} labels ({type(answers.labels).__name__.lower()}): {out}"))


def _joined(answers: Answers, pool: Table, echo: Echo) -> Labels:
    """The labels of the pool's rows."""
    labels = answers.aligned(pool.known_ids(KNOWN_BY))
    Table(Path("the answers"), {"id": answers.ids}).check_spelling(pool)
    matched = int(labels.labelled().sum())
    if not matched:
        raise UnderstudyError(f"no id of the answers is in {pool.path} ({answers.ids[0]!s} …); check both")
    echo(f"{matched:,} of {len(pool):,} rows of {pool.path} have a label")
    if matched < len(answers):
        echo(f"note: {len(answers) - matched:,} answers are for ids that {pool.path} does not have")
    return labels


def import_annotations(
    files: Sequence[Path], tool: str, classes: Sequence[str], out: Path, *, form: str = "answers",
    pool: Path | None = None, aliases: Mapping[str, str] | None = None, question: str | None = None,
    row: str | None = None, echo: Echo = print,
) -> None:  # fmt: skip
    """Writes people's answers in another tool as gold (``form`` answers or agreed), or as votes."""
    for given, known, flag in ((tool, TOOLS, "--from"), (form, FORMS, "--as")):
        if given not in known:
            raise UnderstudyError(f"{flag} {given!r} is not known; use one of {', '.join(known)}")
    check_new_file(out, "answers are", (".csv", ".parquet"))
    names, where = ClassNames(tuple(classes)).names, ", ".join(map(str, files))
    layout = ExportLayout(names, question, row)
    found = [one for file in files for one in find_tool(tool).read_annotations(file, layout)]
    annotations = collect_annotations(found, names, aliases=aliases or {}, where=where)
    echo(annotations.summary())
    if form == "votes":
        _write_votes(annotations, out, pool, echo)
    else:
        if form == "agreed" and (left_out := len(annotations.disputed())):
            warn(f"{left_out} rows that people disagree on are left out; the rest is easier than the pool")
        columns = annotations.answers(form, where)
        if pool is not None:
            rows_by_id(columns["id"], out, read_table(pool))
        write_columns(out, columns)
        echo(f"{len(columns['id']):,} answers: {out}")
    history, pinned = LabelHistory(history_beside(out)), {str(path): file_version(path) for path in files}
    for who in annotations.annotators:
        labels = {name: by[who] for name, by in annotations.by_row.items() if who in by}
        history.add("answered", f"{who} in {tool}", labels, files=pinned)


def _write_votes(annotations: Annotations, out: Path, pool: Path | None, echo: Echo) -> None:
    columns = {name: object_column(cells) for name, cells in annotations.votes().items()}
    names = columns.pop("id")
    if pool is None:
        write_table(out, {"id": names} | columns)
    else:
        table = _unlabelled(pool, "leave --pool out")
        rows, stored = rows_by_id(names.tolist(), out, table), _stored(table)
        for name, cells in columns.items():
            stored[name] = object_column([""] * len(table))
            stored[name][rows] = cells
        write_table(out, stored)
    echo(f"votes of {len(columns)} people on {len(names):,} rows: {out}")


def _unlabelled(path: Path, cure: str) -> Table:
    table = read_table(path)
    table.refuse_labels(f"remove it, or {cure}")
    return table


def _stored(table: Table) -> dict[str, Stored]:
    return {name: table.stored(name) for name in table.names}
