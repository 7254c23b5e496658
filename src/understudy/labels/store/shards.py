"""The files of a label store: ``store.json`` with what is fixed for all its labels, and numbered Parquet shards.

``00000004-00000007.<32 hex digits>.parquet`` holds what was once written as shards 4 to 7, with its checksum. A shard
appears whole or not at all; one whose bytes do not match its name, or whose number is missing, is an error that names
it. A shard inside the range of another is a leftover of a merge that was killed, and is ignored.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from understudy.errors import UnderstudyError
from understudy.labels.columns import Columns
from understudy.labels.forms import FORMS
from understudy.labels.llm.classes import checked_names
from understudy.store.arrow import from_parquet, to_parquet
from understudy.store.files import read_json, read_named, write_json, write_named
from understudy.store.settings import check_same

SETTINGS = "store.json"
FORMAT = 1
_NAME = re.compile(r"(\d{8})-(\d{8})\.[0-9a-f]{32}\.parquet(\.damaged)?")


class VanishedError(Exception):
    """A shard was merged into another by the writer while we read."""


@dataclass(frozen=True)
class Shard:
    path: Path
    first: int
    last: int


def list_shards(folder: Path) -> tuple[list[Shard], int]:
    """The shards that count, in order and without a gap, and the number of the next."""
    whole, damaged = _all_shards(folder)
    shards: list[Shard] = []
    following = 1
    for shard in sorted(whole + damaged, key=lambda shard: (shard.first, -shard.last)):
        if shard.last < following:
            continue
        if shard.first != following:
            break
        if shard not in damaged:
            shards.append(shard)
        following = shard.last + 1
    highest = max((shard.last for shard in whole), default=0)
    if following <= highest:
        raise UnderstudyError(
            f"{folder}: shard {following:08d} is missing; restore it, or accept its loss with an empty file "
            f"{following:08d}-{following:08d}.{'0' * 32}.parquet.damaged there (its rows are then asked again)"
        )
    return shards, following


def _all_shards(folder: Path) -> tuple[list[Shard], list[Shard]]:
    whole: list[Shard] = []
    damaged: list[Shard] = []
    for path in folder.iterdir() if folder.is_dir() else ():
        name = _NAME.fullmatch(path.name)
        if name is not None:
            (damaged if name[3] else whole).append(Shard(path, int(name[1]), int(name[2])))
        elif path.suffix == ".parquet" and not path.name.startswith("."):
            raise UnderstudyError(f"{path} is no shard of this label store; move it elsewhere")
    return whole, damaged


def read_shard(shard: Shard, columns: Sequence[str] | None = None) -> tuple[list[Any], Columns]:
    """Ids and label columns; ``columns=["id"]`` for the ids alone."""
    try:
        content = read_named(shard.path)
    except FileNotFoundError as error:
        raise VanishedError from error
    except OSError as error:
        raise UnderstudyError(f"cannot read {shard.path}: {error.strerror}") from error
    except ValueError as error:
        raise UnderstudyError(
            f"{shard.path} is damaged ({error}); restore it, or set it aside with "
            "us.LabelStore.set_aside_damaged(folder): its rows are then asked again"
        ) from error
    labels = from_parquet(shard.path, columns, content=content)
    return labels.pop("id").tolist(), labels


def is_damaged(shard: Shard) -> bool:
    try:
        read_shard(shard)
    except UnderstudyError:
        return True
    return False


def write_shard(folder: Path, first: int, last: int, ids: list[Any], columns: Columns) -> Shard:
    name = f"{first:08d}-{last:08d}.{{digest}}.parquet"
    return Shard(write_named(folder / name, to_parquet({"id": ids, **columns})), first, last)


def remove_leftovers(folder: Path, shards: list[Shard]) -> None:
    """What killed writers left: temporary files, and shards that were merged into another. Only the writer may."""
    for shard in set(_all_shards(folder)[0]) - set(shards):
        shard.path.unlink(missing_ok=True)
    for path in folder.glob(".*.parquet.*"):
        path.unlink(missing_ok=True)


def read_settings(folder: Path, classes: Sequence[str] | None, form: str | None) -> tuple[tuple[str, ...], str]:
    """Classes and form, as they are on the disk or else as given."""
    given = None if classes is None else checked_names(classes)
    if form is not None and form not in FORMS:
        raise UnderstudyError(f"form={form!r} is unknown; use one of {', '.join(FORMS)}")
    path = folder / SETTINGS
    if not path.exists():
        if list_shards(folder)[0]:
            raise UnderstudyError(f"{folder} holds shards but no {SETTINGS}; restore it from a backup")
        if given is None or form is None:
            raise UnderstudyError(f"there is no label store in {folder} yet; pass classes= and form= to start one")
        return given, form
    stored = read_json(path, format=FORMAT)
    if stored.get("form") not in FORMS:
        raise UnderstudyError(f"{path} is not the description of a label store; restore it")
    names = checked_names(stored.get("classes") or [])
    asked = {"classes": list(given or names), "form": form or stored["form"]}
    check_same({"classes": list(names), "form": stored["form"]}, asked, folder)
    return names, stored["form"]


def write_settings(folder: Path, classes: tuple[str, ...], form: str) -> None:
    if not (folder / SETTINGS).exists():
        write_json(folder / SETTINGS, {"format": FORMAT, "classes": list(classes), "form": form})
