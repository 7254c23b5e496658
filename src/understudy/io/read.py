"""Gold and pool from files, or from frames in memory, by the names of their columns.

    examples = read_examples(gold="gold.parquet", pool="pool.parquet", test="test.csv")
    examples = read_examples(gold=pandas_frame, pool=polars_frame)         # or Arrow, datasets, mappings of arrays
    us.train(student, examples.gold, examples.pool, us.slam(), test=examples.test, epochs=30)

Columns: ``id`` (optional; numbers or text); the features (``x``, numbers, categories, ``text``, ``image``: see
``featurise``); ``label``, the truth, as class names or as numbers from 0; the teacher's word in one of the forms of
``io/labelling.py``; in gold, ``estimate_only`` (true or false): rows that measure the teacher and never train, and
``suggestion_shown``: rows whose label was given with a suggestion in view, which train and never measure. Nor do rows
that ``teacher_saw`` marks, in gold or in the pool: their label was shown to the teacher, as an example in a prompt.
Files that call them otherwise are read with ``columns={"label": "their_name"}``.

The common case is a pool file with everything and a small gold file of ``id, label``: such rows take their features
and the teacher's word from the pool file. Whatever serves as gold, test or selection leaves the pool.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from understudy.data.checks import check_finite, check_labels
from understudy.data.examples import Gold, Pool
from understudy.data.inputs import as_rows
from understudy.data.memory import check_memory
from understudy.data.rows import MappedRows, Rows, SubsetRows, TensorRows
from understudy.errors import UnderstudyError
from understudy.features.featuriser import VALUES_FILE, FeatureOptions, Featuriser, text_alone
from understudy.features.part import column_kind
from understudy.features.tabular import Arrays, Numbers
from understudy.io.answer_file import BY_NUMBER, SHOWN, named_answers, read_chosen, true_or_false
from understudy.io.kinds import declared
from understudy.io.labelling import SAW, Labelling, declared_classes, find_labelling, read_teacher, sources_of
from understudy.io.one_file import is_one_file, parted
from understudy.io.table import Table, read_table
from understudy.labels.class_names import text_list
from understudy.labels.forms import Labels
from understudy.store.arrow import Array

if TYPE_CHECKING:
    from understudy.leaks.between import Leaks, RowSet


@dataclass(frozen=True)
class Examples:
    gold: Gold | None
    pool: Pool | None
    test: Gold | None
    select: Gold | None
    featuriser: Featuriser
    class_names: tuple[str, ...] | None = None
    """In the order of the class numbers; None where the files have numbers."""
    texts: "Mapping[str, RowSet] | None" = None
    """The sets' texts as they were written, where texts are the features."""
    text: str | None = None
    """The column of texts: the one that was named, or the only one that can be meant."""

    def leaks(self) -> "Leaks":
        """Rows that two of the sets share, or nearly share."""
        from understudy.leaks.between import compare_sets, leaks_between  # predictions do without

        if self.texts is not None:
            return compare_sets(self.texts)
        return leaks_between(self.gold, self.pool, self.test, self.select)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one row."""
        return self.featuriser.shape

    @property
    def classes(self) -> int:
        """As many as there are names or as the teacher knows; else one more than the largest class seen."""
        if self.class_names is not None:
            return len(self.class_names)
        sets = [part for part in (self.gold, self.pool, self.test, self.select) if part is not None]
        teachers = [part.teacher for part in sets if part.teacher is not None]
        known = [teacher.classes for teacher in teachers if teacher.classes is not None]
        if known:
            return max(known)
        seen = [part.y for part in sets if isinstance(part, Gold)] + [teacher.top1() for teacher in teachers]
        if not seen:
            raise UnderstudyError("no file holds labels; add 'label' to gold, or the teacher's word to the pool")
        return int(torch.cat(seen).max()) + 1


def read_examples(
    *,
    gold: Any = None,
    pool: Any = None,
    test: Any = None,
    select: Any = None,
    chosen: Sequence[str | Path] = (),
    columns: Mapping[str, str] | None = None,
    classes: int | Sequence[str] | None = None,
    features: FeatureOptions | None = None,
    votes: str = "majority",
) -> Examples:
    """Every file (or frame, or mapping of columns) that a training needs, joined by id and checked against the others.

    ``gold`` and ``pool`` may be one file: rows with a label are gold, the others the pool.
    ``chosen``: answers to batches picked for labelling (`io/answer_file.py`); these rows train and never estimate.
    ``columns``: our names to theirs. ``classes``: how many there are, or their names in order; without it, the order
    that a ``datasets.Dataset`` declares (``ClassLabel``), else the alphabet's. ``features``: which columns become the
    student's input. ``votes``: how several annotators' votes are weighed.
    """
    given = {"gold": gold, "pool": pool, "test": test, "select": select}
    tables = {role: read_table(what, columns=columns, name=role) for role, what in given.items() if what is not None}
    _check_mapping(columns or {}, tables)
    if is_one_file(gold, pool):
        tables["gold"], tables["pool"] = parted(tables["pool"])
    if classes is None:
        classes = declared_classes(tables.values())
    elif not isinstance(classes, int):
        classes = text_list(classes, "classes=")
    options = features or FeatureOptions()
    _prepare(tables, options)
    pool_table = tables.pop("pool", None)
    if pool_table is None and "gold" not in tables:
        raise UnderstudyError("there is nothing to read; name a gold file, a pool file, or both")
    for one, other in combinations(tables.values(), 2):
        _check_apart(one, other)
    if pool_table is not None:
        for table in tables.values():
            table.check_spelling(pool_table)
    main = tables["gold"] if pool_table is None else pool_table
    options = text_alone(main.columns, options, where=f"{main.path}")
    how = find_labelling(tables, pool_table, classes, votes, answers=named_answers(chosen) if chosen else ())
    if pool_table is None:
        featuriser, source = fit_featuriser(options, tables["gold"]), None
    else:
        featuriser = fit_featuriser(options, pool_table, tables)
        source = PoolFile.read(pool_table, featuriser, how)
        if source.teacher is not None:
            # One model must speak for gold and pool: it is fitted where the votes are many.
            how = replace(how, votes=source.teacher.vote_model() or votes, sources=sources_of(pool_table))
    for role, table in tables.items():
        _check_unseen(role, table, pool_table)
    sets = {role: to_gold(table, source, featuriser=featuriser, how=how) for role, table in tables.items()}
    for number, path in enumerate(chosen):
        if source is None:
            raise UnderstudyError(f"{path}: answers take their features from the pool by id; name the pool file")
        answered = read_chosen(path, source.table, how.names or BY_NUMBER)
        for table in tables.values():
            _check_apart(answered, table)
        # Their labels are numbers already.
        labelled = to_gold(answered, source, featuriser=featuriser, how=replace(how, names=None))
        labelled.chosen = torch.from_numpy(answered.columns["chosen"])
        sets["gold"] = sets["gold"].joined_to(labelled) if "gold" in sets else labelled
        tables[f"answers {number}"] = answered
    pool_set = None if source is None else to_pool(source, without=list(tables.values()))
    for part in (*sets.values(), pool_set):
        if part is not None and how.names is not None:
            part.class_order = replace(how.names, ordered=True)
    examples = Examples(
        gold=sets.get("gold"),
        pool=pool_set,
        test=sets.get("test"),
        select=sets.get("select"),
        featuriser=featuriser,
        class_names=None if how.names is None else how.names.names,
        texts=None if options.text is None else _text_sets(options.text, tables, pool_table),
        text=options.text,
    )
    _check_truth_values(examples, tables.values(), pool_table)
    return examples


def _prepare(tables: Mapping[str, Table], options: FeatureOptions) -> None:
    """Before any column is read: what columns hold by declaration, and ids that can meet."""
    kinds = declared(options.types) | {name: "texts" for name in (options.text, options.image) if name is not None}
    for name in options.types:
        if not any(name in table.names for table in tables.values()):
            raise UnderstudyError(f"no file has the column {name!r} of --types; check the name")
    for table in tables.values():
        table.expect(kinds)
        table.warn_of_lookalikes(options.columns or ())
    if any(table.has_text_ids for table in tables.values()):
        for table in tables.values():
            table.spell_ids()


@dataclass(frozen=True)
class PoolFile:
    """The pool file, read once: where gold rows of ``id, label`` find their features and the teacher's labels."""

    table: Table
    rows: Rows
    teacher: Labels | None

    @classmethod
    def read(cls, table: Table, featuriser: Featuriser, how: Labelling | None = None) -> "PoolFile":
        return cls(table, features_of(table, featuriser, lazily=True), read_teacher(table, how))


def to_gold(
    table: Table, pool: PoolFile | None = None, *, featuriser: Featuriser, how: Labelling | None = None
) -> Gold:
    """A table with ``label`` as gold; what it lacks (features, the teacher's labels) comes from the pool by id."""
    if "label" not in table.names:
        raise UnderstudyError(f"{table.path} has no column 'label'; gold needs the true class of every row")
    how = how or Labelling()
    gold, order = _unmarked(table, pool, featuriser, how)
    if SHOWN in table.names:
        gold.chosen = _marks(table, SHOWN, "who answered saw a suggestion")[order]
    gold.chosen = gold.chosen | _seen_by_teacher(table, None if pool is None else pool.table)[order]
    if "estimate_only" in table.names:
        marked = _marks(table, "estimate_only", "it estimates, never trains")[order]
        gold.mark_estimate_only(marked, table.where("estimate_only"))
    return gold


def _unmarked(table: Table, pool: PoolFile | None, featuriser: Featuriser, how: Labelling) -> tuple[Gold, Tensor]:
    """The table as gold, and which of its rows are where."""
    as_they_stand = torch.arange(len(table))
    labels, where, ids = how.numbers(table, "label"), table.where("label"), table.ids
    index = np.full(len(labels), -1) if pool is None else table.rows_in(pool.table)
    y, teacher = check_labels(labels, where), read_teacher(table, how)
    if _has_features(table, featuriser):
        gold = Gold.of(features_of(table, featuriser), y, teacher, ids=ids)
        if pool is None or teacher is not None:
            return gold, as_they_stand
        return _with_labels_of_pool(gold, table, pool, index, featuriser)
    if pool is None:
        raise UnderstudyError(f"{table.path} has no features and there is no pool file to take them from; add them")
    for part in (table, pool.table):
        if "id" not in part.names:
            raise UnderstudyError(f"{part.path} has no column 'id' to join by; add it, or features to the gold file")
    if (index < 0).any():
        table.check_spelling(pool.table)
        raise _no_such_id(table, int((index < 0).argmax()), pool.table)
    if teacher is None and pool.teacher is not None:
        teacher = pool.teacher.take(torch.from_numpy(index))
    return Gold.of(_take(pool.rows, index), y, teacher, ids=ids), as_they_stand


def _marks(table: Table, name: str, meaning: str) -> Tensor:
    """A column of true or false, 1 or 0, as a file of its kind writes them."""
    return torch.tensor(true_or_false(table.columns[name].tolist(), table.where(name), meaning))


def _seen_by_teacher(table: Table, pool: Table | None) -> Tensor:
    """Rows whose label the teacher was shown, as the table itself or the pool file says."""
    seen = torch.zeros(len(table), dtype=torch.bool)
    if SAW in table.names:
        seen |= _marks(table, SAW, "the teacher was shown its label")
    if pool is not None and SAW in pool.names:
        index = torch.from_numpy(table.rows_in(pool))
        seen |= _marks(pool, SAW, "the teacher was shown its label")[index] & (index >= 0)
    return seen


def _check_unseen(role: str, table: Table, pool: Table | None) -> None:
    seen = _seen_by_teacher(table, pool)
    if role != "gold" and bool(seen.any()):
        raise UnderstudyError(
            f"{table.where('id')} row {int(seen.nonzero()[0])}: {_id(table, int(seen.nonzero()[0]))} was shown to the "
            f"teacher with its label ({int(seen.sum())} such rows), so it cannot {role}; remove it"
        )


def to_pool(pool: PoolFile, *, without: Iterable[Table] = ()) -> Pool:
    """The pool less the rows whose id is in one of the tables ``without``. ``label`` is never looked at."""
    stays = pool.table.rows_without(without)
    if not len(stays):
        raise UnderstudyError(
            f"{pool.table.path}: every row also serves as gold, test or selection; add other pool rows"
        )
    whole = Pool.of(pool.rows, pool.teacher, pool.table.ids)
    return whole if len(stays) == len(whole.rows) else whole.take(torch.from_numpy(stays))


def _check_mapping(columns: Mapping[str, str], tables: Mapping[str, Table]) -> None:
    """A name that is in none of the files is a typing mistake."""
    for ours, theirs in columns.items():
        if not any(
            table.theirs.get(ours) == theirs or (ours == theirs and ours in table.names) for table in tables.values()
        ):
            files = ", ".join(str(table.path) for table in tables.values())
            raise UnderstudyError(f"no column {theirs!r} (to serve as {ours!r}) in {files}; check the name")


def _check_truth_values(examples: Examples, tables: Iterable[Table], pool: Table | None) -> None:
    """True and false are two classes, 1 and 0; beside a third they mean something else."""
    labels = [(table, "label") for table in tables] + ([] if pool is None else [(pool, "teacher_label")])
    for table, name in labels:
        if name in table.names and table.columns[name].dtype.kind == "b" and examples.classes > 2:
            raise UnderstudyError(
                f"{table.where(name)} holds true or false, but there are {examples.classes} classes; write them"
            )


def _check_apart(one: Table, other: Table) -> None:
    """A row serves one purpose only."""
    one.check_spelling(other)
    shared = one.rows_in(other) >= 0
    if shared.any():
        raise UnderstudyError(
            f"{one.path} and {other.path} share {int(shared.sum())} ids ({_id(one, int(shared.argmax()))} …); "
            "a row serves one purpose: remove it from one of them"
        )


def _no_such_id(table: Table, row: int, pool: Table) -> UnderstudyError:
    return UnderstudyError(
        f"{table.where('id')} row {row}: {_id(table, row)} is not among the ids of {pool.path} (such as "
        f"{_id(pool, 0)}); add the row there, or its features here"
    )


def _id(table: Table, row: int) -> str:
    value = table.ids[row] if table.ids is not None else None
    return repr(value.item() if isinstance(value, np.generic) else value)


def _with_labels_of_pool(
    gold: Gold, table: Table, pool: PoolFile, index: Array, featuriser: Featuriser
) -> tuple[Gold, Tensor]:
    """Gold with features of its own, and the teacher's labels of those of its rows that are in the pool file too: these
    come first; and which row of the table each is."""
    here, rest = np.flatnonzero(index >= 0), np.flatnonzero(index < 0)
    as_they_stand = torch.arange(len(gold))
    if gold.ids is None or not len(here):
        return gold, as_they_stand
    _check_same_rows(table, pool.table, here, index[here], featuriser)
    if pool.teacher is None:
        return gold, as_they_stand
    teacher = pool.teacher.take(torch.from_numpy(index[here]))
    known = Gold.of(_take(gold.rows, here), gold.y[here], teacher, ids=gold.ids[here])
    order = torch.from_numpy(np.concatenate([here, rest]))
    return known.joined_to(gold.take(torch.from_numpy(rest))) if len(rest) else known, order


def _check_same_rows(table: Table, pool: Table, here: Array, there: Array, featuriser: Featuriser) -> None:
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
                f"{table.where('id')} row {row}: {_id(table, row)} has other features in {pool.path}; one "
                "id must name one example in all files (rename the ids of one, or leave the column out)"
            )


def _take(rows: Rows, index: Array) -> Rows:
    chosen = torch.from_numpy(index)
    return TensorRows(rows.x[chosen]) if isinstance(rows, TensorRows) else SubsetRows(rows, chosen)


def _has_features(table: Table, featuriser: Featuriser) -> bool:
    """All of them, or none; some of them is a mistake to point at."""
    present = [name for name in featuriser.names if name in table.names]
    if present and len(present) < len(featuriser.names):
        missing = next(name for name in featuriser.names if name not in table.names)
        raise UnderstudyError(f"{table.path} has no column {missing!r}, but other features; add it, or leave all out")
    return bool(present)


def _text_sets(column: str, tables: Mapping[str, Table], pool: Table | None) -> "dict[str, RowSet]":
    """Every file's texts with their ids; rows of ``id, label`` have theirs in the pool file, which they leave."""
    from understudy.leaks.between import RowSet

    sets = {role: RowSet(table.columns[column], table.ids) for role, table in tables.items() if column in table.names}
    if pool is not None:
        texts = pool.columns[column]
        for role, table in tables.items():
            if role not in sets:
                sets[role] = RowSet(texts[table.rows_in(pool)], table.ids)
        stays = pool.rows_without(tables.values())
        sets["pool"] = RowSet(texts[stays], None if pool.ids is None else pool.ids[stays])
    return sets


def fit_featuriser(options: FeatureOptions, main: Table, others: Mapping[str, Table] | None = None) -> Featuriser:
    """Fitted on gold and pool (``main``; gold where there is no pool), less the rows that test or select."""
    held_out = [table for role, table in (others or {}).items() if role != "gold"]
    columns = TrainingColumns(main, (others or {}).get("gold"), held_out, options.image)
    return Featuriser.fit(columns, options, where=f"{main.path}", folder=main.folder)


def features_of(table: Table, featuriser: Featuriser, *, lazily: bool = False) -> Rows:
    """The student's input for every row of a table, checked; columns hold what they held in training.

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
    """The one stored in a run; runs made in Python say or show what they took."""
    if (folder / VALUES_FILE).exists():
        return Featuriser.load(folder)
    features = config.get("features")
    if isinstance(features, str):
        if features not in table.names:
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
        self.rows = main.rows_without(held_out)
        self.gold, self.own = gold, None if gold is None else np.flatnonzero(gold.rows_in(main) < 0)

    def __getitem__(self, name: str) -> Array:
        column = self.main.columns[name]
        if column.ndim > 1 or name == self.image:
            return column
        # All of them, where every row is held out: there is nothing else to look at.
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
