"""Gold rows that a pool's labels were fitted to: no student trained on such labels can be measured on these rows.

    labels.fitted_to = row_keys(gold)               # what us.reconcile keeps with its labels
    gold = mark_fitted(gold, pool, test=test)       # such rows train, and nothing is measured on them

A row is known by its id, and by what it holds. A file of labels has the keys in the column ``teacher_gold``, dealt out
over its rows, so that they survive other formats, shards, and a part of the rows being left out.
"""

from collections.abc import Iterable, Sequence
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from understudy.data.examples import Gold, Pool
from understudy.data.lookalikes import hash_contents
from understudy.data.trained_rows import hash_rows
from understudy.errors import UnderstudyError, warn
from understudy.store.arrow import Array

Golds = TypeVar("Golds", Gold, Gold | None)
#: The column of a file.
GOLD_KEYS = "teacher_gold"
_BY_ID, _BY_CONTENT, _ANY = "i", "c", "*"


def row_keys(gold: Gold) -> frozenset[str]:
    """The keys of all rows; one that stands for any row where they have no keys."""
    return frozenset(key for keys in _keys(gold) for key in keys) or frozenset([_ANY])


def fitted_keys(gold: Gold | None, pool: Pool | None) -> frozenset[str]:
    """Of all gold rows that have a part in what is learned from gold and the pool's labels."""
    inherited = frozenset[str]() if pool is None or pool.teacher is None else pool.teacher.fitted_to
    return inherited if gold is None else inherited | row_keys(gold)


def content_keys(columns: Iterable[Array]) -> list[str]:
    """The key of each row of a table, from the cells of its features."""
    cells = [
        np.asarray(column, dtype=np.float32) if column.dtype.kind in "biuf" else column.astype(object)
        for column in columns
    ]
    rows = zip(*cells, strict=True)
    contents = [
        b"\0".join(c.tobytes() if isinstance(c, np.generic | np.ndarray) else str(c).encode() for c in row)
        for row in rows
    ]
    return _named(_BY_CONTENT, hash_contents(contents)[:, 0].tolist())


def deal_keys(keys: Iterable[str], rows: int) -> Array:
    """The keys as a column of ``rows`` texts, each once or more often."""
    every = sorted(keys) or [""]
    return np.array([" ".join(every[row % len(every) :: rows]) for row in range(rows)], dtype=object)


def read_keys(column: Array) -> frozenset[str]:
    return frozenset(key for cell in column.tolist() for key in str(cell or "").split())


def mark_fitted(gold: Golds, pool: Pool | None, **measured: Gold | None) -> Golds:
    """Gold, its rows that the pool's labels were fitted to marked as chosen; an error where ``measured`` has such."""
    fitted_to = None if pool is None or pool.teacher is None else pool.teacher.fitted_to
    if not fitted_to:
        return gold
    for name, part in measured.items():
        if part is not None and (rows := int(_fitted(part, fitted_to).sum())):
            truth = f"the true classes of {rows} {name} rows (by reconcile or teach), so they cannot {name}"
            cure = "give others, or the pool with its own labels"
            raise UnderstudyError(f"the pool's labels were fitted to {truth}; {cure}")
    if gold is None or not bool((fitted := _fitted(gold, fitted_to) & ~gold.chosen).any()):
        return gold
    warn(
        f"the pool's labels were fitted to the true classes of {int(fitted.sum()):,} of {len(gold):,} gold rows "
        "(by reconcile or teach), so these rows train and nothing is measured on them; give a test set, or the pool "
        "with its own labels to --method auto, which cross-validates the reconciled labels too"
    )
    return gold.marked_chosen(fitted)


def _fitted(gold: Gold, fitted_to: frozenset[str]) -> Tensor:
    """Which rows are among ``fitted_to``, ``(n,)``: by id where both sides have ids."""
    found = torch.zeros(len(gold), dtype=torch.bool)
    for keys in _keys(gold):
        if any(key[0] == keys[0][0] for key in fitted_to):
            return torch.tensor([key in fitted_to for key in keys])
    return found if _ANY not in fitted_to else ~found


def _keys(gold: Gold) -> list[list[str]]:
    """By id and by content, where there are such: a key per row."""
    keys = []
    if gold.ids is not None:
        keys.append(_named(_BY_ID, hash_contents([str(each).encode() for each in gold.ids.tolist()])[:, 0].tolist()))
    if gold.content_keys is not None:
        keys.append(list(gold.content_keys))
    elif not gold.rows.per_row:
        keys.append(_named(_BY_CONTENT, hash_rows(gold.rows).tolist()))
    return keys


def _named(kind: str, hashes: Sequence[int]) -> list[str]:
    return [f"{kind}{value % 2**64:016x}" for value in hashes]
