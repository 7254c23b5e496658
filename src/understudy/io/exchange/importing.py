"""Imports labels: an LLM's batch outputs as the teacher's labels, or people's answers from another labelling tool.

    import_llm_answers([Path("answers.jsonl")], ["neg", "pos"], Path("labels.parquet"), echo=print)

Each file written gets its label history (``store/log.py``); ``echo`` gets a line about the outcome.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from understudy.errors import UnderstudyError, shown, warn
from understudy.io.answer_file import write_columns
from understudy.io.exchange import FORMS, TOOLS, find_tool
from understudy.io.exchange.annotations import Annotations, ExportLayout, collect_annotations
from understudy.io.readers.arrow_columns import object_column
from understudy.io.table import Stored, Table, read_table
from understudy.io.write import write_table
from understudy.labels.class_names import ClassNames
from understudy.labels.forms import Labels, named_columns
from understudy.labels.llm.answer_labels import Answers, read_answers
from understudy.store.copies import known_as
from understudy.store.files import check_new_file
from understudy.store.log import LabelHistory, file_version, history_beside
from understudy.store.remote import as_given

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
    if pool.ids is None:
        raise UnderstudyError(f"{pool.path} has no column 'id' to join the answers by; add it")
    Table(Path("the answers"), {"id": answers.ids}).check_spelling(pool)
    labels = answers.aligned(pool.ids)
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
        _write_answers(annotations, out, pool, form, where, echo)
    history, pinned = LabelHistory(history_beside(out)), {str(path): file_version(path) for path in files}
    for who in annotations.annotators:
        labels = {name: by[who] for name, by in annotations.by_row.items() if who in by}
        history.add("answered", f"{who} in {tool}", labels, files=pinned)


def _write_answers(
    annotations: Annotations, out: Path, pool: Path | None, form: str, where: str, echo: Echo
) -> None:  # fmt: skip
    if form == "agreed" and (left_out := len(annotations.disputed())):
        warn(f"{left_out} rows that people disagree on are left out; the rest is easier than the pool")
    columns = annotations.answers(form, where)
    if pool is not None:
        _rows_in(columns["id"], out, read_table(pool))
    write_columns(out, columns)
    echo(f"{len(columns['id']):,} answers: {out}")


def _write_votes(annotations: Annotations, out: Path, pool: Path | None, echo: Echo) -> None:
    columns = {name: object_column(cells) for name, cells in annotations.votes().items()}
    names = columns.pop("id")
    if pool is None:
        write_table(out, {"id": names} | columns)
    else:
        table = _unlabelled(pool, "leave --pool out")
        rows, stored = _rows_in(names.tolist(), out, table), _stored(table)
        for name, cells in columns.items():
            column = object_column([""] * len(table))
            column[rows] = cells
            stored[name] = column
        write_table(out, stored)
    echo(f"votes of {len(columns)} people on {len(names):,} rows: {out}")


def _unlabelled(path: Path, cure: str) -> Table:
    table = read_table(path)
    if labelled := [name for name in table.columns if name.startswith("teacher_")]:
        raise UnderstudyError(f"{table.where(labelled[0])} holds labels already; remove it, or {cure}")
    return table


def _stored(table: Table) -> dict[str, Stored]:
    return {name: table.stored(name) for name in table.names}


def _rows_in(names: Sequence[str], out: Path, table: Table) -> list[int]:
    """The row of each id in the pool file, which must have all."""
    if table.ids is None:
        raise UnderstudyError(f"{table.path} has no column 'id' to find the answers' rows by; add it")
    answers = Table(out, {"id": np.array(names, dtype=object)})
    answers.check_spelling(table)
    index = answers.rows_in(table)
    if (index < 0).any():
        wrong = names[int((index < 0).argmax())]
        missing = int((index < 0).sum())
        raise UnderstudyError(f"{missing} answers are for ids that {table.path} does not have ({wrong!r} …)")
    return list(index.tolist())
