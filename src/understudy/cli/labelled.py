"""Rows of a pool that have labels already, in files beside it or in the pool itself."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from understudy.cli.run_on_file import RunOnFile
from understudy.errors import UnderstudyError, warn
from understudy.io.answer_file import is_skipped, text_columns
from understudy.io.gold_pool import is_one_file
from understudy.io.table import Table
from understudy.store.arrow import Array


def labelled_rows(
    files: list[Path], given: RunOnFile, pool: Path, find: Callable[[Table], Array], own: Callable[[], Array]
) -> tuple[Tensor, Tensor]:
    """Rows of the pool never to be picked, and their labels; −1: none.

    ``find``: which row of the pool each row of a table is, by its id, −1: none. ``own``: the labels in the pool itself.
    """
    taken: dict[int, int] = {}
    for path in files:
        if is_one_file(path, pool):
            labels = own()
            taken |= {row: int(labels[row]) for row in np.flatnonzero(labels >= 0).tolist()}
            continue
        columns, index = _found(path, given, pool, find)
        answers = columns.get("label", [""] * len(index))
        for number, (row, label) in enumerate(zip(index, answers, strict=True)):
            if row >= 0:
                text = label.strip()
                known = text and not is_skipped(text, given.classes)
                where = f"{path}: column 'label' row {number}"
                taken[row] = given.classes.number(text, where) if known else -1
    return torch.tensor(list(taken), dtype=torch.long), torch.tensor(list(taken.values()), dtype=torch.long)


def no_own_labels(pool: Path) -> UnderstudyError:
    return UnderstudyError(
        f"{pool} is the pool and --labelled, but has no column 'label'; name it: --column label=NAME"
    )


def _found(
    path: Path, given: RunOnFile, pool: Path, find: Callable[[Table], Array]
) -> tuple[dict[str, list[str]], list[int]]:
    """A file's columns as text, and which row of the pool each of its rows is; −1: none."""
    if given.table.ids is None:
        raise UnderstudyError(f"{pool} has no column 'id' to find the rows of {path} by; add it")
    columns = text_columns(path, given.columns)
    columns |= {ours: columns[theirs] for ours, theirs in given.columns.items() if theirs in columns}
    if "id" not in columns:
        raise UnderstudyError(f"{path} has no column 'id'; name the labelled rows by the ids of {pool}")
    index: list[int] = find(Table(path, {"id": np.array(columns["id"], dtype=object)})).tolist()
    # Gold from elsewhere may be in the file as well.
    if index.count(-1):
        first = columns["id"][index.index(-1)]
        warn(f"{index.count(-1)} of {len(index)} ids of {path} are not in {pool} ({first!r} …): none of its rows")
    return columns, index
