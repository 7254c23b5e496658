"""The shards of a label store: its files, and where in them each id is.

``store.json`` holds what is fixed for all labels, and how many shards there are at least; it has a
checksum (``store/checked_folder.py``). ``label_history.jsonl`` is the label history (``store/log.py``).
``00000004-00000007.<32 hex digits>.parquet`` holds what was once written as shards 4 to 7, with its checksum. A shard
appears whole or not at all; one whose bytes do not match its name, or whose number is missing, is an error that names
it. A shard inside the range of another is a leftover of a merge that was killed, and is ignored.

Labels are rows of named columns. What the columns are is for the forms to say (``labels.forms``); nothing here knows
one form from another.
"""

import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from understudy.errors import UnderstudyError
from understudy.labels.base import Columns
from understudy.labels.class_names import checked_names
from understudy.labels.forms import COLUMNS, FORMS, ReadOptions
from understudy.store.arrow import Array, from_parquet, to_parquet
from understudy.store.checked_folder import Finding, FolderKind, Manifest
from understudy.store.files import copy_of, locked, read_named, write_named
from understudy.store.log import HISTORY, LabelHistory
from understudy.store.settings import check_same

SETTINGS = "store.json"
_NAME = re.compile(r"(\d{8})-(\d{8})\.[0-9a-f]{32}\.parquet(\.damaged)?")
# The writer merges shards rarely; a reader that meets this so often in a row has met something else.
_ATTEMPTS = 20

Result = TypeVar("Result")


@dataclass(frozen=True)
class LabelShard:
    path: Path
    first: int
    last: int
    #: Set aside: its rows count as never labelled.
    damaged: bool = False


def list_label_shards(folder: Path) -> tuple[list[LabelShard], int]:
    """The shards that count, in order and without a gap, and the number of the next."""
    written = shards_written(folder)  # before the look at the folder, where more may appear meanwhile
    every = _all_shards(folder)
    shards: list[LabelShard] = []
    following = 1
    for shard in sorted(every, key=lambda shard: (shard.first, -shard.last)):
        if shard.first > following:
            break
        if shard.last >= following:
            shards += [] if shard.damaged else [shard]
            following = shard.last + 1
    if following <= written or any(shard.last >= following for shard in every if not shard.damaged):
        raise UnderstudyError(
            f"{folder}: shard {following:08d} is missing; restore it, or accept its loss with an empty file "
            f"{following:08d}-{following:08d}.{'0' * 32}.parquet.damaged there (its rows are then labelled again)"
        )
    return shards, following


def _all_shards(folder: Path) -> list[LabelShard]:
    shards: list[LabelShard] = []
    for path in folder.iterdir() if folder.is_dir() else ():
        name = _NAME.fullmatch(path.name)
        if name is not None:
            shards.append(LabelShard(path, int(name[1]), int(name[2]), damaged=bool(name[3])))
        elif path.suffix == ".parquet" and not path.name.startswith("."):
            raise UnderstudyError(f"{path} is no shard of this label store; move it elsewhere")
    return shards


def read_shard(shard: LabelShard, columns: Sequence[str] | None = None) -> tuple[list[Any], Columns]:
    """Ids and label columns; ``columns=["id"]`` for the ids alone. FileNotFoundError: merged meanwhile."""
    try:
        content = read_named(shard.path)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise UnderstudyError(f"cannot read {shard.path}: {error.strerror}") from error
    except ValueError as error:
        raise UnderstudyError(
            f"{shard.path} is damaged ({error}); restore it, or set it aside with "
            "us.LabelStore.set_aside_damaged(folder): its rows are then labelled again"
        ) from error
    labels = from_parquet(shard.path, columns, content=content)
    return labels.pop("id").tolist(), labels


def is_damaged(shard: LabelShard) -> bool:
    try:
        read_shard(shard)
    except UnderstudyError:
        return True
    return False


def write_shard(folder: Path, first: int, last: int, ids: list[Any], columns: Columns) -> LabelShard:
    name = f"{first:08d}-{last:08d}.{{digest}}.parquet"
    return LabelShard(write_named(folder / name, to_parquet({"id": ids, **columns})), first, last)


def remove_leftovers(folder: Path, shards: list[LabelShard]) -> None:
    """What killed writers left: temporary files, and shards that were merged into another. Only the writer may."""
    for shard in set(_all_shards(folder)) - set(shards):
        if not shard.damaged:
            shard.path.unlink(missing_ok=True)
    for path in folder.glob(".*.parquet.*"):
        path.unlink(missing_ok=True)


def shards_written(folder: Path) -> int:
    return int(_stored(folder).get("shards", 0))


def _stored(folder: Path) -> Manifest:
    return LABEL_STORE.read(folder) if (folder / SETTINGS).exists() else {}


def read_settings(folder: Path, classes: Sequence[str] | None, form: str | None) -> tuple[tuple[str, ...], str]:
    """Classes and form, as they are on the disk or else as given."""
    given = None if classes is None else checked_names(classes, "classes", printable=True)
    if form is not None and form not in FORMS:
        raise UnderstudyError(f"form={form!r} is unknown; use one of {', '.join(FORMS)}")
    path = folder / SETTINGS
    if not path.exists():
        if list_label_shards(folder)[0]:
            raise UnderstudyError(f"{folder} holds shards but no {SETTINGS}; restore it from a backup")
        if given is None or form is None:
            raise UnderstudyError(f"there is no label store in {folder} yet; pass classes= and form= to start one")
        return given, form
    stored = _stored(folder)
    if stored.get("form") not in FORMS:
        raise UnderstudyError(f"{path} is not the description of a label store; restore it")
    names = checked_names(stored.get("classes"), f"{path}: classes", printable=True)
    wanted = {"classes": list(given or names), "form": form or stored["form"]}
    check_same({"classes": list(names), "form": stored["form"]}, wanted, folder)
    return names, stored["form"]


def _also(folder: Path, settings: Manifest) -> Iterator[Finding]:
    try:
        shards, _ = list_label_shards(folder)
    except UnderstudyError as error:
        yield Finding(folder, f"lacks a file ({error})")
        return
    for shard in shards:
        yield Finding(shard.path, "is damaged" if is_damaged(shard) else None)
    yield from LabelHistory(folder / HISTORY).verify(settings["history"])


LABEL_STORE = FolderKind("label store", SETTINGS, _also, "restore it from a backup")


class Contents:
    """``rows``: id -> row, counted over all shards in order and then over the rows that wait; about 100 bytes per id.

    Labels stay on the disk. The writer holds the folder's lock, from the first row on.
    """

    def __init__(
        self, folder: Path, classes: Sequence[str] | None, form: str | None, *, flush_rows: int, flush_seconds: float
    ) -> None:
        if flush_rows < 1 or not flush_seconds >= 0:
            raise UnderstudyError(f"flush_rows={flush_rows} and flush_seconds={flush_seconds} must be 1 and 0 or more")
        self.folder = folder
        self.classes, self.form = read_settings(folder, classes, form)
        self.flush_rows, self.flush_seconds = flush_rows, flush_seconds
        self.shards: list[LabelShard] = []
        self.rows: dict[Any, int] = {}
        self._ends: list[int] = []
        self._total = 0
        #: The number of the next shard.
        self._next = 1
        self._ids: list[Any] = []
        self._waiting: list[Columns] = []
        self._oldest = 0.0
        self._history = LabelHistory(folder / HISTORY)
        #: Sources and labels of the rows that wait, for the label history.
        self._new: list[tuple[str, dict[Any, str | None]]] = []
        self._lock = ExitStack()
        self._process: int | None = None

    @property
    def holds_lock(self) -> bool:
        """A forked child does not write for its parent."""
        return self._process == os.getpid()

    def lock(self) -> None:
        """Take the folder's lock, if no other store was begun here since."""
        if self.holds_lock:
            return
        self._lock.enter_context(locked(self.folder))
        self._process = os.getpid()
        try:
            read_settings(self.folder, self.classes, self.form)
            self.refresh()
            self._history = LabelHistory(self.folder / HISTORY)  # another process may have added to it
            # The last line that it had when the settings were written; "": it had none.
            self._history.check(str(_stored(self.folder).get("history", "")))
            if not (self.folder / SETTINGS).exists() or shards_written(self.folder) < self._next - 1:
                self._count()
            remove_leftovers(self.folder, self.shards)
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        if self.holds_lock:
            self._process = None
            self._lock.close()

    def finish(self) -> None:
        """Flush and release; at the end of the program, for a store that was not closed."""
        self.flush()
        self.release()

    def refresh(self) -> None:
        """Take in what was written since the last look."""
        if (copy := copy_of(self.folder)) is not None:
            copy.pull()
        shards, self._next = list_label_shards(self.folder)
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
            except FileNotFoundError:
                continue
        raise UnderstudyError(f"{self.folder}: shards vanish while they are read; is the folder being deleted?")

    def add(self, ids: list[Any], columns: Columns, source: str) -> None:
        """These rows wait to be written with others, not for long; top-k lists of another depth need another shard."""
        if self._waiting and depth_of(self._waiting[0]) != depth_of(columns):
            self.flush()
        self._note_source(source, ids, columns)
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
            for source, answers in self._new:  # first: no label is without its source
                self._history.add("answered", source, answers)
            self._new = []
            self._wrote(write_shard(self.folder, self._next, self._next, self._ids, self._unwritten()))
            self._ids, self._waiting, self._next = [], [], self._next + 1
            self._count()

    def _count(self) -> None:
        """Note how many shards there are: a later look then misses the last one, too."""
        settings = {"classes": list(self.classes), "form": self.form, "shards": self._next - 1}
        LABEL_STORE.write(self.folder, {**settings, "history": self._history.last()})

    def _note_source(self, source: str, ids: list[Any], columns: Columns) -> None:
        labels = FORMS[self.form].from_columns(columns, ReadOptions(len(self.classes), gaps=True)).top1().tolist()
        answers = {name: None if label < 0 else self.classes[label] for name, label in zip(ids, labels, strict=True)}
        # An id that comes twice was corrected in between: two entries.
        if self._new and self._new[-1][0] == source and not self._new[-1][1].keys() & answers.keys():
            self._new[-1][1].update(answers)
        else:
            self._new.append((source, answers))

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
        mine = next(iter(self.rows), None)
        if ids and mine is not None and type(ids[0]) is not type(mine):
            kinds = {int: "whole numbers", str: "text"}
            raise UnderstudyError(f"the ids are {kinds[type(ids[0])]}, those of {self.folder} {kinds[type(mine)]}")
        return np.array([self.rows.get(one, -1) for one in ids], dtype=np.int64)

    def labels(self, rows: Array) -> Columns:
        """The labels at these rows (−1: none), from the shards that hold them and from those that wait."""
        shard_of = np.searchsorted(self._ends, rows, side="right")
        sources: list[tuple[Array, Columns]] = []
        for number in np.unique(shard_of[rows >= 0]).tolist():
            columns = read_shard(self.shards[number])[1] if number < len(self.shards) else self._unwritten()
            start = self._ends[number - 1] if number else 0
            here = np.flatnonzero((shard_of == number) & (rows >= 0))
            sources.append((here, take(columns, rows[here] - start)))
        depth = max((depth_of(columns) for _, columns in sources), default=1)
        labels = blank(len(rows), self.form, len(self.classes), depth)
        for here, columns in sources:
            for name, column in deepened(columns, depth).items():
                labels[name][here] = column
        return labels

    def _unwritten(self) -> Columns:
        return {name: np.concatenate([part[name] for part in self._waiting]) for name in self._waiting[0]}

    def _number(self, ids: list[Any]) -> None:
        """Later rows of an id take the place of earlier ones."""
        self.rows.update(zip(ids, count(self._total), strict=False))
        self._total += len(ids)

    def _wrote(self, shard: LabelShard) -> None:
        """All rows so far are in this shard or in those before it."""
        self.shards.append(shard)
        self._ends.append(self._total)


def blank(rows: int, form: str, classes: int, depth: int) -> Columns:
    """Rows without a label."""
    columns = {}
    for column in FORMS[form].stored(form):
        width = (classes,) if column.holds == "number per class" else (depth,) if column.lists else ()
        columns[column.name] = np.full((rows, *width), column.missing, dtype=column.dtype)
    return columns


def take(columns: Columns, rows: Any) -> Columns:
    return {name: column[rows] for name, column in columns.items()}


def depth_of(columns: Columns) -> int:
    """How long the lists of a row are; 1 where it has none."""
    return next((column.shape[1] for name, column in columns.items() if COLUMNS[name].lists), 1)


def deepened(columns: Columns, depth: int) -> Columns:
    """Lists filled up to this length; other columns as they are."""
    extra = ((0, 0), (0, depth - depth_of(columns)))
    return {
        name: np.pad(column, extra, constant_values=COLUMNS[name].missing) if COLUMNS[name].lists else column
        for name, column in columns.items()
    }
