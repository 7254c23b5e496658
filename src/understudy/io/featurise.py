"""From a table's columns to the student's input, with the featuriser that a run keeps.

featuriser = fit_featuriser(FeatureOptions(text="review"), pool_table, {"gold": gold_table, "test": test_table})
rows = features_of(new_table, featuriser)
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from understudy.data.checks import check_finite, check_memory
from understudy.data.inputs import as_rows
from understudy.data.rows import MappedRows, Rows
from understudy.errors import UnderstudyError
from understudy.features.featuriser import VALUES_FILE, FeatureOptions, Featuriser
from understudy.features.tabular import Arrays, Numbers, column_kind
from understudy.io.table import Table
from understudy.store.arrow import Array


def fit_featuriser(options: FeatureOptions, main: Table, others: Mapping[str, Table]) -> Featuriser:
    """Fitted on gold and pool (``main``: the pool, or gold where there is none), less the test and select rows."""
    held_out = [table for role, table in others.items() if role != "gold"]
    columns = TrainingColumns(main, others.get("gold"), held_out, options.image)
    return Featuriser.fit(columns, options, where=f"{main.path}", folder=main.folder)


def features_of(table: Table, featuriser: Featuriser, *, lazily: bool = False) -> Rows:
    """The student's input for every row of a table, checked; columns are read as in training.

    ``lazily``: a memory-mapped file is not read through beforehand.
    """
    table.expect(featuriser.types)
    x = featuriser(table.columns, where=f"{table.path}", folder=table.folder)
    if isinstance(x, Rows):
        return x
    if x.ndim > 1 and 0 in x.shape[1:]:
        raise UnderstudyError(f"{table.path}: the rows of {featuriser.names[0]!r} are empty; give at least one number")
    if x.dtype.kind != "f":
        check_memory(4 * x.size, f"{table.path}: column {featuriser.names[0]!r} as 32-bit floats", cure="store floats")
        x = np.asarray(x, dtype=np.float32)
    where = table.where(featuriser.names[0])
    rows = as_rows(x, where)
    if isinstance(rows, MappedRows) and not lazily and rows.x.is_floating_point():
        check_finite(rows.x, where)
    return rows


def load_featuriser(folder: Path, config: Mapping[str, Any], table: Table) -> Featuriser:
    """The featuriser stored in a run. A run made in Python has none: its features are numbers, as columns or ``x``."""
    if (folder / VALUES_FILE).exists():
        return Featuriser.load(folder)
    if isinstance(names := config.get("features"), list):
        zeros = np.zeros(len(names))
        return Featuriser([Numbers(tuple(names), zeros, zeros, scale=False, missing="error")], {})
    featuriser = Featuriser.fit(table.columns, FeatureOptions(scale=False), where=f"{table.path}", folder=table.folder)
    learned = [part.names[0] for part in featuriser.parts if not isinstance(part, Arrays | Numbers)]
    if learned:
        raise UnderstudyError(
            f"{folder} does not say how column {learned[0]!r} of {table.path} becomes numbers; give a column x of "
            "numbers per row, as the student takes them"
        )
    return featuriser


class TrainingColumns(Mapping[str, Array]):
    """Columns of the training rows, read on access. Arrays and images are not fitted to and come as they are."""

    def __init__(self, main: Table, gold: Table | None, held_out: list[Table], image: str | None) -> None:
        self.main, self.image = main, image
        self.rows = main.rows_without(held_out)
        self.gold, self.own = gold, None if gold is None else np.flatnonzero(gold.rows_in(main) < 0)

    def __getitem__(self, name: str) -> Array:
        column = self.main.columns[name]
        if column.ndim > 1 or name == self.image:
            return column
        # All of them, where every row is held out: there are no others.
        if 0 < len(self.rows) < len(column):
            column = column[self.rows]
        if self.gold is None or self.own is None or name not in self.gold.names or not len(self.own):
            return column
        self.gold.expect({name: column_kind(column)})
        theirs = self.gold.columns[name][self.own]
        if (theirs.dtype.kind in "OU") != (column.dtype.kind in "OU"):
            raise UnderstudyError(
                f"{self.gold.where(name)} and {self.main.where(name)} hold different kinds of values; use one kind, or "
                f"say which: --types {name}=text"
            )
        return np.concatenate([column, theirs])

    def __iter__(self) -> Iterator[str]:
        return iter(self.main.names)

    def __len__(self) -> int:
        return len(self.main.names)

    def __contains__(self, name: object) -> bool:
        return name in self.main.names
