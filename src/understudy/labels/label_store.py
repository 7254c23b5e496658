"""The label store: a teacher's labels by id, never lost and never paid for twice.

    with us.LabelStore("labels", classes=["neg", "pos"], form="hard") as store:
        store.append(ids, labels)                    # numbers, class names, or any label form
        us.label_missing(store, pool_ids, ask)       # requests only what is not there, and saves after every batch
    store = us.LabelStore("labels")                  # many may read while one writes
    pool = us.Pool(x, store.labels(pool_ids))        # joined by id; rows without a label are left unlabelled

Labels are rows of numbered Parquet shards (``label_shards.py``), one for every append, on the disk when it returns;
nothing is ever changed in place, and there is a label history (``understudy history labels``). Forms: "dense", "hard",
"hard_confidence", "topk", "votes". A label of −1 (top-k: no class listed) means "requested, no label".
"""

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Self

import numpy as np

from understudy.data.checks import check_class_count, check_length
from understudy.errors import UnderstudyError, shown
from understudy.labels import label_shards
from understudy.labels.base import Columns
from understudy.labels.class_names import as_texts
from understudy.labels.forms import FORMS, Hard, Labels, ReadOptions, as_labels
from understudy.labels.label_shards import LabelShard, checked_ids, join_rows, same_rows, take
from understudy.store.arrow import Array
from understudy.store.console import deferred, ends_on_sigterm
from understudy.store.files import copy_of, locked, work_folder
from understudy.store.log import HISTORY, LabelHistory
from understudy.store.option_fields import checked

# The writer merges shards rarely; a reader that meets this so often in a row has met something else.
_ATTEMPTS = 20


@dataclass(frozen=True)
class Appended:
    """``new`` ids; ids that were there and say the ``same``; labels that were ``replaced`` (or filled in)."""

    new: int
    same: int
    replaced: int


class LabelStore:
    """``classes`` (names, or how many) and ``form`` are needed for a new store, and checked for an existing one.

    Labels stay on the disk. The writer holds the folder's lock, from the first row on.
    """

    #: Of the writer.
    _process: int | None = None

    @checked
    def __init__(self, folder: str | Path, classes: Sequence[str] | int | None = None, form: str | None = None) -> None:
        if isinstance(classes, int):
            classes = tuple(map(str, range(check_class_count(classes, "LabelStore"))))
        self.folder = work_folder(folder)
        self.classes, self.form = label_shards.read_settings(self.folder, classes, form)
        self._forget()
        #: The number of the next shard.
        self._next = 1
        #: The gold rows that labels appended here were fitted to.
        self._fitted_to: frozenset[str] = frozenset()
        self._block, self._lock = ExitStack(), ExitStack()
        self._look([], labels=False)

    def _forget(self) -> None:
        #: Id -> row, counted over all shards in order; about 100 bytes per id.
        self._rows: dict[Any, int] = {}
        self._shards: list[LabelShard] = []
        #: For each shard, how many rows it and those before it hold.
        self._ends: list[int] = []

    def __del__(self) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, name: Any) -> bool:
        return name in self._rows

    def __repr__(self) -> str:
        return f"LabelStore({shown(self.folder)!r}, {len(self)} ids, form {self.form!r}, {len(self.classes)} classes)"

    def __enter__(self) -> Self:
        self._block.enter_context(ends_on_sigterm())
        self._block.callback(self.close)
        return self

    def __exit__(self, *error: object) -> None:
        self._block.close()

    def append(self, ids: Any, labels: Any, *, replace: bool = False, source: str = "") -> Appended:
        """Keep these labels; all of them, or none and an error. ``source``: who or what they come from.

        An id that is there: the same label again is counted and ignored; a label where there was no answer is taken; a
        different one is an error, or with ``replace`` the one that counts from now on (the old shard stays until
        ``compact``).
        """
        names = checked_ids(ids)
        columns = self._to_columns(labels, len(names))
        self._take_lock()
        self._fitted_to |= getattr(labels, "fitted_to", frozenset())
        _, rows, group = np.unique(np.array(names), return_index=True, return_inverse=True)
        quarrel = np.flatnonzero(~same_rows(columns, take(columns, rows[group])))
        if len(quarrel):
            raise UnderstudyError(f"id {names[quarrel[0]]!r} comes twice with different labels; keep one of them")
        rows.sort()
        known = self._rows_of([names[row] for row in rows])
        taken = known < 0
        taken[~taken] = self._changed(names, columns, rows[~taken], known[~taken], replace=replace)
        added = rows[taken].tolist()
        if added:
            self._write([names[row] for row in added], take(columns, added), source)
        new = int((known < 0).sum())
        return Appended(new, len(names) - len(added), len(added) - new)

    def close(self) -> None:
        """Let others write. The store can still be read, and appended to again."""
        if self._holds_lock:
            self._release()

    def missing(self, ids: Any, *, unlabelled: bool = False) -> Array:
        """Which of these ids have no label yet, each once, in their order.

        ``unlabelled``: also those whose request got no label.
        """
        names = checked_ids(ids)
        rows, columns = self._look(names, labels=unlabelled)
        known = ~self._unlabelled(columns) if unlabelled else rows >= 0
        gone = dict.fromkeys(name for name, there in zip(names, known.tolist(), strict=True) if not there)
        return np.array(list(gone), dtype=np.str_ if names and isinstance(names[0], str) else np.int64)

    def labels(self, ids: Any) -> Labels:
        """Labels of these ids in their order, none where the store has none.

        Dense labels with gaps come as ``us.TopK`` of all classes, where rows may have no label.
        """
        found = self._as_labels(self._look(checked_ids(ids))[1])
        found.fitted_to = self._fitted_to | frozenset(label_shards.read_stored(self.folder).get("fitted_to", ()))
        return found

    def compact(self) -> None:
        """Merge all shards into one that holds the newest label of every id; then the old ones go."""
        self._take_lock()
        if len(self._shards) > 1:
            ids, rows = list(self._rows), np.array(list(self._rows.values()))
            merged = label_shards.write_shard(self.folder, 1, self._next - 1, ids, self._columns(rows))
            label_shards.remove_leftovers(self.folder, [merged])
            self._refresh()

    @staticmethod
    def set_aside_damaged(folder: str | Path) -> list[Path]:
        """Rename shards that cannot be read to ``….damaged``; their rows count as never labelled."""
        folder = work_folder(folder)
        with locked(folder):
            bad = [shard.path for shard in label_shards.list_label_shards(folder)[0] if label_shards.is_damaged(shard)]
            return [path.rename(path.with_name(f"{path.name}.damaged")) for path in bad]

    def _to_columns(self, labels: Any, rows: int) -> Columns:
        """Checked labels of any kind, if they are of this store's form."""
        named = as_texts(labels) is not None
        given = Hard(labels, classes=self.classes, where="the labels") if named else as_labels(labels, "the labels")
        check_length(len(given), rows, "the labels", "ids")
        if given.classes is not None and given.classes != len(self.classes):
            raise UnderstudyError(f"the labels are over {given.classes} classes, the store's over {len(self.classes)}")
        if given.form != self.form:
            raise UnderstudyError(f"the labels are of form {given.form!r}, the store's {self.form!r}; use another")
        return given.with_classes(len(self.classes)).to_columns()

    def _changed(self, names: list[Any], columns: Columns, rows: Array, known: Array, *, replace: bool) -> Array:
        """Which of these rows say something else than the store does, and may."""
        old = self._columns(known)
        changed = ~same_rows(old, take(columns, rows))
        quarrel = changed & ~self._unlabelled(old)
        if quarrel.any() and not replace:
            name = names[int(rows[np.flatnonzero(quarrel)[0]])]
            others = f"{self.folder} has another label for id {name!r} ({int(quarrel.sum())} such ids)"
            raise UnderstudyError(f"{others}; pass replace=True if the new one is right")
        return changed

    def _unlabelled(self, columns: Columns) -> Array:
        """Rows that were requested and got no label: their first column holds nothing."""
        mark = FORMS[self.form].columns[0]
        values = columns[mark.name]
        missing = np.isnan(values) if np.isnan(mark.missing) else np.equal(values, mark.missing)
        return np.asarray(missing if values.ndim == 1 else missing.all(1))

    @property
    def _holds_lock(self) -> bool:
        """A forked child does not write for its parent."""
        return self._process == os.getpid()

    def _take_lock(self) -> None:
        """Take the folder's lock, if no other store was begun here since."""
        if self._holds_lock:
            return
        self._lock.enter_context(locked(self.folder))
        self._process = os.getpid()
        try:
            label_shards.read_settings(self.folder, self.classes, self.form)
            self._refresh()
            self._history = LabelHistory(self.folder / HISTORY)  # another process may have added to it
            # The last line that it had when the settings were written; "": it had none.
            stored = label_shards.read_stored(self.folder)
            self._history.check(str(stored.get("history", "")))
            if stored.get("shards", -1) < self._next - 1:
                self._write_settings()
            label_shards.remove_leftovers(self.folder, self._shards)
        except BaseException:
            self._release()
            raise

    def _release(self) -> None:
        self._process = None
        self._lock.close()

    def _refresh(self) -> None:
        """Take in what was written since the last look."""
        if (copy := copy_of(self.folder)) is not None:
            copy.pull()
        shards, self._next = label_shards.list_label_shards(self.folder)
        if shards[: len(self._shards)] != self._shards:
            self._forget()  # merged meanwhile: all rows have other numbers
        for shard in shards[len(self._shards) :]:
            self._take_in(shard, label_shards.read_shard(shard, ["id"])[0])

    def _look(self, ids: list[Any], *, labels: bool = True) -> tuple[Array, Columns]:
        """The rows of these ids and their labels as they are on the disk now; again if shards are merged meanwhile."""
        for _ in range(_ATTEMPTS):
            try:
                if not self._holds_lock:
                    self._refresh()
                rows = self._rows_of(ids)
                return rows, self._columns(rows) if labels else {}
            except FileNotFoundError:
                continue
        raise UnderstudyError(f"{self.folder}: shards vanish while they are read; is the folder being deleted?")

    def _write(self, ids: list[Any], columns: Columns, source: str) -> None:
        """These rows as the next shard."""
        named = [None if label < 0 else self.classes[label] for label in self._as_labels(columns).top1().tolist()]
        # First: no label is without its source.
        self._history.add("answered", source, dict(zip(ids, named, strict=True)))
        shard = label_shards.write_shard(self.folder, self._next, self._next, ids, columns)
        self._next += 1
        self._take_in(shard, ids)
        self._write_settings()

    def _write_settings(self) -> None:
        """Note how many shards there are: a later look then misses the last one, too."""
        settings: dict[str, Any] = {"classes": list(self.classes), "form": self.form, "shards": self._next - 1}
        self._fitted_to |= frozenset(label_shards.read_stored(self.folder).get("fitted_to", ()))
        settings |= {"fitted_to": sorted(self._fitted_to)} if self._fitted_to else {}
        label_shards.LABEL_STORE.write(self.folder, {**settings, "history": self._history.last()})

    def _rows_of(self, ids: list[Any]) -> Array:
        """−1 where an id is unknown."""
        mine = next(iter(self._rows), None)
        if ids and mine is not None and type(ids[0]) is not type(mine):
            kinds = {int: "whole numbers", str: "text"}
            raise UnderstudyError(f"the ids are {kinds[type(ids[0])]}, those of {self.folder} {kinds[type(mine)]}")
        return np.array([self._rows.get(one, -1) for one in ids], dtype=np.int64)

    def _columns(self, rows: Array) -> Columns:
        """The labels at these rows (−1: none), from the shards that hold them."""
        parts, places, total = [label_shards.blank_row(self.form, len(self.classes))], np.zeros_like(rows), 1
        shard_of = np.where(rows < 0, -1, np.searchsorted(self._ends, rows, side="right"))
        for number in np.unique(shard_of[rows >= 0]).tolist():
            columns = label_shards.read_shard(self._shards[number])[1]
            here = np.flatnonzero(shard_of == number)
            parts.append(take(columns, rows[here] - (self._ends[number - 1] if number else 0)))
            places[here] = total + np.arange(len(here))
            total += len(here)
        return take(join_rows(parts), places)

    def _as_labels(self, columns: Columns) -> Labels:
        return FORMS[self.form].from_columns(columns, ReadOptions(len(self.classes), gaps=True))

    def _take_in(self, shard: LabelShard, ids: list[Any]) -> None:
        """One more shard; later rows of an id take the place of earlier ones."""
        start = self._ends[-1] if self._ends else 0
        self._rows.update(zip(ids, count(start), strict=False))
        self._shards.append(shard)
        self._ends.append(start + len(ids))


def label_missing(store: LabelStore, ids: Any, ask: Callable[[Array], Any], *, batch: int = 32) -> int:
    """Request labels of the ids that are not in the store, ``batch`` at a time, each saved before the next.

    ``ask(ids)`` returns their labels in any form the store takes. Killed at any moment, at most the
    batch under way is requested again; on SIGTERM the program ends after it. Returns how many ids were requested.
    """
    if batch < 1:
        raise UnderstudyError(f"batch={batch} must be 1 or more")
    todo, source = store.missing(ids), str(getattr(ask, "__qualname__", type(ask).__name__))
    with ends_on_sigterm():
        for start in range(0, len(todo), batch):
            some = todo[start : start + batch]
            with deferred():  # an answer that is on its way is paid for
                store.append(some, ask(some), source=source)
    return len(todo)
