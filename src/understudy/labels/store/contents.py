"""What a label store holds: where each id is, in the shards on the disk or among the rows that wait to be written."""

import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from understudy.errors import UnderstudyError
from understudy.labels.columns import Columns
from understudy.labels.store.forms import blank, depth_of, fill
from understudy.labels.store.shards import (
    Shard,
    VanishedError,
    list_shards,
    read_shard,
    remove_leftovers,
    write_shard,
)
from understudy.store.arrow import Array
from understudy.store.files import locked

Result = TypeVar("Result")

# The writer merges shards rarely; a reader that meets this so often in a row has met something else.
_ATTEMPTS = 20


class Contents:
    """``rows``: id -> row, counted over all shards in order and then over the rows that wait; about 100 bytes per id.

    Labels stay on the disk. Whoever writes holds the folder's lock, from the first row on.
    """

    def __init__(self, folder: Path, form: str, classes: int, *, flush_rows: int, flush_seconds: float) -> None:
        if flush_rows < 1 or not flush_seconds >= 0:
            raise UnderstudyError(f"flush_rows={flush_rows} and flush_seconds={flush_seconds} must be 1 and 0 or more")
        self.folder, self.form, self.classes = folder, form, classes
        self.flush_rows, self.flush_seconds = flush_rows, flush_seconds
        self.shards: list[Shard] = []
        self.rows: dict[Any, int] = {}
        self._ends: list[int] = []
        self._total = 0
        self._next = 1
        """The number of the next shard."""
        self._ids: list[Any] = []
        self._waiting: list[Columns] = []
        self._oldest = 0.0
        self._lock = ExitStack()
        self._process: int | None = None

    @property
    def holds_lock(self) -> bool:
        """A forked child does not write for its parent."""
        return self._process == os.getpid()

    def lock(self, check: Callable[[], None]) -> None:
        """Only we write from now on, if the ``check`` of what is there by now finds nothing."""
        if self.holds_lock:
            return
        self._lock.enter_context(locked(self.folder))
        self._process = os.getpid()
        try:
            check()
            self.refresh()
            remove_leftovers(self.folder, self.shards)
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        if self.holds_lock:
            self._process = None
            self._lock.close()

    def finish(self) -> None:
        """At the end of the program, for a store that nobody closed."""
        self.flush()
        self.release()

    def refresh(self) -> None:
        """Take in what was written since the last look."""
        shards, self._next = list_shards(self.folder)
        if shards[: len(self.shards)] != self.shards:
            # Merged meanwhile: all rows have other numbers.
            self.shards, self.rows, self._ends, self._total = [], {}, [], 0
        for shard in shards[len(self.shards) :]:
            self._number(read_shard(shard, ["id"])[0])
            self._wrote(shard)

    def steady(self, work: Callable[[], Result]) -> Result:
        """``work`` on what is on the disk now; again if shards are merged under its hands."""
        for _ in range(_ATTEMPTS):
            try:
                if not self.holds_lock:
                    self.refresh()
                return work()
            except VanishedError:
                continue
        raise UnderstudyError(f"{self.folder}: shards vanish while they are read; is the folder being deleted?")

    def add(self, ids: list[Any], columns: Columns) -> None:
        """These rows wait to be written with others, not for long; top-k lists of another depth need another shard."""
        if self._waiting and depth_of(self._waiting[0]) != depth_of(columns):
            self.flush()
        if not self._ids:
            self._oldest = time.monotonic()
        self._ids += ids
        self._waiting.append(columns)
        self._number(ids)
        if len(self._ids) >= self.flush_rows or time.monotonic() - self._oldest >= self.flush_seconds:
            self.flush()

    def flush(self) -> None:
        """Put everything that waits on the disk."""
        if self.holds_lock and self._ids:
            self._wrote(write_shard(self.folder, self._next, self._next, self._ids, self._unwritten()))
            self._ids, self._waiting, self._next = [], [], self._next + 1

    def merge(self) -> None:
        """All shards as one that holds the newest label of every id; then the old ones go."""
        self.flush()
        if len(self.shards) > 1:
            ids = list(self.rows)
            merged = write_shard(self.folder, 1, self._next - 1, ids, self.labels(self.rows_of(ids)))
            remove_leftovers(self.folder, [merged])
            self.refresh()

    def rows_of(self, ids: list[Any]) -> Array:
        """−1 where an id is unknown."""
        return np.array([self.rows.get(one, -1) for one in ids], dtype=np.int64)

    def labels(self, rows: Array) -> Columns:
        """The labels at these rows (−1: none), from the shards that hold them and from those that wait."""
        shard_of = np.searchsorted(self._ends, rows, side="right")
        sources: list[tuple[Array, Columns, int]] = []
        for number in np.unique(shard_of[rows >= 0]).tolist():
            columns = read_shard(self.shards[number])[1] if number < len(self.shards) else self._unwritten()
            start = self._ends[number - 1] if number else 0
            sources.append((np.flatnonzero((shard_of == number) & (rows >= 0)), columns, start))
        depth = max((depth_of(columns) for _, columns, _ in sources), default=1)
        labels = blank(len(rows), self.form, self.classes, depth)
        for here, columns, start in sources:
            fill(labels, here, columns, rows[here] - start)
        return labels

    def _unwritten(self) -> Columns:
        return {name: np.concatenate([part[name] for part in self._waiting]) for name in self._waiting[0]}

    def _number(self, ids: list[Any]) -> None:
        """Later rows of an id take the place of earlier ones."""
        self.rows.update(zip(ids, count(self._total), strict=False))
        self._total += len(ids)

    def _wrote(self, shard: Shard) -> None:
        """All rows so far are in this shard or in those before it."""
        self.shards.append(shard)
        self._ends.append(self._total)
