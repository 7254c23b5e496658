"""The writing side of a label store: the lock, and the rows that are not on the disk yet."""

import os
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from understudy.errors import UnderstudyError
from understudy.labels.store.forms import Columns, depth_of
from understudy.labels.store.shards import Shard, write_shard
from understudy.store.files import locked


class Writer:
    """Holds the folder's lock from the first append on. ``next``: the number of the next shard."""

    def __init__(self, folder: Path, *, flush_rows: int, flush_seconds: float) -> None:
        if flush_rows < 1 or not flush_seconds >= 0:
            raise UnderstudyError(f"flush_rows={flush_rows} and flush_seconds={flush_seconds} must be 1 and 0 or more")
        self.folder, self.flush_rows, self.flush_seconds = folder, flush_rows, flush_seconds
        self.ids: list[Any] = []
        self.next = 1
        self._parts: list[Columns] = []
        self._held = ExitStack()
        self._since = 0.0
        self._process: int | None = None

    @property
    def holds_lock(self) -> bool:
        """A forked child does not write for its parent."""
        return self._process == os.getpid()

    def lock(self) -> None:
        self._held.enter_context(locked(self.folder))
        self._process = os.getpid()

    def add(self, ids: list[Any], columns: Columns) -> None:
        if not self.ids:
            self._since = time.monotonic()
        self.ids += ids
        self._parts.append(columns)

    def is_due(self) -> bool:
        return len(self.ids) >= self.flush_rows or time.monotonic() - self._since >= self.flush_seconds

    def fits(self, columns: Columns) -> bool:
        """Whether these rows can be in one shard with those that wait: top-k lists of one depth."""
        return not self._parts or depth_of(self._parts[0]) == depth_of(columns)

    def waiting(self) -> Columns:
        return {name: np.concatenate([part[name] for part in self._parts]) for name in self._parts[0]}

    def flush(self) -> Shard:
        shard = write_shard(self.folder, self.next, self.next, self.ids, self.waiting())
        self.ids, self._parts, self.next = [], [], self.next + 1
        return shard

    def release(self) -> None:
        if self.holds_lock:
            self._process = None
            self._held.close()

    def finish(self) -> None:
        """At the end of the program, for a store that nobody closed."""
        if self.holds_lock and self.ids:
            self.flush()
        self.release()
