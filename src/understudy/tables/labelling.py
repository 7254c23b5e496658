"""The classes of all files together: their names or their number, found once before any label is read."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from understudy.errors import UnderstudyError
from understudy.tables.answers import named_answers
from understudy.tables.classes import VOTE_PREFIX, ClassNames, find_names
from understudy.tables.table import Table
from understudy.tables.teacher import Labelling


def find_labelling(
    tables: Mapping[str, Table],
    pool: Table | None,
    chosen: Sequence[str | Path],
    classes: int | Sequence[str] | None,
    votes: str,
) -> Labelling:
    """How the labels of these files are read; ``tables`` by role (gold, test, select)."""
    given = None if classes is None or isinstance(classes, int) else classes
    golds = [tables["gold"]] if "gold" in tables else []
    names = find_names(golds, pool, given=given, answers=named_answers(chosen))
    if names is not None and isinstance(classes, int) and classes != len(names):
        raise UnderstudyError(
            f"the files name {len(names)} classes ({', '.join(names.names[:8])}), not {classes}; list all names"
        )
    count = classes if isinstance(classes, int) else _count([*tables.values()], pool, names)
    return Labelling(names, count, ordered=given is not None, votes=votes)


def _count(tables: list[Table], pool: Table | None, names: ClassNames | None) -> int | None:
    """How many classes there are, where top-k lists or votes are read, which do not tell."""
    if names is not None:
        return len(names)
    every = [*tables, *([] if pool is None else [pool])]
    telling = [name for table in every for name in table.columns if name.startswith(("teacher_topk", "teacher_vote"))]
    if not telling:
        return None
    largest = 1
    for table in every:
        for name in table.columns:
            said = name in ("teacher_label", "teacher_topk_index", "teacher_votes") or name.startswith(VOTE_PREFIX)
            if (said or (name == "label" and table is not pool)) and table.columns[name].dtype.kind in "iuf":
                # NaN and infinity are refused where the labels are read.
                values = table.columns[name]
                largest = max(largest, int(values.max(initial=1, where=np.isfinite(values))))
    return largest + 1
