"""Labels as rows of named columns, for the label store: blank rows, rows copied, compared and deepened.

What the columns are is for the forms to say (``labels.forms``); nothing here knows one form from another.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from understudy.data.checks import check_length
from understudy.errors import UnderstudyError
from understudy.labels.columns import Columns
from understudy.labels.forms import COLUMNS, FORMS, Labels, ReadOptions, as_labels
from understudy.store.arrow import Array


def to_columns(labels: Any, rows: int, form: str, classes: tuple[str, ...]) -> Columns:
    """Checked labels of any kind, if they are of this form."""
    given = as_labels(_numbered(labels, classes), "the labels")
    check_length(len(given), rows, "the labels", "ids")
    if given.classes is not None and given.classes != len(classes):
        raise UnderstudyError(f"the labels are over {given.classes} classes, the store's over {len(classes)}")
    if given.form != form:
        raise UnderstudyError(
            f"the labels are of form {given.form!r}, the store holds {form!r}; use another store for them"
        )
    return given.with_classes(len(classes)).to_columns()


def _numbered(labels: Any, classes: tuple[str, ...]) -> Any:
    """Class names as class numbers; None means no label."""
    if not isinstance(labels, Sequence | np.ndarray) or not any(isinstance(one, str) for one in labels):
        return labels
    number = {name: index for index, name in enumerate(classes)}
    unknown = [one for one in labels if one is not None and one not in number]
    if unknown:
        raise UnderstudyError(f"the labels name {unknown[0]!r}, which is not among the store's classes")
    return np.array([-1 if one is None else number[one] for one in labels], dtype=np.int64)


def from_columns(columns: Columns, form: str, classes: int) -> Labels:
    """The labels of rows as ``blank`` and ``fill`` made them; dense ones with gaps come as top-k of all classes."""
    return FORMS[form].from_columns(columns, ReadOptions(classes, gaps=True))


def blank(rows: int, form: str, classes: int, depth: int) -> Columns:
    """Rows without a label."""
    columns = {}
    for column in FORMS[form].stored(form):
        width = (classes,) if column.holds == "number per class" else (depth,) if column.lists else ()
        columns[column.name] = np.full((rows, *width), column.missing, dtype=column.dtype)
    return columns


def fill(into: Columns, rows: Array, source: Columns, taken: Array) -> None:
    """Copy rows ``taken`` of one set of columns to ``rows`` of another, which is as deep or deeper."""
    for name, column in source.items():
        if column.ndim == 2:
            into[name][rows, : column.shape[1]] = column[taken]
        else:
            into[name][rows] = column[taken]


def depth_of(columns: Columns) -> int:
    """How long the lists of a row are; 1 where it has none."""
    return next((column.shape[1] for name, column in columns.items() if COLUMNS[name].lists), 1)


def pad(one: Columns, other: Columns) -> tuple[Columns, Columns]:
    """The lists of both as long as the longer ones; other forms as they are."""
    depth = max(depth_of(one), depth_of(other))

    def deepened(columns: Columns) -> Columns:
        extra = ((0, 0), (0, depth - depth_of(columns)))
        return {
            name: np.pad(column, extra, constant_values=COLUMNS[name].missing) if COLUMNS[name].lists else column
            for name, column in columns.items()
        }

    return deepened(one), deepened(other)


def unlabelled(columns: Columns) -> Array:
    """Which rows say "asked, and no answer": those whose first column holds nothing."""
    marks = [form.columns[0].name for form in FORMS.values()]
    name, values = next((name, values) for name, values in columns.items() if name in marks)
    missing = np.isnan(values) if np.isnan(COLUMNS[name].missing) else np.equal(values, COLUMNS[name].missing)
    return np.asarray(missing if values.ndim == 1 else missing.all(1))


def same_rows(one: Columns, other: Columns) -> Array:
    """Row by row, whether two sets of columns of one depth say the same."""
    same = np.ones(len(next(iter(one.values()))), dtype=bool)
    for name, column in one.items():
        equal = (column == other[name]) | ((column != column) & (other[name] != other[name]))
        same &= equal if equal.ndim == 1 else equal.all(1)
    return same
