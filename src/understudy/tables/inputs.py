"""From a table's raw columns to the student's input, by a featuriser that was fitted on training rows only."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from understudy.data.memory import check_memory
from understudy.data.rows import Rows, as_rows
from understudy.errors import UnderstudyError
from understudy.featurise.choose import FeatureOptions
from understudy.featurise.featuriser import VALUES_FILE, Featuriser
from understudy.featurise.tabular import Arrays, Numbers
from understudy.store.arrow import Array
from understudy.tables.table import Table


def fit_featuriser(
    options: FeatureOptions, gold: Table | None, pool: Table | None, held_out: list[Table]
) -> Featuriser:
    """Fitted on gold and pool, less the rows that serve for testing or selecting."""
    main = pool if pool is not None else gold
    assert main is not None
    columns = TrainingColumns(main, gold if gold is not main else None, held_out, options.image)
    return Featuriser.fit(columns, options, where=f"{main.path}", folder=main.folder)


def features_of(table: Table, featuriser: Featuriser) -> Rows:
    """The student's input for every row of a table, checked."""
    x = featuriser(table.columns, where=f"{table.path}", folder=table.folder)
    if isinstance(x, Rows):
        return x
    if x.ndim > 1 and 0 in x.shape[1:]:
        raise UnderstudyError(f"{table.path}: the rows of {featuriser.names[0]!r} are empty; give at least one number")
    if x.dtype.kind != "f":
        check_memory(4 * x.size, f"{table.path}: column {featuriser.names[0]!r} as 32-bit floats", cure="store floats")
        x = np.asarray(x, dtype=np.float32)
    return as_rows(x, table.where(featuriser.names[0]))


def load_featuriser(folder: Path, config: Mapping[str, Any], table: Table) -> Featuriser:
    """The one stored in a run; runs made in Python, or before there were such, say or show what they took."""
    if (folder / VALUES_FILE).exists():
        return Featuriser.load(folder)
    features = config.get("features")
    if isinstance(features, str):
        if features not in table:
            raise UnderstudyError(f"{table.path} has no column {features!r}, which is a feature; add it")
        return Featuriser([Arrays(features, table.columns[features].shape[1:])])
    if features is not None:
        zeros = np.zeros(len(features))
        return Featuriser([Numbers(tuple(features), zeros, zeros, scale=False, missing="error")])
    featuriser = Featuriser.fit(table.columns, FeatureOptions(scale=False), where=f"{table.path}", folder=table.folder)
    learned = [part.names[0] for part in featuriser.parts if not isinstance(part, Arrays | Numbers)]
    if learned:
        raise UnderstudyError(
            f"{folder} does not say how column {learned[0]!r} of {table.path} becomes numbers; give a column x of "
            "numbers per row, as the student takes them"
        )
    return featuriser


def rows_for(run: Path, config: Mapping[str, Any], table: Table) -> Rows:
    """A table's rows as the student of a run (its folder and its config) takes them."""
    return features_of(table, load_featuriser(run, config, table))


class TrainingColumns(Mapping[str, Array]):
    """Columns of the training rows. Arrays and images are not fitted, only looked at, and come as they are."""

    def __init__(self, main: Table, gold: Table | None, held_out: list[Table], image: str | None) -> None:
        self.main, self.image = main, image
        held = main.shared_with(held_out)
        self.rows = np.flatnonzero(~held) if held.any() and not held.all() else None
        self.gold, self.own = gold, None
        if gold is not None:
            joined = "id" in gold and "id" in main
            self.own = np.flatnonzero(gold.rows_in(main) < 0) if joined else np.arange(len(gold))

    def __getitem__(self, name: str) -> Array:
        column = self.main.columns[name]
        if column.ndim > 1 or name == self.image:
            return column
        if self.rows is not None:
            column = column[self.rows]
        if self.gold is None or self.own is None or name not in self.gold or not len(self.own):
            return column
        theirs = self.gold.columns[name][self.own]
        if (theirs.dtype.kind in "OU") != (column.dtype.kind in "OU"):
            raise UnderstudyError(
                f"{self.gold.where(name)} and {self.main.where(name)} hold different kinds of values; use one kind"
            )
        return np.concatenate([column, theirs])

    def __iter__(self) -> Iterator[str]:
        return iter(self.main.columns)

    def __len__(self) -> int:
        return len(self.main.columns)

    def __contains__(self, name: object) -> bool:
        return name in self.main.columns
