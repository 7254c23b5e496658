"""The label store: a teacher's labels by id, never lost and never paid for twice.

    with us.LabelStore("labels", classes=["neg", "pos"], form="hard") as store:
        store.append(ids, labels)                    # numbers, class names, or any label form
        us.label_missing(store, pool_ids, ask)       # requests only what is not there, and saves after every batch
    store = us.LabelStore("labels")                  # many may read while one writes
    pool = us.Pool(x, store.labels(pool_ids))        # joined by id; rows without a label are left unlabelled

Labels are rows of numbered Parquet shards (``label_shards.py``); nothing is ever changed in place, and there is a label
history (``understudy history labels``). Rows wait in memory until there are ``flush_rows`` of them or, at an append,
the oldest is ``flush_seconds`` old: a crash loses these and no others. ``flush``, ``close``, the end of the ``with``
block and of the program write them. Forms: "dense", "hard", "hard_confidence", "topk", "votes". A label of −1 (top-k:
no class listed) means "requested, no label".
"""

import weakref
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from understudy.arguments import checked
from understudy.data.checks import MAX_CLASSES, check_length
from understudy.errors import UnderstudyError, shown
from understudy.labels.base import Columns
from understudy.labels.forms import FORMS, Labels, ReadOptions, as_labels
from understudy.labels.label_shards import Contents, deepened, depth_of, is_damaged, list_label_shards, take
from understudy.store.arrow import Array
from understudy.store.console import deferred, ends_on_sigterm
from understudy.store.files import locked, work_folder


@dataclass(frozen=True)
class Appended:
    """``new`` ids; ids that were there and say the ``same``; labels that were ``replaced`` (or filled in)."""

    new: int
    same: int
    replaced: int


class LabelStore:
    """``classes`` (names, or how many) and ``form`` are needed for a new store, and checked for an existing one."""

    @checked
    def __init__(
        self,
        folder: str | Path,
        classes: Sequence[str] | int | None = None,
        form: str | None = None,
        *,
        flush_rows: int = 1000,
        flush_seconds: float = 30.0,
    ) -> None:
        self.folder = work_folder(folder)
        if isinstance(classes, int) and not 1 <= classes <= MAX_CLASSES:
            raise UnderstudyError(f"classes={classes} must be 1 to {MAX_CLASSES:,}, or the classes' names")
        names = tuple(map(str, range(classes))) if isinstance(classes, int) else classes
        self._contents = Contents(self.folder, names, form, flush_rows=flush_rows, flush_seconds=flush_seconds)
        self.classes, self.form = self._contents.classes, self._contents.form
        self._contents.steady(lambda: None)
        self._block = ExitStack()
        # Forgetting to close must not cost labels.
        weakref.finalize(self, self._contents.finish)

    def __len__(self) -> int:
        return len(self._contents.rows)

    def __contains__(self, name: Any) -> bool:
        return name in self._contents.rows

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
        self._contents.lock()
        _, rows, group = np.unique(np.array(names), return_index=True, return_inverse=True)
        if len(rows) < len(names):
            quarrel = np.flatnonzero(~same_rows(columns, take(columns, rows[group])))
            if len(quarrel):
                raise UnderstudyError(f"id {names[quarrel[0]]!r} comes twice with different labels; keep one of them")
        rows.sort()
        known = self._contents.rows_of([names[row] for row in rows])
        taken = known < 0
        taken[~taken] = self._changed(names, columns, rows[~taken], known[~taken], replace=replace)
        added = rows[taken].tolist()
        if added:
            self._contents.add([names[row] for row in added], take(columns, added), source)
        new = int((known < 0).sum())
        return Appended(new, len(names) - len(added), len(added) - new)

    def flush(self) -> None:
        """Put everything that waits on the disk."""
        self._contents.flush()

    def close(self) -> None:
        """Flush, and let others write. The store can still be read, and appended to again."""
        self._contents.finish()

    def missing(self, ids: Any, *, unlabelled: bool = False) -> Array:
        """Which of these ids have no label yet, each once, in their order.

        ``unlabelled``: also those whose request got no label.
        """
        names = checked_ids(ids)

        def is_known() -> Array:
            rows = self._contents.rows_of(names)
            return ~self._unlabelled(self._contents.labels(rows)) if unlabelled else rows >= 0

        known = self._contents.steady(is_known)
        gone = dict.fromkeys(name for name, there in zip(names, known.tolist(), strict=True) if not there)
        return np.array(list(gone), dtype=np.str_ if names and isinstance(names[0], str) else np.int64)

    def labels(self, ids: Any) -> Labels:
        """Labels of these ids in their order, none where the store has none.

        Dense labels with gaps come as ``us.TopK`` of all classes, where rows may have no label.
        """
        names = checked_ids(ids)
        columns = self._contents.steady(lambda: self._contents.labels(self._contents.rows_of(names)))
        return FORMS[self.form].from_columns(columns, ReadOptions(len(self.classes), gaps=True))

    def compact(self) -> None:
        """Merge all shards into one that holds the newest label of every id; then the old ones go."""
        self._contents.lock()
        self._contents.merge()

    @staticmethod
    def set_aside_damaged(folder: str | Path) -> list[Path]:
        """Rename shards that cannot be read to ``….damaged``; their rows count as never labelled."""
        folder = work_folder(folder)
        with locked(folder):
            bad = [shard.path for shard in list_label_shards(folder)[0] if is_damaged(shard)]
            return [path.rename(path.with_name(f"{path.name}.damaged")) for path in bad]

    def _to_columns(self, labels: Any, rows: int) -> Columns:
        """Checked labels of any kind, if they are of this store's form."""
        given = as_labels(self._numbered(labels), "the labels")
        check_length(len(given), rows, "the labels", "ids")
        if given.classes is not None and given.classes != len(self.classes):
            raise UnderstudyError(f"the labels are over {given.classes} classes, the store's over {len(self.classes)}")
        if given.form != self.form:
            raise UnderstudyError(
                f"the labels are of form {given.form!r}, the store holds {self.form!r}; use another store for them"
            )
        return given.with_classes(len(self.classes)).to_columns()

    def _numbered(self, labels: Any) -> Any:
        """Class names as class numbers; None means no label."""
        if not isinstance(labels, Sequence | np.ndarray) or not any(isinstance(one, str) for one in labels):
            return labels
        number = {name: index for index, name in enumerate(self.classes)}
        unknown = [one for one in labels if one is not None and one not in number]
        if unknown:
            raise UnderstudyError(f"the labels name {unknown[0]!r}, which is not among the store's classes")
        return np.array([-1 if one is None else number[one] for one in labels], dtype=np.int64)

    def _changed(self, names: list[Any], columns: Columns, rows: Array, known: Array, *, replace: bool) -> Array:
        """Which of these rows say something else than the store does, and may."""
        old, new = self._contents.labels(known), take(columns, rows)
        depth = max(depth_of(old), depth_of(new))
        changed = ~same_rows(deepened(old, depth), deepened(new, depth))
        quarrel = changed & ~self._unlabelled(old)
        if quarrel.any() and not replace:
            name = names[int(rows[np.flatnonzero(quarrel)[0]])]
            raise UnderstudyError(
                f"{self.folder} has another label for id {name!r} ({int(quarrel.sum())} such ids); pass replace=True "
                "if the new one is right"
            )
        return changed

    def _unlabelled(self, columns: Columns) -> Array:
        """Rows that were requested and got no label: their first column holds nothing."""
        mark = FORMS[self.form].columns[0]
        values = columns[mark.name]
        missing = np.isnan(values) if np.isnan(mark.missing) else np.equal(values, mark.missing)
        return np.asarray(missing if values.ndim == 1 else missing.all(1))


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
                store.flush()
    return len(todo)


def checked_ids(ids: Any) -> list[Any]:
    """Ids as whole numbers or text, all of one kind."""
    kinds = {type(one) for one in ids} if isinstance(ids, list | tuple) else set()
    array = np.asarray(ids)
    if not array.size and array.ndim == 1:
        return []
    if array.ndim != 1 or array.dtype.kind not in "iuU" or (str in kinds and len(kinds) > 1):
        raise UnderstudyError("ids are whole numbers or text, one per row and all of one kind")
    names: list[Any] = array.tolist()
    try:
        if array.dtype.kind == "U":
            "".join(names).encode()
        else:
            np.asarray(names, dtype=np.int64)
    except (ValueError, OverflowError) as error:
        raise UnderstudyError("an id is no valid text or no 64-bit number; rename it") from error
    return names


def same_rows(one: Columns, other: Columns) -> Array:
    """Row by row, whether two sets of columns of one depth say the same."""
    same = np.ones(len(next(iter(one.values()))), dtype=bool)
    for name, column in one.items():
        equal = (column == other[name]) | ((column != column) & (other[name] != other[name]))
        same &= equal if equal.ndim == 1 else equal.all(1)
    return same
