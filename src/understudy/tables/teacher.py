"""What the teacher said, in any of the forms a file may hold it.

| columns | form |
| --- | --- |
| ``teacher_probs`` (a list per row, or an object by class name), or ``teacher_prob_CLASS`` columns | probabilities |
| ``teacher_label`` (−1 or empty: none), with or without ``teacher_confidence`` | hard labels |
| ``teacher_topk_index``, ``teacher_topk_prob`` (lists), with or without ``teacher_topk_tail`` | top-k |
| ``teacher_votes`` (a list per row; −1 or empty abstains), or ``teacher_vote_NAME`` columns | votes |

The columns are those the forms list (``labels.forms``); here they are found in a file, and class names become numbers.
"""

import numpy as np

from understudy.errors import UnderstudyError
from understudy.labels.columns import Column
from understudy.labels.forms import COLUMNS, FORMS, Labels, ReadOptions, column_of
from understudy.store.arrow import Array
from understudy.tables.classes import Labelling, is_number
from understudy.tables.table import Table


def read_teacher(table: Table, how: Labelling | None = None) -> Labels | None:
    how = how or Labelling()
    given: dict[str, list[str]] = {}
    """Our columns, and those of the file that hold them: one, or several where it is spread."""
    for name in table.columns:
        column = column_of(name)
        if column is not None:
            given.setdefault(column.name, []).append(name)
        elif name.startswith("teacher_"):
            raise UnderstudyError(
                f"{table.where(name)} is not known; rename it or use one of {', '.join(sorted(COLUMNS))}"
            )
    forms = [form for form in dict.fromkeys(FORMS.values()) if form.columns[0].name in given]
    if len(forms) > 1:
        one, other = (form.columns[0].name for form in forms[:2])
        raise UnderstudyError(f"{table.path} has both {one!r} and {other!r}; keep one of them")
    for form in FORMS.values():
        for column in form.columns[1:]:
            if column.name in given and form not in forms:
                raise UnderstudyError(f"{table.where(column.name)} stands alone; add {form.columns[0].name!r}")
    if not forms:
        return None
    columns, first = forms[0].columns, given[forms[0].columns[0].name]
    absent = [column.name for column in columns if column.required and column.name not in given]
    if absent:
        raise UnderstudyError(f"{table.where(first[0])} stands alone; add {absent[0]!r}")
    values = {column.name: _read(column, given[column.name], table, how) for column in columns if column.name in given}
    classes = how.classes if forms[0].needs_classes else None if how.names is None else len(how.names)
    return forms[0].from_columns(values, ReadOptions(classes, table.where(first[0]), how.votes))


def _read(column: Column, names: list[str], table: Table, how: Labelling) -> Array:
    """One of our columns, from the column of the file that holds it or those it is spread over."""
    spread = column.name not in table
    if column.holds == "class":
        parts = [how.numbers(table, name, missing=True) for name in names]
        return np.stack(parts, axis=1) if spread else parts[0]
    if column.holds == "number":
        return table.numbers(column.name)
    if spread:
        return _by_class({name.removeprefix(column.prefix or ""): table.numbers(name) for name in names}, table, how)
    values = table.columns[column.name]
    if values.dtype.names:
        return _by_class({name: values[name] for name in values.dtype.names}, table, how)
    if how.names is not None and not how.ordered:
        raise UnderstudyError(
            f"{table.where(column.name)} holds lists; say which class comes first: "
            f"--classes {','.join(how.names.names)}"
        )
    return table.numbers(column.name)


def _by_class(given: dict[str, Array], table: Table, how: Labelling) -> Array:
    """Columns by class name, side by side in the order of the classes; 0 for a class that is not among them."""
    if how.names is None and all(map(is_number, given)):
        order = {name: int(name) for name in given}
        count = max(how.classes or 0, *order.values(), 0) + 1 if how.classes is None else how.classes
    else:
        assert how.names is not None
        order = {name: number for number, name in enumerate(how.names.names)}
        count = len(how.names)
    rows = len(next(iter(given.values())))
    probs = np.zeros((rows, count), dtype=np.result_type(np.float32, *given.values()))
    for name, column in given.items():
        if name not in order or order[name] >= count:
            raise UnderstudyError(f"{table.path}: the teacher scores {name!r}, which is not one of the classes")
        probs[:, order[name]] = column
    return probs
