"""Rows that labels or a student were fitted to, by what they hold.

Gold rows that a pool's labels were fitted to: no student trained on such labels can be measured on these rows.

    labels.fitted_to = row_keys(gold)               # what us.reconcile keeps with its labels
    gold = mark_fitted(gold, pool, test=test)       # such rows train, and nothing is measured on them

A row is known by its id, and by what it holds. A file of labels has the keys in the column ``teacher_gold``, dealt out
over its rows, so that they survive other formats, shards, and a part of the rows being left out.

The rows that a student was trained on: 8 bytes a row, kept with a run.

    trained = TrainedRows.of({"gold": gold.rows, "pool": pool.rows})
    trained.contain(rows)           # (n,): whether a row has the content of one of them
    trained.are_distinct            # False: different rows are often equal (a table of few categories)
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from understudy.data.examples import Gold, Pool
from understudy.data.lookalikes import NumberRows, hash_contents, hash_numbers, hash_texts
from understudy.data.rows import Rows, take_sparse
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
            which = "rows that are not known, perhaps" if _ANY in fitted_to else "the true classes of"
            truth = f"{which} {rows} {name} rows (by reconcile or teach), so they cannot {name}"
            raise UnderstudyError(f"the pool's labels were fitted to {truth}; give others, or the pool with its own")
    if gold is None or not bool((fitted := _fitted(gold, fitted_to) & ~gold.chosen).any()):
        return gold
    truth = f"the true classes of {int(fitted.sum()):,} of {len(gold):,} gold rows (by reconcile or teach)"
    cure = "give a test set, or the pool with its own labels to --method auto, which reconciles them itself"
    warn(f"the pool's labels were fitted to {truth}: these rows train and nothing is measured on them; {cure}")
    return gold.marked_chosen(fitted)


def _fitted(gold: Gold, fitted_to: frozenset[str]) -> Tensor:
    """Which rows are among ``fitted_to``, ``(n,)``: by id where both sides have ids."""
    any_row = _ANY in fitted_to
    for keys in [] if any_row else _keys(gold):
        if any(key[0] == keys[0][0] for key in fitted_to):
            return torch.tensor([key in fitted_to for key in keys])
    return torch.full((len(gold),), any_row)


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


# Texts that people wrote repeat less often; columns of categories repeat more often.
MOST_REPEATED = 0.05
_SPARSE = 1 << 14


@dataclass(frozen=True, eq=False)
class TrainedRows:
    #: By set, the hash of every row, sorted; int64.
    hashes: Mapping[str, Tensor]

    @classmethod
    def of(cls, sets: Mapping[str, Rows]) -> "TrainedRows | None":
        """None where a set is read row by row: it is not read through once more."""
        if any(rows.per_row for rows in sets.values()):
            return None
        return cls({name: torch.from_numpy(np.sort(hash_rows(rows))) for name, rows in sets.items()})

    @property
    def are_distinct(self) -> bool:
        """Whether hardly two rows of a set are equal, so that an equal row is the same row."""
        rows = sum(map(len, self.hashes.values()))
        return rows - sum(len(part.unique()) for part in self.hashes.values()) <= MOST_REPEATED * rows

    def contain(self, rows: Rows) -> Array:
        return np.isin(hash_rows(rows), np.concatenate([part.numpy() for part in self.hashes.values()]))

    def of_gold(self, hashes: Array) -> list[int]:
        """The rows that gold holds, by their hashes; where different rows are often equal, as many as it holds."""
        gold = self.hashes.get("gold", torch.empty(0)).numpy()
        rows: list[int] = np.flatnonzero(np.isin(hashes, gold)).tolist()
        left = Counter(gold.tolist())
        return rows if self.are_distinct else [row for row in rows if _take_one(left, hashes[row].item())]


def _take_one(left: "Counter[int]", key: int) -> bool:
    left[key] -= 1
    return left[key] >= 0


def hash_rows(rows: Rows) -> Array:
    """``(n,)`` int64: numbers as the float32 that students get, sparse rows by what is not 0, texts as they are."""
    if rows.is_text:
        found = hash_texts(rows.take(torch.arange(len(rows))))
    elif rows.is_sparse:
        starts = range(0, len(rows), _SPARSE)
        parts = [_hash_sparse(rows, torch.arange(start, min(start + _SPARSE, len(rows)))) for start in starts]
        found = np.concatenate(parts)
    else:
        numbers = NumberRows(rows, "x")
        found = np.concatenate([hash_numbers(part) for _, part in numbers.chunks(np.arange(len(rows)))])
    return np.ascontiguousarray(found[:, 0]).view(np.int64)


def _hash_sparse(rows: Rows, index: Tensor) -> Array:
    matrix = take_sparse(rows, index).astype(np.float32)
    matrix.eliminate_zeros()
    matrix.sort_indices()
    columns, values, ends = matrix.indices.astype(np.int64), matrix.data, matrix.indptr.tolist()
    return hash_contents([columns[a:b].tobytes() + values[a:b].tobytes() for a, b in pairwise(ends)])
