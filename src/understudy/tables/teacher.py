"""What the teacher said, in any of the forms a file may hold it.

| columns | form |
| --- | --- |
| ``teacher_probs`` (a list per row, or an object by class name), or ``teacher_prob_CLASS`` columns | probabilities |
| ``teacher_label`` (−1 or empty: none), with or without ``teacher_confidence`` | hard labels |
| ``teacher_topk_index``, ``teacher_topk_prob`` (lists), with or without ``teacher_topk_tail`` | top-k |
| ``teacher_votes`` (a list per row; −1 or empty abstains), or ``teacher_vote_NAME`` columns | votes |
"""

from collections.abc import Callable

import numpy as np

from understudy.errors import UnderstudyError
from understudy.labels.forms import Hard, Labels, Soft
from understudy.labels.topk import TopK
from understudy.labels.votes import Votes
from understudy.store.arrow import Array
from understudy.tables.classes import PROB_PREFIX, VOTE_PREFIX, Labelling, is_number
from understudy.tables.table import Table


def read_teacher(table: Table, how: Labelling | None = None) -> Labels | None:
    how = how or Labelling()
    forms = [name for name in FORMS if _has(table, name)]
    if len(forms) > 1:
        raise UnderstudyError(f"{table.path} has both {forms[0]!r} and {forms[1]!r}; keep one of them")
    for name in table.columns:
        if (
            name.startswith("teacher_")
            and name not in {*FORMS, *BESIDE}
            and not name.startswith(tuple(SPREAD.values()))
        ):
            raise UnderstudyError(
                f"{table.where(name)} is not known; rename it or use one of {', '.join(sorted({*FORMS, *BESIDE}))}"
            )
    for name, form in BESIDE.items():
        if name in table and form not in forms:
            raise UnderstudyError(f"{table.where(name)} stands alone; add {form!r}")
    return FORMS[forms[0]](table, how) if forms else None


def _has(table: Table, form: str) -> bool:
    prefix = SPREAD.get(form)
    return form in table or (prefix is not None and any(name.startswith(prefix) for name in table.columns))


def _soft(table: Table, how: Labelling) -> Labels:
    if "teacher_probs" not in table:
        columns = {name: table.numbers(name) for name in table.columns if name.startswith(PROB_PREFIX)}
        probs = _by_class({name.removeprefix(PROB_PREFIX): column for name, column in columns.items()}, table, how)
        return Soft(probs, where=table.where(next(iter(columns))))
    column, where = table.columns["teacher_probs"], table.where("teacher_probs")
    if column.dtype.names:
        return Soft(_by_class({name: column[name] for name in column.dtype.names}, table, how), where=where)
    if how.names is not None and not how.ordered:
        raise UnderstudyError(
            f"{where} holds lists; say which class comes first: --classes {','.join(how.names.names)}"
        )
    return Soft(table.numbers("teacher_probs"), where=where)


def _by_class(given: dict[str, Array], table: Table, how: Labelling) -> Array:
    """Columns by class name, side by side in the order of the classes; 0 for a class that is not among them."""
    if how.names is None and all(map(is_number, given)):
        order = {name: int(name) for name in given}
        count = max(how.classes or 0, *order.values(), 0) + 1 if how.classes is None else how.classes
    else:
        assert how.names is not None
        order = {name: place for place, name in enumerate(how.names.names)}
        count = len(how.names)
    rows = len(next(iter(given.values())))
    probs = np.zeros((rows, count), dtype=np.result_type(np.float32, *given.values()))
    for name, column in given.items():
        if name not in order or order[name] >= count:
            raise UnderstudyError(f"{table.path}: the teacher scores {name!r}, which is not one of the classes")
        probs[:, order[name]] = column
    return probs


def _hard(table: Table, how: Labelling) -> Labels:
    confidence = table.numbers("teacher_confidence") if "teacher_confidence" in table else None
    labels = how.numbers(table, "teacher_label", missing=True)
    count = None if how.names is None else len(how.names)
    return Hard(labels, confidence, classes=count, where=table.where("teacher_label"))


def _topk(table: Table, how: Labelling) -> Labels:
    if "teacher_topk_prob" not in table:
        raise UnderstudyError(f"{table.where('teacher_topk_index')} stands alone; add 'teacher_topk_prob'")
    tail = table.numbers("teacher_topk_tail") if "teacher_topk_tail" in table else None
    assert how.classes is not None
    return TopK(
        how.numbers(table, "teacher_topk_index", missing=True),
        table.numbers("teacher_topk_prob"),
        how.classes,
        tail,
        where=table.where("teacher_topk_index"),
    )


def _votes(table: Table, how: Labelling) -> Labels:
    assert how.classes is not None
    if "teacher_votes" in table:
        votes = how.numbers(table, "teacher_votes", missing=True)
        return Votes(_whole(votes), how.classes, by=how.votes, where=table.where("teacher_votes"))
    columns = [name for name in table.columns if name.startswith(VOTE_PREFIX)]
    votes = np.stack([how.numbers(table, name, missing=True) for name in columns], axis=1)
    return Votes(_whole(votes), how.classes, by=how.votes, where=table.where(columns[0]))


def _whole(votes: Array) -> Array:
    """Fractions that are whole numbers, as files with gaps hold them, as numbers; others are refused later."""
    return votes.astype(np.int64) if votes.dtype.kind == "f" and np.array_equal(votes, np.floor(votes)) else votes


FORMS: dict[str, Callable[[Table, Labelling], Labels]] = {
    "teacher_probs": _soft,
    "teacher_label": _hard,
    "teacher_topk_index": _topk,
    "teacher_votes": _votes,
}
"""The column that marks a form of teacher's labels -> how to read it."""
SPREAD = {"teacher_probs": PROB_PREFIX, "teacher_votes": VOTE_PREFIX}
"""Forms that may also be spread over several columns, by how their names begin."""
BESIDE = {
    "teacher_confidence": "teacher_label",
    "teacher_topk_prob": "teacher_topk_index",
    "teacher_topk_tail": "teacher_topk_index",
}
"""Columns that only mean something beside a form."""
