"""The forms a teacher's labels come in, and the columns they are stored in.

    us.Pool(x, probs)                     # (N, C) array: us.Soft
    us.Pool(x, answers)                   # (N,) integers: us.Hard, −1 where there is no answer
    us.Pool(x, us.Hard(answers, confidence))
    us.Pool(x, us.TopK(indices, probs, classes=1000))
    us.Pool(x, us.Votes(votes, classes=2))

A new form is a file with a class (see ``base.Labels``) and a line in ``FORMS``: files, the label store, trainings,
audits and reports then take it.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from understudy.data.checks import to_tensor
from understudy.errors import UnderstudyError
from understudy.labels.base import Column, Columns, Hard, Labels, Ranking, ReadOptions
from understudy.labels.class_names import ClassNames, as_texts, is_number, name_list
from understudy.labels.soft import Soft, TopK
from understudy.labels.votes import Votes
from understudy.store.arrow import Array, as_frame

__all__ = ["COLUMNS", "FORMS", "Hard", "Labels", "Ranking", "ReadOptions", "Soft", "TopK", "Votes", "as_labels"]

#: By the name a label store knows the form by.
FORMS: dict[str, type[Labels]] = {"dense": Soft, "hard": Hard, "hard_confidence": Hard, "topk": TopK, "votes": Votes}
#: Every column of every form, by its name.
COLUMNS = {column.name: column for form in FORMS.values() for column in form.columns}
PREFIX = Soft.columns[0].prefix or ""


@cache
def column_of(name: str) -> Column | None:
    """The label column that a file's column is, or is a part of; None where it holds no labels of a teacher."""
    spread = (column for column in COLUMNS.values() if column.prefix is not None and name.startswith(column.prefix))
    return COLUMNS.get(name) or next(spread, None)


def named_columns(labels: Labels, classes: Sequence[str]) -> Columns:
    """Labels as the columns of a file that ``understudy train`` reads, classes by their names (empty: no label)."""
    # Class number −1 takes the last entry.
    names = np.array([*classes, ""], dtype=object)
    columns = labels.to_columns()
    for name, values in columns.items():
        if COLUMNS[name].holds == "class":
            columns[name] = names[values]
        elif COLUMNS[name].holds == "number per class":
            columns[name] = ClassNames(tuple(classes)).by_name(values)
    return columns


def as_labels(teacher: Any, where: str = "teacher") -> Labels:
    """What a user passes as ``teacher=``, as labels: a label form, a 2-d array (soft) or a 1-d one (hard)."""
    if isinstance(teacher, Labels):
        return teacher
    tensor = to_tensor(teacher, where)
    return Hard(tensor, where=where) if tensor.dim() == 1 else Soft(tensor, where=where)


def aligned(labels: Labels, known: Array, ids: Any) -> Labels:
    """Labels of the rows ``known`` for these ids, in their order; none where an id is not among them."""
    # Numbers and their texts are alike.
    row_of = {str(name): row for row, name in enumerate(known.tolist())}
    rows = np.array([row_of.get(str(name), -1) for name in np.asarray(ids).tolist()], dtype=np.int64)
    if isinstance(labels, Soft) and (missing := int((rows < 0).sum())):
        raise UnderstudyError(f"{missing} of {len(rows)} rows have no answer, which probs lack; use form='topk'")
    columns = {name: column[rows] for name, column in labels.to_columns().items()}
    for name, column in columns.items():
        column[rows < 0] = COLUMNS[name].missing
    sources = labels.sources if isinstance(labels, Votes) else None
    return FORMS[labels.form].from_columns(columns, ReadOptions(labels.classes, sources=sources, gaps=True))


def read_labels(y: Any, teacher: Any, classes: Any, name: str) -> tuple[Any, Labels | None, ClassNames]:
    """A set's labels ``y`` (None in a pool) and its teacher's over class numbers, and the names of the classes.

    What has names (texts, a frame's columns, forms with listed classes) is matched by them. Bare arrays beside names
    follow the order of ``classes``, and are refused without it.
    """
    order = None if classes is None else ClassNames.listed(classes, f"{name}: classes=")
    truth = None if y is None else as_texts(y)
    by_name = _by_name(teacher, f"{name}.teacher")
    parts = {f"{name}.y": truth} if y is not None else {}
    parts |= {} if teacher is None else {f"{name}.teacher": by_name}
    names = order or _find_names(parts)
    if names and order is None and any(part is None for part in parts.values()):
        bare = next(where for where, part in parts.items() if part is None)
        raise UnderstudyError(f"{bare} has no names, the other labels have; add classes={names.names}")
    if names and truth is not None:
        y = names.numbers(truth, f"{name}.y")
    return y, _over_numbers(teacher, by_name, names, f"{name}.teacher"), names


def _by_name(teacher: Any, where: str) -> Any:
    """A teacher's labels by class name: columns, texts, or the names a form lists; None where it has no names."""
    if isinstance(teacher, Labels):
        return teacher.names
    if (frame := as_frame(teacher)) is None:
        return as_texts(teacher)
    odd = [name for name in frame.names if name.startswith("teacher_") and not name.startswith(PREFIX)]
    if odd:
        raise UnderstudyError(f"{where} has a column {odd[0]!r}; whole tables are read by us.read_examples(…)")
    return {name.removeprefix(PREFIX): frame.column(name) for name in frame.names}


def _find_names(parts: Mapping[str, Any]) -> ClassNames:
    """Every name that occurs, in alphabetical order; columns "0", "1" beside numbers are class numbers."""
    listed_in = {where: part for where, part in parts.items() if isinstance(part, tuple)}
    if listed_in:
        # A form's own list of classes gives the order of its numbers.
        return ClassNames(next(iter(listed_in.values())))
    texts: set[str] = set()
    for part in parts.values():
        if part is not None:
            texts |= set(part) if isinstance(part, Mapping) else set(part.reshape(-1).tolist())
    texts -= {""}
    only_columns = not any(isinstance(part, np.ndarray) for part in parts.values())
    if not texts or (only_columns and all(map(is_number, texts))):
        return ClassNames()
    return ClassNames.found(texts)


def _over_numbers(teacher: Any, by_name: Any, names: ClassNames, where: str) -> Labels | None:
    if teacher is None:
        return None
    if isinstance(by_name, Mapping):
        return Soft(_in_order(by_name, names, where), where=where)
    if isinstance(by_name, np.ndarray):
        return Hard(names.numbers(by_name, where, missing=True), classes=len(names), where=where)
    if isinstance(by_name, tuple) and by_name != names.names:
        raise UnderstudyError(f"{where} is over the classes {name_list(by_name)}, not {names}; use one order")
    labels = as_labels(teacher, where)
    if names and labels.classes not in (None, len(names)):
        raise UnderstudyError(f"{where} knows {labels.classes} classes, {len(names)} are named ({names})")
    return labels if labels.classes is not None or not names else labels.with_classes(len(names))


def _in_order(columns: Mapping[str, Any], names: ClassNames, where: str) -> Array:
    """Columns of probabilities side by side in the order of the classes."""
    order = names.names or tuple(map(str, range(len(columns))))
    if set(columns) != set(order) or not columns:
        held = name_list(tuple(columns))
        raise UnderstudyError(f"{where} has columns {held}; give one for each of {name_list(order)}")
    for name, column in columns.items():
        if not (pa.types.is_floating(column.type) or pa.types.is_integer(column.type)) or column.null_count:
            held = "an empty cell" if column.null_count else str(column.type)
            raise UnderstudyError(f"{where}: column {name!r} holds {held}; it is the probability of a class")
    return np.stack([np.asarray(columns[name].to_numpy(), dtype=np.float64) for name in order], axis=1)
