"""Writes answers as the file that ``train --gold +FILE`` takes, as votes of several people, and the label history.

    write_answers(book, Path("batch-answers.csv"), rows=Path("batch.csv"))

A row's label is the majority's; where people tie, or all skipped, it is ``skip``, which trains nothing. ``chosen`` is
0 where the row is of a random sample, so that it may calibrate; ``suggestion_shown`` is true where a person saw a
suggestion, and then it never does. An earlier export is replaced, unless it was changed since.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from understudy.errors import UnderstudyError
from understudy.io.answer_file import SHOWN
from understudy.io.readers import object_column
from understudy.io.table import Stored
from understudy.io.write import WRITERS
from understudy.store.files import appearing_whole, digest
from understudy.store.log import LabelHistory, history_beside
from understudy.web.answer_book import AnswerBook, most_common
from understudy.web.cards import Cards

ANSWERS, VOTES = (".csv", ".parquet"), (".parquet", ".csv", ".jsonl")


@dataclass(frozen=True)
class AnswerExport:
    path: Path
    labelled: int
    skipped: int
    tied: int

    def __str__(self) -> str:
        parts = [f"{self.labelled:,} labels"]
        parts += [f"{self.skipped:,} skipped"] if self.skipped else []
        parts += [f"{self.tied:,} without a majority (skip)"] if self.tied else []
        return f"{', '.join(parts)}: {self.path}"


def write_answers(book: AnswerBook, path: Path, *, rows: Path | None = None) -> AnswerExport:
    """``rows``: the file of the rows, whose label history is continued."""
    given, chosen = book.given(), book.chosen()
    if not given:
        raise UnderstudyError(f"{book.path} holds no answers yet; label some rows first")
    nothing = next(word for word in ("skip", "nan", "-1") if word not in book.classes)
    labels = {id: most_common(line.label for line in people.values()) for id, people in given.items()}
    shown = [any(line.suggested for line in people.values()) for people in given.values()]
    columns: dict[str, Stored] = {
        "id": object_column(list(given)),
        "label": object_column([nothing if label is None else label for label in labels.values()]),
        "chosen": np.array([int(chosen[id]) for id in given]),
        SHOWN: object_column(["true" if mark else "false" for mark in shown]),
        "answers": np.array([len(people) for people in given.values()]),
    }
    _replace(book, path, columns, ANSWERS)
    _add_to_history(book, path, rows)
    open_ones = [id for id, label in labels.items() if label is None]
    tied = sum(any(line.label is not None for line in given[id].values()) for id in open_ones)
    return AnswerExport(path, len(labels) - len(open_ones), len(open_ones) - tied, tied)


def write_votes(book: AnswerBook, path: Path, cards: Cards) -> int:
    """Writes each person's labels as a column ``teacher_vote_NAME`` beside the rows: a pool that ``train``, ``audit``
    and ``reconcile`` read. Returns how many people there are."""
    given, people = book.given(), book.annotators()
    ids = [id for id in given if id in cards.places]
    if not ids:
        raise UnderstudyError(f"{book.path} holds no answers about rows of {cards.rows.path}; label some first")
    places = pa.array([cards.places[id] for id in ids])
    columns: dict[str, Stored] = {"id": object_column(ids)}
    for name in cards.features():
        stored = cards.shown.stored(name)
        columns[name] = stored.take(places) if isinstance(stored, pa.ChunkedArray) else stored[places.to_numpy()]
    for who in people:
        votes = [given[id][who].label if who in given[id] else None for id in ids]
        columns[f"teacher_vote_{who}"] = object_column([label or "" for label in votes])
    _replace(book, path, columns, VOTES)
    return len(people)


def check_export(book: AnswerBook, path: Path, kinds: tuple[str, ...] = ANSWERS) -> None:
    """Refuses a path where answers cannot be written; called before people begin, too."""
    if path.suffix.lower() not in kinds:
        raise UnderstudyError(f"{path}: answers are written as {' or '.join(kinds)}; end the name in one of them")
    if path.exists() and digest(path.read_bytes()) not in book.file.settings().get(_mark(path), ()):
        raise UnderstudyError(f"{path} was not written by {book.path}, or was changed since; name another file: --out")


def _mark(path: Path) -> str:
    return f"exported {path.absolute()}"


def _replace(book: AnswerBook, path: Path, columns: Mapping[str, Stored], kinds: tuple[str, ...]) -> None:
    check_export(book, path, kinds)
    with appearing_whole(path) as temporary:
        WRITERS[path.suffix.lower()](temporary, columns)
        with book.file.writing():
            # Both checksums, in case of a kill before the new file replaces the old one.
            before = book.file.settings().get(_mark(path), [])
            book.file.set_settings({_mark(path): [*before, digest(temporary.read_bytes())][-2:]})


def _add_to_history(book: AnswerBook, path: Path, rows: Path | None) -> None:
    """Adds what was answered, or undone, since the last export to the label history."""
    history = LabelHistory(history_beside(path))
    if rows is not None and not history.path.exists() and history_beside(rows).exists():
        history.append(LabelHistory(history_beside(rows)).entries())
    source = f"label page, {book.path.name}"
    before_by: dict[str, dict[str, Any]] = {}
    for entry in history.entries():
        if entry.get("source") == source:
            before_by.setdefault(entry["who"], {}).update(entry["answers"])
    now_by: dict[str, dict[str, str | None]] = {}
    for id, people in book.given().items():
        for who, line in people.items():
            now_by.setdefault(who, {})[id] = "skip" if line.label is None else line.label
    for who in sorted({*before_by, *now_by}):
        before, now = before_by.get(who, {}), now_by.get(who, {})
        new = {id: label for id, label in now.items() if before.get(id) != label}
        gone = {id: None for id, label in before.items() if label is not None and id not in now}
        if new:
            history.add("answered", source, new, who=who)
        if gone:
            history.add("taken back", source, gone, who=who)
