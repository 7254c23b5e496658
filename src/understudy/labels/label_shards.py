"""The shards of a label store: its files, and where in them each id is.

``store.json`` holds what is fixed for all labels, and how many shards there are at least; it has a
checksum (``store/checked_folder.py``). ``label_history.jsonl`` is the label history (``store/log.py``).
``00000004-00000007.<32 hex digits>.parquet`` holds what was once written as shards 4 to 7, with its checksum. A shard
appears whole or not at all; one whose bytes do not match its name, or whose number is missing, is an error that names
it. A shard inside the range of another is a leftover of a merge that was killed, and is ignored.

Labels are rows of named columns. What the columns are is for the forms to say (``labels.forms``); nothing here knows
one form from another.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from understudy.errors import UnderstudyError
from understudy.labels.base import Columns
from understudy.labels.class_names import checked_names
from understudy.labels.forms import COLUMNS, FORMS
from understudy.store.arrow import Array, from_parquet, to_parquet
from understudy.store.checked_folder import Finding, FolderKind, Manifest
from understudy.store.files import read_named, write_named
from understudy.store.log import HISTORY, LabelHistory
from understudy.store.settings import check_same

SETTINGS = "store.json"
_NAME = re.compile(r"(\d{8})-(\d{8})\.[0-9a-f]{32}\.parquet(\.damaged)?")


@dataclass(frozen=True)
class LabelShard:
    path: Path
    first: int
    last: int
    #: Set aside: its rows count as never labelled.
    damaged: bool = False


def list_label_shards(folder: Path) -> tuple[list[LabelShard], int]:
    """The shards that count, in order and without a gap, and the number of the next."""
    written = read_stored(folder).get("shards", 0)  # before the look at the folder, where more may appear meanwhile
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
        empty = f"{following:08d}-{following:08d}.{'0' * 32}.parquet.damaged"
        cure = f"restore it, or accept its loss with an empty file {empty} there (its rows are then labelled again)"
        raise UnderstudyError(f"{folder}: shard {following:08d} is missing; {cure}")
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
    except (OSError, ValueError) as error:
        cure = "set it aside with us.LabelStore.set_aside_damaged(folder): its rows are then labelled again"
        raise UnderstudyError(f"{shard.path} is damaged ({error}); restore it, or {cure}") from error
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
    """What killed writers left: shards that were merged into another. Only the writer may."""
    for shard in set(_all_shards(folder)) - set(shards):
        if not shard.damaged:
            shard.path.unlink(missing_ok=True)


def read_stored(folder: Path) -> Manifest:
    """The settings on the disk; none of a store that was not begun yet."""
    return LABEL_STORE.read(folder) if (folder / SETTINGS).exists() else {}


def read_settings(folder: Path, classes: Sequence[str] | None, form: str | None) -> tuple[tuple[str, ...], str]:
    """Classes and form, as they are on the disk or else as given."""
    given = None if classes is None else checked_names(classes, "classes", printable=True)
    if form is not None and form not in FORMS:
        raise UnderstudyError(f"form={form!r} is unknown; use one of {', '.join(FORMS)}")
    stored, path = read_stored(folder), folder / SETTINGS
    if not stored:
        if list_label_shards(folder)[0]:
            raise UnderstudyError(f"{folder} holds shards but no {SETTINGS}; restore it from a backup")
        if given is None or form is None:
            raise UnderstudyError(f"there is no label store in {folder} yet; pass classes= and form= to start one")
        return given, form
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


def blank_row(form: str, classes: int) -> Columns:
    """One row without a label."""
    columns = {}
    for column in (column for column in FORMS[form].columns if column.only in (None, form)):
        width = (classes,) if column.holds == "number per class" else (1,) if column.lists else ()
        columns[column.name] = np.full((1, *width), column.missing, dtype=column.dtype)
    return columns


def take(columns: Columns, rows: Any) -> Columns:
    return {name: column[rows] for name, column in columns.items()}


def join_rows(parts: Sequence[Columns]) -> Columns:
    """The rows of all parts; lists that are shorter than others are filled up."""
    columns: Columns = {}
    for name in parts[0]:
        arrays, column = [part[name] for part in parts], COLUMNS[name]
        if column.lists:
            depth = max(array.shape[1] for array in arrays)
            filled = [((0, 0), (0, depth - array.shape[1])) for array in arrays]
            arrays = [np.pad(*each, constant_values=column.missing) for each in zip(arrays, filled, strict=True)]
        columns[name] = np.concatenate(arrays)
    return columns


def same_rows(one: Columns, other: Columns) -> Array:
    """Row by row, whether two sets of as many rows say the same."""
    rows = len(next(iter(one.values())))
    same = np.ones(rows, dtype=bool)
    for column in join_rows([one, other]).values():
        mine, theirs = column[:rows], column[rows:]
        equal = (mine == theirs) | ((mine != mine) & (theirs != theirs))
        same &= equal if equal.ndim == 1 else equal.all(1)
    return same


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
