"""Gold and pool made of tables.

    gold_table, pool_table = split_gold_pool(read_table("mine.csv"))       # one file for both
    pool = PoolFile.read(pool_table, featuriser, labelling)
    to_gold(gold_table, pool, featuriser=featuriser, labelling=labelling), to_pool(pool, without=[gold_table])

One file may serve as gold and pool: rows with a label are gold, the others the pool. Gold rows of ``id, label`` take
their features and the teacher's labels from the pool by id. Whatever serves as gold, test or select leaves the pool.
"""

import os
from collections import ChainMap
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from understudy.data.checks import check_labels
from understudy.data.examples import Gold, Pool
from understudy.data.rows import Rows, SubsetRows, TensorRows
from understudy.errors import UnderstudyError
from understudy.features.featuriser import Featuriser
from understudy.io.answer_file import SHOWN, true_or_false
from understudy.io.featurise import features_of
from understudy.io.label_columns import SAW, Labelling, read_teacher
from understudy.io.table import LazyColumns, Table
from understudy.labels.forms import Labels
from understudy.store.arrow import Array


def is_one_file(gold: Any, pool: Any) -> bool:
    """Whether gold and pool are the same file, or the same table in memory."""
    if gold is None or pool is None:
        return False
    if isinstance(gold, str | Path) and isinstance(pool, str | Path):
        return os.path.realpath(gold) == os.path.realpath(pool)  # Path.resolve raises on a loop of links
    return gold is pool


def split_gold_pool(table: Table) -> tuple[Table, Table]:
    """The rows with a label as a table of ``id, label``, and the whole table, whose ids are row numbers if it has none.

    Row numbers can be ids only here, where there is no other file whose order could differ.
    """
    if "label" not in table.names:
        raise UnderstudyError(
            f"{table.path} is gold and pool, but has no column 'label' for your own labels (empty: a pool row); add "
            "it, or name it: --column label=NAME"
        )
    labels, labelled = own_labels(table)
    if not len(labelled):
        raise UnderstudyError(f"{table.where('label')} is empty in every row; label some, better a hundred or more")
    pool = table
    if "id" not in table.names:
        pool = table.with_columns(ChainMap(table.columns, {"id": np.arange(len(table))}))  # type: ignore[arg-type]
    ids = pool.ids
    assert ids is not None
    return table.with_columns({"id": ids[labelled], "label": labels[labelled]}), pool


def own_labels(table: Table) -> tuple[Array, Array]:
    """The column ``label`` of a table from a file, and the numbers of the rows where it is not empty."""
    assert isinstance(table.columns, LazyColumns)
    labels = table.columns.with_gaps("label")
    return labels, np.flatnonzero(labels != ("" if labels.dtype.kind in "OU" else -1))


@dataclass(frozen=True)
class PoolFile:
    """The pool file, read once: the source of what gold rows of ``id, label`` lack."""

    table: Table
    rows: Rows
    teacher: Labels | None

    @classmethod
    def read(cls, table: Table, featuriser: Featuriser, labelling: Labelling | None = None) -> "PoolFile":
        return cls(table, features_of(table, featuriser, lazily=True), read_teacher(table, labelling))


def to_gold(
    table: Table, pool: PoolFile | None = None, *, featuriser: Featuriser, labelling: Labelling | None = None
) -> Gold:
    """A table with ``label`` as gold; the features and the teacher's labels it lacks come from the pool by id."""
    if "label" not in table.names:
        raise UnderstudyError(f"{table.path} has no column 'label'; gold needs the true class of every row")
    gold, order = _without_marks(table, pool, featuriser, labelling or Labelling())
    if SHOWN in table.names:
        gold.chosen = _marks(table, SHOWN, "the annotator saw a suggestion")[order]
    gold.chosen = gold.chosen | seen_by_teacher(table, None if pool is None else pool.table)[order]
    if "estimate_only" in table.names:
        marked = _marks(table, "estimate_only", "it estimates, never trains")[order]
        gold.mark_estimate_only(marked, table.where("estimate_only"))
    return gold


def _without_marks(
    table: Table, pool: PoolFile | None, featuriser: Featuriser, labelling: Labelling
) -> tuple[Gold, Tensor]:
    """The table as gold, and the table's row of each of its rows."""
    file_order = torch.arange(len(table))
    y = check_labels(labelling.numbers(table, "label"), table.where("label"))
    index = np.full(len(y), -1) if pool is None else table.rows_in(pool.table)
    teacher = read_teacher(table, labelling)
    if _has_features(table, featuriser):
        gold = Gold.of(features_of(table, featuriser), y, teacher, ids=table.ids)
        if pool is None or teacher is not None:
            return gold, file_order
        return _with_labels_of_pool(gold, table, pool, index, featuriser)
    if pool is None:
        raise UnderstudyError(f"{table.path} has no features and there is no pool file to take them from; add them")
    for part in (table, pool.table):
        if "id" not in part.names:
            raise UnderstudyError(f"{part.path} has no column 'id' to join by; add it, or features to the gold file")
    if (index < 0).any():
        table.check_spelling(pool.table)
        row = int((index < 0).argmax())
        raise UnderstudyError(
            f"{table.where('id')} row {row}: {shown_id(table, row)} is not among the ids of {pool.table.path} (such as "
            f"{shown_id(pool.table, 0)}); add the row there, or its features here"
        )
    if teacher is None and pool.teacher is not None:
        teacher = pool.teacher.take(torch.from_numpy(index))
    return Gold.of(_take(pool.rows, index), y, teacher, ids=table.ids), file_order


def _marks(table: Table, name: str, meaning: str) -> Tensor:
    """A column of true or false, 1 or 0."""
    return torch.tensor(true_or_false(table.columns[name].tolist(), table.where(name), meaning))


def seen_by_teacher(table: Table, pool: Table | None) -> Tensor:
    """Rows whose label the teacher was shown, as a prompt's example, by the table itself or the pool file."""
    seen = torch.zeros(len(table), dtype=torch.bool)
    if SAW in table.names:
        seen |= _marks(table, SAW, "the teacher was shown its label")
    if pool is not None and SAW in pool.names:
        index = torch.from_numpy(table.rows_in(pool))
        seen |= _marks(pool, SAW, "the teacher was shown its label")[index] & (index >= 0)
    return seen


def to_pool(pool: PoolFile, *, without: Iterable[Table] = ()) -> Pool:
    """The pool without the rows whose id is in one of the tables ``without``. ``label`` is never read."""
    stays = pool.table.rows_without(without)
    if not len(stays):
        raise UnderstudyError(f"{pool.table.path}: every row also serves as gold, test or select; add other pool rows")
    whole = Pool.of(pool.rows, pool.teacher, pool.table.ids)
    return whole if len(stays) == len(whole.rows) else whole.take(torch.from_numpy(stays))


def shown_id(table: Table, row: int) -> str:
    value = table.ids[row] if table.ids is not None else None
    return repr(value.item() if isinstance(value, np.generic) else value)


def _with_labels_of_pool(
    gold: Gold, table: Table, pool: PoolFile, index: Array, featuriser: Featuriser
) -> tuple[Gold, Tensor]:
    """Gold with features of its own, and the teacher's labels of the rows that are also in the pool file, which come
    first; and the table's row of each."""
    here, rest = np.flatnonzero(index >= 0), np.flatnonzero(index < 0)
    file_order = torch.arange(len(gold))
    if gold.ids is None or not len(here):
        return gold, file_order
    _check_same_features(table, pool.table, here, index[here], featuriser)
    if pool.teacher is None:
        return gold, file_order
    teacher = pool.teacher.take(torch.from_numpy(index[here]))
    known = Gold.of(_take(gold.rows, here), gold.y[here], teacher, ids=gold.ids[here])
    order = torch.from_numpy(np.concatenate([here, rest]))
    return known.joined_to(gold.take(torch.from_numpy(rest))) if len(rest) else known, order


def _check_same_features(table: Table, pool: Table, here: Array, there: Array, featuriser: Featuriser) -> None:
    """One id names one example: its raw columns are the same in both files."""
    for name in featuriser.names:
        mine, theirs = table.columns[name][here], pool.columns[name][there]
        same = mine == theirs
        if mine.dtype.kind == theirs.dtype.kind == "f":
            same |= np.isnan(mine) & np.isnan(theirs)
        bad = np.flatnonzero(~np.asarray(same, dtype=bool).reshape(len(here), -1).all(1))
        if len(bad):
            row = int(here[bad[0]])
            raise UnderstudyError(
                f"{table.where('id')} row {row}: {shown_id(table, row)} has other features in {pool.path}; one "
                "id must name one example in all files (rename the ids of one, or leave the column out)"
            )


def _take(rows: Rows, index: Array) -> Rows:
    chosen = torch.from_numpy(index)
    return TensorRows(rows.x[chosen]) if isinstance(rows, TensorRows) else SubsetRows(rows, chosen)


def _has_features(table: Table, featuriser: Featuriser) -> bool:
    """Whether the table has all features (True) or none; only some of them is an error."""
    present = [name for name in featuriser.names if name in table.names]
    if present and len(present) < len(featuriser.names):
        missing = next(name for name in featuriser.names if name not in table.names)
        raise UnderstudyError(f"{table.path} has no column {missing!r}, but other features; add it, or leave all out")
    return bool(present)
