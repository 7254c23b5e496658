"""Which rows a student was trained on, by what they hold: 8 bytes a row, kept with a run.

trained = TrainedRows.of({"gold": gold.rows, "pool": pool.rows})
trained.contain(rows)           # (n,): whether a row has the content of one of them
trained.are_distinct            # False: different rows are often equal (a table of few categories)
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from understudy.data.lookalikes import NumberRows, hash_contents, hash_numbers, hash_texts
from understudy.data.rows import Rows, take_sparse
from understudy.store.arrow import Array

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
