"""The forms a teacher's labels come in, and the columns they are stored in.

    us.Pool(x, probs)                     # (N, C) array: us.Soft
    us.Pool(x, answers)                   # (N,) integers: us.Hard, −1 where there is no answer
    us.Pool(x, us.Hard(answers, confidence))
    us.Pool(x, us.TopK(indices, probs, classes=1000))
    us.Pool(x, us.Votes(votes, classes=2))

A new form is a file with a class (see ``base.Labels``) and a line in ``FORMS``: files, the label store, trainings,
audits and reports then take it.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from understudy.data.checks import to_tensor
from understudy.labels.base import Column, Columns, Labels, Ranking, ReadOptions
from understudy.labels.hard import Hard
from understudy.labels.soft import Soft
from understudy.labels.topk import TopK
from understudy.labels.votes import Votes

__all__ = ["COLUMNS", "FORMS", "Hard", "Labels", "Ranking", "ReadOptions", "Soft", "TopK", "Votes", "as_labels"]

FORMS: dict[str, type[Labels]] = {"dense": Soft, "hard": Hard, "hard_confidence": Hard, "topk": TopK, "votes": Votes}
"""By the name a label store knows the form by."""
COLUMNS = {column.name: column for form in FORMS.values() for column in form.columns}
"""Every column of every form, by its name."""


@cache
def column_of(name: str) -> Column | None:
    """The column that one of a file is, or is a part of; None where it holds no labels of a teacher."""
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
            by_name = np.empty(len(values), dtype=[(one, values.dtype) for one in classes])
            for number, one in enumerate(classes):
                by_name[one] = values[:, number]
            columns[name] = by_name
    return columns


def as_labels(teacher: Any, where: str = "teacher") -> Labels:
    """Whatever a user passes as ``teacher=``: a label form, a 2-d array (soft) or a 1-d one (hard)."""
    if isinstance(teacher, Labels):
        return teacher
    tensor = to_tensor(teacher, where)
    return Hard(tensor, where=where) if tensor.dim() == 1 else Soft(tensor, where=where)
