"""Gold and pool from files, by the names of their columns.

    examples = read_examples(gold="gold.parquet", pool="pool.parquet", test="test.parquet")
    us.train(student, examples.gold, examples.pool, us.slam(), test=examples.test, epochs=30)

Columns: ``id`` (optional; numbers or text); the features, as ``x`` (one list or array per row) or as every further
numeric column; ``label``, the truth, as class numbers from 0; the teacher's word as ``teacher_probs`` (a list per row)
or ``teacher_label`` (−1 or empty: none), with or without ``teacher_confidence``.

The common case is a pool file with everything and a small gold file of ``id, label``: such rows take their features
and the teacher's word from the pool file. Whatever serves as gold, test or selection leaves the pool. Values are taken
as they are: scale features beforehand.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from understudy.data.answers import read_chosen
from understudy.data.checks import check_labels, first_bad, to_tensor
from understudy.data.examples import Gold, Pool
from understudy.data.labels import Hard, Labels, Soft
from understudy.data.tables import Array, Table, read_table
from understudy.errors import UnderstudyError, UnderstudyWarning

Features = str | list[str]
"""Where the features are: the name of one column with an array per row, or the names of numeric columns."""


@dataclass(frozen=True)
class Examples:
    gold: Gold | None
    pool: Pool | None
    test: Gold | None
    select: Gold | None
    features: Features

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one row."""
        some = self.gold or self.pool
        assert some is not None
        return tuple(some.rows.take(torch.arange(1)).shape[1:])

    @property
    def classes(self) -> int:
        """As many as the teacher knows; where it does not say, one more than the largest class seen."""
        sets = [part for part in (self.gold, self.pool, self.test, self.select) if part is not None]
        teachers = [part.teacher for part in sets if part.teacher is not None]
        known = [teacher.classes for teacher in teachers if teacher.classes is not None]
        if known:
            return max(known)
        seen = [part.y for part in sets if isinstance(part, Gold)] + [teacher.top1() for teacher in teachers]
        return int(torch.cat(seen).max()) + 1


def read_examples(
    *,
    gold: str | Path | None = None,
    pool: str | Path | None = None,
    test: str | Path | None = None,
    select: str | Path | None = None,
    chosen: Sequence[str | Path] = (),
) -> Examples:
    """Every file that a training needs, joined by id and checked against the others.

    ``chosen``: answers to batches picked for labelling (`data/answers.py`); these rows train and never estimate.
    """
    given = {"gold": gold, "pool": pool, "test": test, "select": select}
    tables = {role: read_table(path) for role, path in given.items() if path is not None}
    pool_table = tables.pop("pool", None)
    if pool_table is None and "gold" not in tables:
        raise UnderstudyError("there is nothing to read; name a gold file, a pool file, or both")
    features = find_features(pool_table if pool_table is not None else tables["gold"])
    for one, other in (("gold", "test"), ("gold", "select"), ("test", "select")):
        if one in tables and other in tables:
            _check_apart(tables[one], tables[other])
    sets = {role: to_gold(table, pool_table, features=features) for role, table in tables.items()}
    for number, path in enumerate(chosen):
        if pool_table is None:
            raise UnderstudyError(f"{path}: answers take their features from the pool by id; name the pool file")
        answers = read_chosen(path, pool_table)
        for table in tables.values():
            _check_apart(answers, table)
        labelled = to_gold(answers, pool_table, features=features)
        labelled.chosen = torch.from_numpy(answers.columns["chosen"])
        sets["gold"] = sets["gold"] + labelled if "gold" in sets else labelled
        tables[f"answers {number}"] = answers
    return Examples(
        gold=sets.get("gold"),
        pool=None if pool_table is None else to_pool(pool_table, features=features, without=list(tables.values())),
        test=sets.get("test"),
        select=sets.get("select"),
        features=features,
    )


def find_features(table: Table) -> Features:
    """``x``, or every numeric column whose name means nothing else; other columns are named in a warning."""
    if "x" in table:
        return "x"
    others = [name for name in table.columns if not _is_reserved(name)]
    names = [name for name in others if table.columns[name].ndim == 1 and _is_numeric(table.columns[name])]
    if not names:
        raise UnderstudyError(
            f"{table.path} has no features; add a column 'x' (a list of numbers per row) or numeric columns"
        )
    ignored = sorted(set(others) - set(names))
    if ignored:
        warnings.warn(
            f"{table.path}: {', '.join(map(repr, ignored))} left out: not one number per row; encode as numbers to use",
            UnderstudyWarning,
            stacklevel=2,
        )
    return names


def read_features(table: Table, features: Features) -> Array:
    """The features as one array of floats, ``(rows, …)``."""
    names = [features] if isinstance(features, str) else features
    missing = [name for name in names if name not in table]
    if missing:
        raise UnderstudyError(f"{table.path} has no column {missing[0]!r}, which is a feature; add it")
    for name in names:
        column = table.columns[name]
        if not _is_numeric(column):
            raise UnderstudyError(f"{table.where(name)} holds {_kind(column)}; features are numbers")
        if column.dtype.kind == "f" and not bool(np.isfinite(column).all()):
            row = first_bad(~to_tensor(column, name).isfinite())
            raise UnderstudyError(f"{table.where(name)} row {row} holds NaN or infinity; remove the row or fill it in")
    if isinstance(features, str):
        x = table.columns[features]
        return x if x.dtype.kind == "f" else x.astype(np.float32)
    return np.stack([table.columns[name] for name in names], axis=1).astype(np.float32)


def _read_soft(table: Table) -> Labels:
    return Soft(_numbers(table, "teacher_probs"), where=table.where("teacher_probs"))


def _read_hard(table: Table) -> Labels:
    confidence = _numbers(table, "teacher_confidence") if "teacher_confidence" in table else None
    return Hard(_numbers(table, "teacher_label"), confidence, where=table.where("teacher_label"))


TEACHER_FORMS: dict[str, Callable[[Table], Labels]] = {"teacher_probs": _read_soft, "teacher_label": _read_hard}
"""The column that marks a form of teacher's labels -> how to read it."""
BESIDE_FORMS = {"teacher_confidence"}


def read_teacher(table: Table) -> Labels | None:
    forms = [name for name in TEACHER_FORMS if name in table]
    if len(forms) > 1:
        raise UnderstudyError(f"{table.path} has both {forms[0]!r} and {forms[1]!r}; keep one of them")
    known = {*TEACHER_FORMS, *BESIDE_FORMS}
    for name in table.columns:
        if name.startswith("teacher_") and name not in known:
            raise UnderstudyError(
                f"{table.where(name)} is not known; rename it or use one of {', '.join(sorted(known))}"
            )
    if not forms and BESIDE_FORMS & set(table.columns):
        raise UnderstudyError(f"{table.where('teacher_confidence')} stands alone; add 'teacher_label'")
    return TEACHER_FORMS[forms[0]](table) if forms else None


def read_ids(table: Table) -> Array | None:
    if "id" not in table:
        return None
    ids = table.columns["id"]
    if ids.ndim != 1 or ids.dtype.kind not in "iuU":
        raise UnderstudyError(f"{table.where('id')} holds {_kind(ids)}; ids are whole numbers or text, one per row")
    values, counts = np.unique(ids, return_counts=True)
    if len(values) < len(ids):
        twice = values[counts > 1][0]
        row = np.flatnonzero(ids == twice)[1]
        raise UnderstudyError(f"{table.where('id')} row {row} repeats {twice.item()!r}; ids must be unique")
    return ids


def to_gold(table: Table, pool: Table | None = None, *, features: Features | None = None) -> Gold:
    """A table with ``label`` as gold; what it lacks (features, the teacher's word) comes from the pool by id."""
    if "label" not in table:
        raise UnderstudyError(f"{table.path} has no column 'label'; gold needs the true class of every row")
    features = features or find_features(table)
    y = check_labels(_numbers(table, "label"), table.where("label"))
    ids = read_ids(table)
    if _has_features(table, features):
        x = read_features(table, features)
        gold = Gold(x, y, teacher=read_teacher(table), ids=ids)
        return gold if pool is None or gold.teacher is not None else _with_word_of_pool(gold, x, table, pool, features)
    if pool is None:
        raise UnderstudyError(f"{table.path} has no features and there is no pool file to take them from; add them")
    place = _places(table, pool)
    absent = np.flatnonzero(place < 0)
    if len(absent) and ids is not None:
        raise UnderstudyError(
            f"{table.where('id')} row {absent[0]}: {ids[absent[0]].item()!r} is not among the ids of {pool.path}"
            f"{_type_hint(table, pool)}; add the row there, or its features here"
        )
    word = read_teacher(table)
    if word is None:
        said = read_teacher(pool)
        word = None if said is None else said.take(torch.from_numpy(place))
    return Gold(read_features(pool, features)[place], y, teacher=word, ids=ids)


def to_pool(table: Table, *, features: Features | None = None, without: list[Table] | None = None) -> Pool:
    """A table as pool, less the rows whose id is in one of the tables ``without``. ``label`` is never looked at."""
    teacher = read_teacher(table)
    pool = Pool(read_features(table, features or find_features(table)), teacher, ids=read_ids(table))
    elsewhere = [other.columns["id"] for other in without or [] if "id" in other and _comparable(other, table)]
    if not elsewhere or pool.ids is None:
        return pool
    stays = ~np.isin(pool.ids, np.concatenate(elsewhere))
    if not stays.any():
        raise UnderstudyError(f"{table.path}: every row also serves as gold, test or selection; add other pool rows")
    return pool if stays.all() else pool.take(torch.from_numpy(np.flatnonzero(stays)))


def _with_word_of_pool(gold: Gold, x: Array, table: Table, pool: Table, features: Features) -> Gold:
    """Gold with features of its own, and the teacher's word on those of its rows that are in the pool file too."""
    if gold.ids is None or "id" not in pool:
        return gold
    place = _places(table, pool)
    found = np.flatnonzero(place >= 0)
    if not len(found):
        return gold
    theirs = read_features(pool, features)[place[found]]
    same = (x[found] == theirs).reshape(len(found), -1).all(1)
    if not same.all():
        row = found[np.flatnonzero(~same)[0]]
        raise UnderstudyError(
            f"{table.where('id')} row {row}: {gold.ids[row].item()!r} has other features in {pool.path}; one id must "
            "name one example in all files (rename the ids of one, or leave the column out)"
        )
    said = read_teacher(pool)
    if said is None:
        return gold
    word = said.take(torch.from_numpy(place[found]))
    known = Gold(x[found], gold.y[found], teacher=word, ids=gold.ids[found])
    rest = np.flatnonzero(place < 0)
    return known + gold.take(torch.from_numpy(rest)) if len(rest) else known


def _places(table: Table, pool: Table) -> Array:
    """For each row, where its id is in the pool; −1 where it is not."""
    ids, theirs = read_ids(table), read_ids(pool)
    for side, owner in ((ids, table), (theirs, pool)):
        if side is None:
            raise UnderstudyError(f"{owner.path} has no column 'id' to join by; add it, or features to the gold file")
    assert ids is not None and theirs is not None
    if not _comparable(table, pool):
        return np.full(len(ids), -1)
    order = np.argsort(theirs)
    place = np.searchsorted(theirs, ids, sorter=order).clip(max=len(theirs) - 1)
    return np.where(theirs[order[place]] == ids, order[place], -1)


def _check_apart(one: Table, other: Table) -> None:
    """A row serves one purpose only."""
    if "id" in one and "id" in other and _comparable(one, other):
        shared = np.intersect1d(one.columns["id"], other.columns["id"])
        if len(shared):
            raise UnderstudyError(
                f"{one.path} and {other.path} share {len(shared)} ids ({shared[0].item()!r} …); "
                "a row serves one purpose: remove it from one of them"
            )


def _comparable(one: Table, other: Table) -> bool:
    kinds = [table.columns["id"].dtype.kind for table in (one, other)]
    return "U" not in kinds or kinds == ["U", "U"]


def _type_hint(table: Table, pool: Table) -> str:
    if _comparable(table, pool):
        return ""
    return f" (here they are {_kind(table.columns['id'])}, there {_kind(pool.columns['id'])})"


def _has_features(table: Table, features: Features) -> bool:
    """All of them, or none; some of them is a mistake to point at."""
    names = [features] if isinstance(features, str) else features
    present = [name for name in names if name in table]
    if present and len(present) < len(names):
        missing = next(name for name in names if name not in table)
        raise UnderstudyError(f"{table.path} has no column {missing!r}, but other features; add it, or leave all out")
    return bool(present)


def _numbers(table: Table, name: str) -> Array:
    column = table.columns[name]
    if not _is_numeric(column):
        raise UnderstudyError(f"{table.where(name)} holds {_kind(column)}; it must hold numbers (classes count from 0)")
    return column


def _is_numeric(column: Array) -> bool:
    return column.dtype.kind in "biuf"


def _is_reserved(name: str) -> bool:
    return name in ("id", "label") or name.startswith("teacher_")


def _kind(column: Array) -> str:
    kinds = {"U": "text", "i": "whole numbers", "u": "whole numbers", "f": "fractions", "O": "objects", "M": "dates"}
    return kinds.get(column.dtype.kind, f"{column.dtype} values") if column.ndim == 1 else f"arrays of {column.dtype}"
