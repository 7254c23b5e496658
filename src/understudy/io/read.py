"""Gold and pool from files, or from frames in memory, by the names of their columns.

    examples = read_examples(gold="gold.parquet", pool="pool.parquet", test="test.csv")
    examples = read_examples(gold=pandas_frame, pool=polars_frame)         # or Arrow, datasets, mappings of arrays
    us.train(student, examples.gold, examples.pool, us.slam(), test=examples.test, epochs=30)

Columns: ``id`` (optional; numbers or text); the features (``x``, numbers, categories, ``text``, ``image``: see
``features/``); ``label``, the truth, as class names or as numbers from 0; the teacher's labels in one of the forms of
``io/label_columns.py``; in gold, ``estimate_only`` (true or false): rows that measure the teacher and never train, and
``suggestion_shown``: rows whose label was given with a suggestion in view, which train and never measure. Nor do rows
that ``teacher_saw`` marks, in gold or in the pool: their label was shown to the teacher, as an example in a prompt.
``probability`` in gold or in answers: with which the row was drawn for labelling, for estimates (empty: not known).
Files that call them otherwise are read with ``columns={"label": "their_name"}``.

The steps: files become tables (``table.py``), their columns get their types (``columns.py``), their labels become class
numbers (``label_columns.py``), and the tables the student's input, gold and pool (``gold_pool.py``). Whether they fit
together is checked here, once.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from understudy.data.examples import Gold, Pool
from understudy.data.rows import TensorRows
from understudy.errors import UnderstudyError, warn
from understudy.features.encoder import Encoded
from understudy.features.featuriser import TFIDF, FeatureOptions, Featuriser, text_alone
from understudy.features.image_encoder import EncodedImages
from understudy.features.raw_columns import no_column
from understudy.features.tabular import Arrays
from understudy.io.batch_answers import classes_named, read_chosen
from understudy.io.columns import declared
from understudy.io.gold_pool import (
    PoolFile,
    fit_featuriser,
    has_pool_rows,
    is_one_file,
    row_ids,
    seen_by_teacher,
    split_gold_pool,
    to_gold,
    to_pool,
)
from understudy.io.label_columns import DRAWN, Labelling, declared_classes, find_labelling, sources_of
from understudy.io.table import Table, read_table, spell_ids_alike
from understudy.labels.class_names import ClassNames, checked_names
from understudy.store.arrow import Array

if TYPE_CHECKING:
    from understudy.data.leaks import Leaks, RowSet


@dataclass(frozen=True)
class Examples:
    gold: Gold | None
    pool: Pool | None
    test: Gold | None
    select: Gold | None
    featuriser: Featuriser
    #: In the order of the class numbers; None where the files have numbers.
    class_names: tuple[str, ...] | None = None
    #: The sets' texts as they were written, where texts are the features.
    texts: "Mapping[str, RowSet] | None" = None
    #: The column of texts: the one the user named, or the only candidate.
    text: str | None = None
    #: The same sets by TF-IDF, or as pixels, where texts or images are vectors of an encoder and both were wanted.
    plain: "Examples | None" = None
    #: What was decided about files and columns, a line each, for the user to know.
    notes: tuple[str, ...] = ()
    #: Whether the ids are row numbers, of a file without ids.
    numbered: bool = False
    #: The line of a pool row in its file, where it has lines.
    line: Callable[[int], int] | None = None

    @property
    def encoder(self) -> str | None:
        """The name or folder of the encoder of the texts or images."""
        return next((part.encoder for part in self.featuriser.parts if isinstance(part, Encoded)), None)

    @property
    def both(self) -> tuple[Gold, Pool]:
        """Gold and pool, where it is known that there are both."""
        assert self.gold is not None and self.pool is not None
        return self.gold, self.pool

    def leaks(self) -> "Leaks":
        """Rows that two of the sets share, or nearly share."""
        from understudy.data.leaks import find_leaks, leaks_between  # not needed for predictions

        if self.texts is not None:
            return find_leaks(self.texts)
        return leaks_between(self.gold, self.pool, self.test, self.select)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one row."""
        return self.featuriser.shape

    @property
    def classes(self) -> int:
        """How many: by the names, by the teacher, or else one more than the largest class number."""
        if self.class_names is not None:
            return len(self.class_names)
        found = count_classes((self.gold, self.pool, self.test, self.select))
        if found is None:
            raise UnderstudyError("no file holds labels; add 'label' to gold, or the teacher's labels to the pool")
        return found


def count_classes(sets: Iterable[Gold | Pool | None]) -> int | None:
    """By their names, by the teachers, or else one more than the largest class number; None without labels."""
    given = [part for part in sets if part is not None]
    if names := next((part.class_names for part in given if part.class_names), None):
        return len(names)
    teachers = [part.teacher for part in given if part.teacher is not None]
    known = [teacher.classes for teacher in teachers if teacher.classes is not None]
    if known:
        return max(known)
    seen = [part.y for part in given if isinstance(part, Gold)] + [teacher.top1() for teacher in teachers]
    return int(torch.cat(seen).max()) + 1 if seen else None


def read_examples(
    *, gold: Any = None, pool: Any = None, test: Any = None, select: Any = None, chosen: Sequence[str | Path] = (),
    columns: Mapping[str, str] | None = None, classes: int | Sequence[str] | None = None,
    features: FeatureOptions | None = None, votes: str = "majority", both: bool = False, small: bool = False,
) -> Examples:  # fmt: skip
    """Every file (or frame, or mapping of columns) that a training needs, joined by id and checked against the others.

    ``gold`` and ``pool`` may be one file, which need not be named twice: where it has a teacher's labels, rows with a
    label are gold and the others the pool.
    ``chosen``: answers to batches picked for labelling; these rows train and never estimate.
    ``columns``: our names to theirs. ``classes``: how many there are, or their names in order; without it, the order
    that a ``datasets.Dataset`` declares (``ClassLabel``), else the alphabet's. ``features``: which columns become the
    student's input. ``votes``: how several annotators' votes are weighed. ``both``: beside an encoder's vectors, the
    same sets by TF-IDF, or as pixels; of photographs only where the student is to be ``small``.
    """
    if any(isinstance(each, Gold | Pool) for each in (gold, pool, test, select)):
        return _given(gold=gold, pool=pool, test=test, select=select)
    one_file, features = is_one_file(gold, pool), features or FeatureOptions()
    given = {"gold": gold, "pool": None if one_file else pool, "test": test, "select": select}
    read = partial(read_table, columns=columns, single=features.text or features.image or "text")
    tables = {role: read(what, name=role) for role, what in given.items() if what is not None}
    _check_mapping(columns or {}, tables)
    notes = []
    if one_file or (pool is None and "gold" in tables and has_pool_rows(tables["gold"], classes)):
        whole = tables["gold"]
        tables["gold"], tables["pool"] = split_gold_pool(whole, classes)
        rest = len(whole) - len(tables["gold"])
        notes.append(f"{whole.path}: {len(tables['gold']):,} rows with a label are gold, the other {rest:,} the pool")
    if classes is None:
        classes = declared_classes(tables.values())
    elif not isinstance(classes, int):
        classes = checked_names(classes, "classes=")
    options = _prepare(tables, features)
    pool_table = tables.pop("pool", None)
    answered = [read_table(path, columns=columns) for path in chosen]
    labelling = find_labelling(tables, pool_table, classes, votes, answers=classes_named(answered))
    examples = _to_examples(options, tables, pool_table, labelling, answered, votes)
    photographs = any(isinstance(part, EncodedImages) and part.colour for part in examples.featuriser.parts)
    # A net on the pixels of photographs takes ten times as long and is worse by far (CIFAR-10, 3,500 rows).
    if both and examples.encoder is not None and (small or not photographs):
        with suppress(UnderstudyError):  # some languages have no words that TF-IDF could count
            plain = _to_examples(replace(options, encoder=TFIDF), tables, pool_table, labelling, answered, votes)
            examples = replace(examples, plain=plain)
    _check_truth_values(examples, tables.values(), pool_table)
    files = [table.notes for table in (*tables.values(), pool_table) if table is not None]
    main = (pool_table or tables["gold"]).columns
    counted = [name for name in examples.featuriser.names if _counts_rows(main[name])]
    notes += [f"column {name!r} is a feature; if it only names the rows, say --id {name!r}" for name in counted]
    return replace(examples, notes=(*filter(None, files), *notes, *examples.featuriser.notes()))


def _to_examples(
    options: FeatureOptions, given: Mapping[str, Table], pool_table: Table | None, labelling: Labelling,
    answered: Sequence[Table], votes: str,
) -> Examples:  # fmt: skip
    """The tables as sets of rows by these features."""
    tables = dict(given)
    featuriser = fit_featuriser(options, pool_table or tables["gold"], tables)
    source = None if pool_table is None else PoolFile.read(pool_table, featuriser, labelling)
    if source is not None and source.teacher is not None:
        # One model of the annotators serves gold and pool: it is fitted where the votes are many.
        model = source.teacher.vote_model() or votes
        labelling = replace(labelling, votes=model, sources=sources_of(source.table))
    sets = {role: to_gold(table, source, featuriser=featuriser, labelling=labelling) for role, table in tables.items()}
    for number, table in enumerate(answered):
        tables[f"answers {number}"], answers = _answers(table, source, tables.values(), featuriser, labelling)
        sets["gold"] = sets["gold"].joined_to(answers) if "gold" in sets else answers
    pool_set = None if source is None else to_pool(source, without=list(tables.values()))
    names = labelling.names
    order = None if names is None else replace(names, ordered=True)
    for part in (*sets.values(), pool_set):
        if part is not None and order is not None:
            part.class_order = order
    texts = None if options.text is None else _text_sets(options.text, tables, pool_table)
    return Examples(
        sets.get("gold"), pool_set, sets.get("test"), sets.get("select"), featuriser,
        class_names=None if names is None else names.names, texts=texts, text=options.text,
        numbered=pool_table is not None and pool_table.numbered,
        line=None if pool_table is None else pool_table.line_of(pool_table.rows_without(tables.values())),
    )  # fmt: skip


def _given(**sets: Any) -> Examples:
    """Sets that were made in Python, whose features are arrays."""
    given = {role: each for role, each in sets.items() if each is not None}
    for role, each in given.items():
        kind = Pool if role == "pool" else Gold
        if not isinstance(each, kind):
            cure = f"beside us.Gold and us.Pool, pass a us.{kind.__name__}"
            raise UnderstudyError(f"{role} is a {type(each).__name__}; {cure}")
        if not isinstance(each.rows, TensorRows):
            raise UnderstudyError(f"the rows of {role} are no array of numbers; us.auto(gold=…, pool=…) takes any")
    first = next(iter(given.values()))
    names = next((each.class_names for each in given.values() if each.class_names), None)
    return Examples(**sets, featuriser=Featuriser([Arrays("x", tuple(first.x.shape[1:]))], {}), class_names=names)


def _prepare(tables: Mapping[str, Table], options: FeatureOptions) -> FeatureOptions:
    """The options with the column of texts, once types and ids of the tables are known to fit together."""
    pool, others = tables.get("pool"), {role: table for role, table in tables.items() if role != "pool"}
    main = pool or others.get("gold")
    if main is None:
        raise UnderstudyError("there is nothing to read; name a gold file, a pool file, or both")
    kinds = declared(options.types) | {name: "texts" for name in (options.text, options.image) if name is not None}
    for name in filter(None, (*options.types, options.text, options.image, *(options.columns or ()))):
        if not any(name in table.names for table in tables.values()):
            raise _in_no_file(name, tables, ", which you name")
    for table in tables.values():
        table.expect(kinds)
        table.warn_of_lookalikes(options.columns or ())
    if pool is not None and DRAWN in pool.names and options.columns is None and "label" not in pool.names:
        warn(f"{pool.where(DRAWN)} is no feature: it is kept for the probability of being drawn; rename it to use it")
    spell_ids_alike(tables.values())
    for one, other in combinations(others.values(), 2):
        _check_apart(one, other)
    for role, table in others.items():
        if pool is not None:
            table.check_spelling(pool)
        seen = seen_by_teacher(table, pool)
        if role != "gold" and bool(seen.any()):
            row = int(seen.nonzero()[0])
            shown = f"was shown to the teacher with its label ({int(seen.sum())} such rows)"
            held = f"{table.where('id')} row {row}: {table.shown_id(row)}"
            raise UnderstudyError(f"{held} {shown}, so it cannot {role}; remove it")
    return text_alone(main.columns, options, where=f"{main.path}")


def _answers(
    given: Table, pool: PoolFile | None, others: Iterable[Table], featuriser: Featuriser, labelling: Labelling
) -> tuple[Table, Gold]:
    """Answers to a batch that was chosen for labelling, as gold that never estimates."""
    if pool is None:
        raise UnderstudyError(f"{given.path}: answers take their features from the pool by id; name the pool file")
    table = read_chosen(given, pool.table, labelling.names or ClassNames())
    for other in others:
        _check_apart(table, other)
    # Their labels are numbers already.
    gold = to_gold(table, pool, featuriser=featuriser, labelling=replace(labelling, names=None))
    gold.chosen = gold.chosen | torch.from_numpy(table.columns["chosen"])
    return table, gold


def column_by_id(
    name: str, paths: Sequence[str | Path], sets: Sequence[Gold | Pool], columns: Mapping[str, str] | None
) -> list[Array]:
    """A column's values for the rows of each set, as texts; found by id in whichever file has the column."""
    values: dict[Any, str] = {}
    for path in paths:
        table = read_table(path, columns=columns)
        ids, ours = row_ids(table, alone=len(paths) == 1), {theirs: ours for ours, theirs in table.theirs.items()}
        if name in ours and ids is not None:
            values |= zip(ids.tolist(), np.asarray(table.columns[ours[name]]).astype(str).tolist(), strict=True)
    if not values:
        files = " and ".join(map(str, paths))
        raise UnderstudyError(f"no column {name!r} beside ids in {files}; name a column of a file with ids")
    return values_by_id(values, repr(name), sets)


def values_by_id(values: Mapping[Any, Any], name: str, sets: Sequence[Gold | Pool]) -> list[Array]:
    """The values of each set's rows, from values by id."""
    found = []
    for each in sets:
        ids = [] if each.ids is None else each.ids.tolist()
        if each.ids is None or (lost := next((one for one in ids if one not in values), None)) is not None:
            which = "rows without ids" if each.ids is None else f"row {lost!r}"
            raise UnderstudyError(f"{name} has no value for {which}; add an id and the column to every row")
        found.append(np.array([values[one] for one in ids]))
    return found


def _in_no_file(name: str, tables: Mapping[str, Table], why: str) -> UnderstudyError:
    files = [table for table in tables.values() if table.columns.source.names]  # not the gold rows of one file
    names = dict.fromkeys(name for table in files for name in table.columns.source.names)
    return no_column(", ".join(str(table.path) for table in files), name, names, why)


def _counts_rows(column: Array) -> bool:
    """Whether whole numbers, each of them once, leave few gaps: they name the rows of a table of some size."""
    whole = column.ndim == 1 and column.dtype.kind in "iu" and len(column) >= 20
    return whole and int(np.ptp(column)) < 2 * len(column) and len(np.unique(column)) == len(column)


def _check_mapping(columns: Mapping[str, str], tables: Mapping[str, Table]) -> None:
    """Refuses a name that is in none of the files."""
    for ours, theirs in columns.items():
        if all(theirs not in table.theirs.values() for table in tables.values()):
            raise _in_no_file(theirs, tables, f" (to serve as {ours!r})")


def _check_truth_values(examples: Examples, tables: Iterable[Table], pool: Table | None) -> None:
    """Refuses true and false as labels where there are more than two classes."""
    labels = [(table, "label") for table in tables] + ([] if pool is None else [(pool, "teacher_label")])
    for table, name in labels:
        if name in table.names and table.columns[name].dtype.kind == "b" and examples.classes > 2:
            raise UnderstudyError(f"{table.where(name)} holds true or false; name one of {examples.classes} classes")


def _check_apart(one: Table, other: Table) -> None:
    """Refuses a row that is in both tables."""
    one.check_spelling(other)
    shared = one.rows_in(other) >= 0
    if shared.any():
        ids = f"{int(shared.sum())} ids ({one.shown_id(int(shared.argmax()))} …)"
        raise UnderstudyError(f"{one.path} and {other.path} share {ids}; a row serves one purpose: remove it from one")


def _text_sets(column: str, tables: Mapping[str, Table], pool: Table | None) -> "dict[str, RowSet]":
    """Every set's texts with their ids; those of rows of ``id, label`` are in the pool file."""
    from understudy.data.leaks import RowSet

    sets = {role: RowSet(table.columns[column], table.ids) for role, table in tables.items() if column in table.names}
    if pool is None:
        return sets
    texts, stays = pool.columns[column], pool.rows_without(tables.values())
    sets |= {role: RowSet(texts[one.rows_in(pool)], one.ids) for role, one in tables.items() if role not in sets}
    return sets | {"pool": RowSet(texts[stays], None if pool.ids is None else pool.ids[stays])}
