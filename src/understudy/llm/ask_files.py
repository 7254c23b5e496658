"""The files of ``understudy ask``: the rows to label, the gold rows to show as examples, and the labels."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch

from understudy.data.checks import is_index, is_reserved
from understudy.errors import UnderstudyError
from understudy.io.gold_pool import is_one_file, split_gold_pool
from understudy.io.label_columns import SAW
from understudy.io.table import Stored, Table, read_table
from understudy.io.write import WRITERS
from understudy.labels.forms import Labels, Votes, named_columns
from understudy.llm.answer_folder import Labelled
from understudy.llm.asking import AskRun
from understudy.llm.request import AskPlan, Row
from understudy.store.files import appearing_whole

POOL, GOLD = "pool.parquet", "gold.parquet"


@dataclass
class AskFiles:
    pool: Table
    gold: Table | None
    classes: Sequence[str]
    #: The column of texts; None where the user's prompt shows other columns.
    text: str | None
    #: Of the pool's rows, then of the gold rows that are not in the pool.
    ids: list[Any]
    rows: list[Row]
    #: The label of every gold row, by its index in ``rows``; in the order of gold.
    truth: dict[int, str] = field(default_factory=dict)
    #: The gold rows that are not in the pool, by their index in gold.
    own: Sequence[int] = ()

    @classmethod
    def read(
        cls, pool: Path, gold: Path | None, classes: Sequence[str], *, text: str | None, columns: Mapping[str, str],
        as_rows: bool,
    ) -> Self:  # fmt: skip
        table = read_table(pool, columns=columns)
        trusted = None if gold is None or is_one_file(gold, pool) else read_table(gold, columns=columns)
        if gold is not None and trusted is None:
            trusted, table = split_gold_pool(table)
        _check_unlabelled(table)
        ids = table.ids
        if ids is None:
            raise UnderstudyError(f"{pool} has no column 'id' by which rows are known; add it")
        name = text or _text_column(table, required=not as_rows)
        files = cls(table, trusted, classes, name, ids.tolist(), _rows(table, name, as_rows))
        if trusted is not None:
            files._add_gold(trusted, as_rows)
        return files

    def _add_gold(self, gold: Table, as_rows: bool) -> None:
        if "label" not in gold.names:
            raise UnderstudyError(f"{gold.path} has no column 'label'; gold needs the true class of every row")
        _check_unlabelled(gold)
        gold.check_spelling(self.pool)
        places = gold.rows_in(self.pool).tolist()
        self.own = [row for row, place in enumerate(places) if place < 0]
        if self.own and self.text is not None and self.text not in gold.names:
            raise UnderstudyError(
                f"{gold.path} row {self.own[0]} is not in {self.pool.path}, and there is no column {self.text!r} with "
                "its text; add the row there, or its text here"
            )
        if self.own:
            theirs = _rows(gold, self.text, as_rows)
            names = [f"gold:{row}" for row in range(len(gold))] if gold.ids is None else gold.ids.tolist()
            start = len(self.rows)
            self.rows += [theirs[row] for row in self.own]
            self.ids += [names[row] for row in self.own]
            if len({type(name) for name in self.ids}) > 1:
                self.ids = [str(name) for name in self.ids]
            for place, row in enumerate(self.own, start):
                places[row] = place
        labels = [str(label).strip() for label in gold.columns["label"].tolist()]
        unknown = [label for label in labels if label not in self.classes]
        if unknown:
            raise UnderstudyError(f"{gold.where('label')} holds {unknown[0]!r}, which --classes does not name")
        self.truth = dict(zip(places, labels, strict=True))

    def examples(self, count: int, seed: int) -> list[int]:
        """Indices of gold rows to show, drawn at random, balanced over classes."""
        if count > len(self.truth):
            cure = "name gold by --gold" if self.gold is None else "take fewer"
            raise UnderstudyError(f"--examples {count}: there are {len(self.truth)} gold rows; {cure}")
        draw = random.Random(seed)
        by_class = {name: [place for place in sorted(self.truth) if self.truth[place] == name] for name in self.classes}
        for places in by_class.values():
            draw.shuffle(places)
        shown: list[int] = []
        while len(shown) < count:
            turn = [places.pop() for places in by_class.values() if places]
            draw.shuffle(turn)
            shown += turn
        return shown[:count]

    def example(self, place: int) -> tuple[Row, str]:
        return self.rows[place], self.truth[place]

    def run(self, plan: AskPlan, out: Path, shown: Sequence[int]) -> AskRun:
        """The run over every row but those that are shown."""
        left = set(shown)
        places = [place for place in range(len(self.rows)) if place not in left]
        return AskRun([self.rows[place] for place in places], [self.ids[place] for place in places], plan, out)

    def write(self, out: Path, found: Labelled, shown: Sequence[int]) -> None:
        """Writes the pool with its labels, and gold where it has rows that are not in the pool."""
        if not bool(found.labels.labelled().any()):
            return
        row_of = {str(name): row for row, name in enumerate(found.ids.tolist())}
        at = torch.tensor([row_of.get(str(name), -1) for name in self.ids])
        labels = found.labels.take(at.clamp(min=0)).without(at < 0)
        saw = np.zeros(len(self.rows), dtype=bool)
        saw[list(shown)] = True
        rows = len(self.pool)
        _write(out / POOL, self.pool, labels.take(torch.arange(rows)), saw[:rows], found)
        if self.own and self.gold is not None:
            places = list(self.truth)
            _write(out / GOLD, self.gold, labels.take(torch.tensor(places)), saw[places], found)


def _write(path: Path, table: Table, labels: Labels, saw: Any, found: Labelled) -> None:
    columns: dict[str, Stored] = {name: table.stored(name) for name in table.names}
    if "id" not in columns and table.ids is not None:
        columns = {"id": table.ids, **columns}
    columns |= _vote_columns(labels, found) if isinstance(labels, Votes) else named_columns(labels, found.classes)
    if saw.any():
        columns[SAW] = saw
    with appearing_whole(path) as temporary:
        WRITERS[path.suffix](temporary, columns)


def _vote_columns(labels: Votes, found: Labelled) -> dict[str, Stored]:
    """A column of class names for each model."""
    names = np.array([*found.classes, ""], dtype=object)
    votes = labels.votes.long().numpy()
    return {f"teacher_vote_{model}": names[votes[:, number]] for number, model in enumerate(found.sources)}


def _check_unlabelled(table: Table) -> None:
    labelled = [name for name in table.names if name.startswith("teacher_")]
    if labelled:
        raise UnderstudyError(f"{table.where(labelled[0])} holds labels already; remove it first")


def _text_column(table: Table, *, required: bool) -> str | None:
    """The column called text, or else the only one of texts."""
    if "text" in table.names:
        return "text"
    others = [name for name in table.names if not (is_reserved(name) or is_index(name))]
    texts = [name for name in others if table.columns[name].dtype.kind in "OU"]
    if len(texts) == 1:
        return texts[0]
    if required:
        raise UnderstudyError(
            f"{table.path} has {len(texts)} columns of texts ({', '.join(texts)}); name one by --text"
        )
    return None


def _rows(table: Table, text: str | None, as_rows: bool) -> list[Row]:
    """Texts, or for the user's prompt all columns by name; never labels."""
    if text is not None and text not in table.names:
        raise UnderstudyError(f"{table.path} has no column {text!r}; name the one with the texts by --text")
    if text is not None:
        table.expect({text: "texts"})
        texts = table.columns[text].tolist()
        empty = [row for row, value in enumerate(texts) if value is None or not str(value).strip()]
        if empty:
            raise UnderstudyError(
                f"{table.where(text)} row {empty[0]} is empty ({len(empty)} such rows); fill or drop it"
            )
        if not as_rows:
            return [str(value) for value in texts]
    names = [name for name in table.names if not (is_index(name) or (is_reserved(name) and name != "id"))]
    columns = {name: table.columns[name].tolist() for name in names}
    if text is not None:
        columns["text"] = columns[text]
    return [{name: column[row] for name, column in columns.items()} for row in range(len(table))]
