"""Gold and pool made of tables, with the featuriser that a run keeps.

    gold_table, pool_table = split_gold_pool(read_table("mine.csv"))       # one file for both
    featuriser = fit_featuriser(FeatureOptions(text="review"), pool_table, {"gold": gold_table, "test": test_table})
    pool = PoolFile.read(pool_table, featuriser, labelling)
    to_gold(gold_table, pool, featuriser=featuriser, labelling=labelling), to_pool(pool, without=[gold_table])
    features_of(new_table, featuriser)
    raw_features(["How do I reset my pin?"], featuriser)            # what a user has: texts, mappings, a frame, a file

One file may serve as gold and pool: rows with a label are gold, the others the pool. Gold rows of ``id, label`` take
their features and the teacher's labels from the pool by id. Whatever serves as gold, test or select leaves the pool.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from understudy.data.checks import check_finite, check_labels, check_memory
from understudy.data.examples import Gold, Pool
from understudy.data.fitted_rows import content_keys
from understudy.data.inputs import as_rows
from understudy.data.rows import MappedRows, Rows, SubsetRows, TensorRows
from understudy.errors import UnderstudyError
from understudy.features.featuriser import VALUES_FILE, FeatureOptions, Featuriser
from understudy.features.raw_columns import column_kind, is_empty, no_column
from understudy.features.tabular import Arrays, Numbers
from understudy.io.label_columns import DRAWN, SAW, SHOWN, Labelling, drawn_with, read_teacher, true_or_false
from understudy.io.readers import TableSource
from understudy.io.readers.arrays import columns_of_rows, holds_numbers
from understudy.io.table import LazyColumns, Table, read_table
from understudy.labels.class_names import EMPTY
from understudy.labels.forms import Labels
from understudy.store.arrow import Array, as_frame
from understudy.store.files import is_remote, split_part


def fit_featuriser(options: FeatureOptions, main: Table, others: Mapping[str, Table]) -> Featuriser:
    """Fitted on gold and pool (``main``: the pool, or gold where there is none), less the test and select rows."""
    held_out = [table for role, table in others.items() if role != "gold"]
    columns = _training_columns(main, others.get("gold"), held_out, options.image)
    return Featuriser.fit(columns, options, where=f"{main.path}", folder=main.folder)


def _training_columns(main: Table, gold: Table | None, held_out: list[Table], image: str | None) -> LazyColumns:
    """Columns of the training rows, read on access. Arrays and images are not fitted to and come as they are."""
    rows = main.rows_without(held_out)
    own = np.empty(0) if gold is None else np.flatnonzero(gold.rows_in(main) < 0)

    def read(name: str, role: str) -> Array:
        column = main.columns[name]
        if column.ndim > 1 or name == image:
            return column
        # All of them, where every row is held out: there are no others.
        if 0 < len(rows) < len(column):
            column = column[rows]
        if gold is None or name not in gold.names or not len(own):
            return column
        gold.expect({name: column_kind(column)})
        theirs = gold.columns[name][own]
        if is_empty(theirs) or is_empty(column):
            return theirs if is_empty(column) else column
        if column_kind(theirs) != column_kind(column):
            raise UnderstudyError(f"{gold.where(name)} and {main.where(name)} differ in type; say --types {name}=text")
        return np.concatenate([column, theirs])

    return LazyColumns(main.path, TableSource(tuple(main.names), len(rows), read), {name: name for name in main.names})


def features_of(table: Table, featuriser: Featuriser, *, lazily: bool = False) -> Rows:
    """The student's input for every row of a table, checked; columns are read as in training.

    ``lazily``: a memory-mapped file is not read through beforehand.
    """
    table.expect(featuriser.types)
    x = featuriser(table.columns, where=f"{table.path}", folder=table.folder)
    if isinstance(x, Rows):
        return x
    where = table.where(featuriser.names[0])
    if x.ndim > 1 and 0 in x.shape[1:]:
        raise UnderstudyError(f"{where} has empty rows; give at least one number")
    if x.dtype.kind != "f":
        check_memory(4 * x.size, f"{where} as 32-bit floats", cure="store floats")
        x = np.asarray(x, dtype=np.float32)
    rows = as_rows(x, where)
    if isinstance(rows, MappedRows) and not lazily and rows.x.is_floating_point():
        check_finite(rows.x, where)
    return rows


def raw_features(given: Any, featuriser: Featuriser, columns: Mapping[str, str] | None = None) -> Rows | None:
    """The student's input for raw rows, as a file, a frame, a list of texts, paths or mappings; None for arrays of
    numbers, which are features already. ``columns``: our names to theirs."""
    if isinstance(given, str) and not (is_remote(given) or split_part(given)[0].exists()):
        raise UnderstudyError(f"{given[:60]!r} is no file; pass rows in a list, also a single one: [row]")
    if not isinstance(given, str | Path | Mapping) and as_frame(given) is None:
        held = None if holds_numbers(given) else columns_of_rows(given, "", "rows")
        if held is None:
            return None
        if "" in held and len(featuriser.names) != 1:
            names = ", ".join(featuriser.names)
            raise UnderstudyError(f"the rows are single values; the model reads {names}: pass mappings or a frame")
    return features_of(read_table(given, columns=columns, name="rows", single=featuriser.names[0]), featuriser)


def load_featuriser(folder: Path, config: Mapping[str, Any], table: Table) -> Featuriser:
    """The featuriser stored in a run. A run made in Python has none: its features are numbers, as columns or ``x``."""
    if (folder / VALUES_FILE).exists():
        return Featuriser.load(folder)
    if isinstance(names := config.get("features"), list):
        zeros = np.zeros(len(names))
        return Featuriser([Numbers(tuple(names), zeros, zeros, scale=False, missing="error")], {})
    featuriser = Featuriser.fit(table.columns, FeatureOptions(scale=False), where=f"{table.path}", folder=table.folder)
    for part in featuriser.parts:
        if not isinstance(part, Arrays | Numbers):
            learned = f"column {part.names[0]!r} of {table.path}"
            raise UnderstudyError(f"{folder} does not say how {learned} becomes numbers; give a column x of numbers")
    return featuriser


def is_one_file(gold: Any, pool: Any) -> bool:
    """Whether gold and pool are the same file, or the same table in memory."""
    if isinstance(gold, str | Path) and isinstance(pool, str | Path):
        return os.path.realpath(gold) == os.path.realpath(pool)  # Path.resolve raises on a loop of links
    return gold is not None and gold is pool


def split_gold_pool(table: Table, classes: int | Sequence[str] | None = None) -> tuple[Table, Table]:
    """The rows with a label as a table of ``id, label``, and the whole table, whose ids are row numbers if it has none.

    Row numbers can be ids only here, where there is no other file whose order could differ.
    """
    if "label" not in table.names:
        why = " for your own labels (empty: a pool row); add it, or name it by --label (label=)"
        raise no_column(f"{table.path}", "label", table.names, why)
    labels, labelled = own_labels(table, classes)
    if not len(labelled):
        raise UnderstudyError(f"{table.where('label')} is empty in every row; label some, better a hundred or more")
    if "id" not in table.names:
        table.columns.add("id", np.arange(len(table)))
        table.numbered = True
    assert table.ids is not None
    gold = {"id": table.ids[labelled], "label": labels[labelled]}
    if DRAWN in table.names:
        gold[DRAWN] = table.columns[DRAWN][labelled]
    # Empty in pool rows.
    marks = [name for name in (SHOWN, "estimate_only") if name in table.names]
    gold |= {name: np.array(table.texts(name), dtype=object)[labelled] for name in marks}
    return table.with_columns(gold, labelled, "rows with a label"), table


def row_ids(table: Table, *, alone: bool) -> Any:
    """The ids of a table; the numbers of its rows where it has none and is ``alone`` gold and pool."""
    return np.arange(len(table)) if table.ids is None and alone else table.ids


def has_pool_rows(table: Table, classes: int | Sequence[str] | None = None) -> bool:
    """Whether a gold file has rows without a label, so that it is a pool as well; they must have a teacher's."""
    if "label" not in table.names:
        return False
    empty = np.setdiff1d(np.arange(len(table)), own_labels(table, classes)[1])
    if len(empty) and not table.teacher:
        rows = f"{table.where('label')} row {empty[0]} is empty ({len(empty):,} of {len(table):,} rows)"
        raise UnderstudyError(f"{rows}, and no other column holds labels; name the teacher's by --teacher")
    return len(empty) > 0


def own_labels(table: Table, classes: int | Sequence[str] | None = None) -> tuple[Array, Array]:
    """The column ``label`` of a table from a file, and the numbers of the rows where it is not empty (nor the number
    −1, unless one of ``classes`` has that name)."""
    labels = table.columns.with_gaps("label")
    if labels.dtype.kind in "OU":
        return labels, np.flatnonzero(labels != "")
    named = isinstance(classes, Sequence) and "-1" in classes
    return labels, np.flatnonzero((labels != EMPTY) & (named | (labels != -1)))


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
        why = ", the true class of every gold row; add it, or name it by --label (label=)"
        raise no_column(f"{table.path}", "label", table.names, why)
    labelling = labelling or Labelling()
    y = check_labels(labelling.numbers(table, "label"), table.where("label"))
    teacher = read_teacher(table, labelling)
    index = np.full(len(y), -1) if pool is None else table.rows_in(pool.table)
    if not _has_features(table, featuriser):
        gold = _with_features_of_pool(table, y, teacher, pool)
    else:
        gold = Gold.of(features_of(table, featuriser), y, teacher, ids=table.ids)
        if pool is not None and teacher is None and len(in_pool := np.flatnonzero(index >= 0)):
            _check_same_features(table, pool.table, index, featuriser)
            if pool.teacher is not None:
                labels = pool.teacher.take(torch.from_numpy(index[in_pool]))
                gold.mark_labelled(torch.from_numpy(in_pool), labels)
    if table.ids is None:
        gold.content_keys = np.array(content_keys(table.columns[name] for name in featuriser.names))
    if SHOWN in table.names:
        gold.chosen = _marks(table, SHOWN, "the annotator saw a suggestion")
    gold.chosen = gold.chosen | seen_by_teacher(table, None if pool is None else pool.table)
    if DRAWN in table.names:
        # A label that a suggestion has biased, or that the teacher knew, estimates nothing however it was drawn.
        drawn = drawn_with(table.columns[DRAWN].tolist(), table.where(DRAWN))
        gold.mark_drawn(drawn.masked_fill(gold.chosen, torch.nan))
    if "estimate_only" in table.names:
        marked = _marks(table, "estimate_only", "it estimates, never trains")
        gold.mark_estimate_only(marked, table.where("estimate_only"))
    return gold


def _with_features_of_pool(table: Table, y: Tensor, teacher: Labels | None, pool: PoolFile | None) -> Gold:
    if pool is None:
        raise UnderstudyError(f"{table.path} has no features and there is no pool file to take them from; add them")
    for part in (table, pool.table):
        if "id" not in part.names:
            raise UnderstudyError(f"{part.path} has no column 'id' to join by; add it, or features to the gold file")
    index = table.places_in(pool.table, "add the row there, or its features here")
    if teacher is None and pool.teacher is not None:
        teacher = pool.teacher.take(torch.from_numpy(index))
    return Gold.of(_take(pool.rows, index), y, teacher, ids=table.ids)


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


def _check_same_features(table: Table, pool: Table, index: Array, featuriser: Featuriser) -> None:
    """One id names one example: its raw columns are the same in both files."""
    here = np.flatnonzero(index >= 0)
    for name in featuriser.names:
        mine, theirs = table.columns[name][here], pool.columns[name][index[here]]
        same = mine == theirs
        if mine.dtype.kind == theirs.dtype.kind and mine.dtype.kind in "fM":
            same |= (mine != mine) & (theirs != theirs)  # both empty
        bad = np.flatnonzero(~np.asarray(same, dtype=bool).reshape(len(here), -1).all(1))
        if len(bad):
            row = int(here[bad[0]])
            held = f"{table.where('id')} row {row}: {table.shown_id(row)} has other features in {pool.path}"
            raise UnderstudyError(f"{held}; one id must name one example in all files: rename the ids of one")


def _take(rows: Rows, index: Array) -> Rows:
    chosen = torch.from_numpy(index)
    return TensorRows(rows.x[chosen]) if isinstance(rows, TensorRows) else SubsetRows(rows, chosen)


def _has_features(table: Table, featuriser: Featuriser) -> bool:
    """Whether the table has all features (True) or none; only some of them is an error."""
    present = [name for name in featuriser.names if name in table.names]
    if present and len(present) < len(featuriser.names):
        missing = next(name for name in featuriser.names if name not in table.names)
        raise no_column(f"{table.path}", missing, table.names, ", but other features: add it, or leave all out")
    return bool(present)
