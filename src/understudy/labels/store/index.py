"""Where each id of a label store is: its row, counted over all shards in order, those that wait to be written last."""

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from understudy.errors import UnderstudyError
from understudy.labels.store.forms import Array, Columns, blank, depth_of, fill
from understudy.labels.store.shards import Shard, VanishedError, list_shards, read_shard

Result = TypeVar("Result")

# The writer merges shards rarely; a reader that meets this so often in a row has met something else.
_ATTEMPTS = 20


class Index:
    """``rows``: id -> row, about 100 bytes per id. Labels stay on the disk."""

    def __init__(self, folder: Path, form: str, classes: int) -> None:
        self.folder, self.form, self.classes = folder, form, classes
        self.shards: list[Shard] = []
        self.rows: dict[Any, int] = {}
        self._ends: list[int] = []
        self._total = 0

    def refresh(self) -> int:
        """Take in what was written since the last look; the number of the next shard."""
        shards, following = list_shards(self.folder)
        if shards[: len(self.shards)] != self.shards:
            # Merged meanwhile: all rows have other numbers.
            self.shards, self.rows, self._ends, self._total = [], {}, [], 0
        for shard in shards[len(self.shards) :]:
            self.add(read_shard(shard, [])[0])
            self.wrote(shard)
        return following

    def steady(self, work: Callable[[], Result], *, fresh: bool) -> Result:
        """``work`` on what is on the disk now; again if shards are merged under its hands."""
        for _ in range(_ATTEMPTS):
            try:
                if not fresh:
                    self.refresh()
                return work()
            except VanishedError:
                continue
        raise UnderstudyError(f"{self.folder}: shards vanish while they are read; is the folder being deleted?")

    def add(self, ids: list[Any]) -> None:
        """Later rows of an id take the place of earlier ones."""
        self.rows.update(zip(ids, count(self._total), strict=False))
        self._total += len(ids)

    def wrote(self, shard: Shard) -> None:
        """All rows so far are in this shard or in those before it."""
        self.shards.append(shard)
        self._ends.append(self._total)

    def places(self, names: list[Any]) -> Array:
        return np.array([self.rows.get(name, -1) for name in names], dtype=np.int64)

    def gather(self, rows: Array, waiting: Columns | None) -> Columns:
        """The labels at these rows (−1: none), from the shards that hold them and from those that wait."""
        shard_of = np.searchsorted(self._ends, rows, side="right")
        sources: list[tuple[Array, Columns, int]] = []
        for number in np.unique(shard_of[rows >= 0]).tolist():
            written = number < len(self.shards)
            columns = read_shard(self.shards[number])[1] if written else waiting
            assert columns is not None
            start = self._ends[number - 1] if number else 0
            sources.append((np.flatnonzero((shard_of == number) & (rows >= 0)), columns, start))
        depth = max((depth_of(columns) for _, columns, _ in sources), default=1)
        found = blank(len(rows), self.form, self.classes, depth)
        for places, columns, start in sources:
            fill(found, places, columns, rows[places] - start)
        return found
