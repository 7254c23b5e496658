"""The files of a label store: numbered Parquet shards that carry their checksum in their name.

``00000004-00000007.<32 hex digits>.parquet`` holds what was once written as shards 4 to 7. A shard appears whole or not
at all; one whose bytes do not match its name, or whose number is missing, is an error that names it. A shard inside the
range of another is a leftover of a merge that was killed, and is ignored.
"""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from understudy.errors import UnderstudyError
from understudy.labels.store.forms import Array, Columns
from understudy.store.files import write_bytes

_NAME = re.compile(r"(\d{8})-(\d{8})\.([0-9a-f]{32})\.parquet(\.damaged)?")


class VanishedError(Exception):
    """A shard was merged into another by the writer while we read."""


@dataclass(frozen=True)
class Shard:
    path: Path
    first: int
    last: int
    checksum: str


def list_shards(folder: Path) -> tuple[list[Shard], int]:
    """The shards that count, in order and without a gap, and the number of the next."""
    found, damaged = _all_shards(folder)
    shards: list[Shard] = []
    following = 1
    for shard in sorted(found + damaged, key=lambda shard: (shard.first, -shard.last)):
        if shard.last < following:
            continue
        if shard.first != following:
            break
        if shard in found:
            shards.append(shard)
        following = shard.last + 1
    highest = max((shard.last for shard in found), default=0)
    if following <= highest:
        raise UnderstudyError(
            f"{folder}: shard {following:08d} is missing; restore it, or accept its loss with an empty file "
            f"{following:08d}-{following:08d}.{'0' * 32}.parquet.damaged there (its rows are then asked again)"
        )
    return shards, following


def _all_shards(folder: Path) -> tuple[list[Shard], list[Shard]]:
    found: list[Shard] = []
    damaged: list[Shard] = []
    for path in folder.iterdir() if folder.is_dir() else ():
        name = _NAME.fullmatch(path.name)
        if name is not None:
            into = damaged if name[4] else found
            into.append(Shard(path, int(name[1]), int(name[2]), name[3]))
        elif path.suffix == ".parquet" and not path.name.startswith("."):
            raise UnderstudyError(f"{path} is no shard of this label store; move it elsewhere")
    return found, damaged


def read_shard(shard: Shard, columns: Sequence[str] | None = None) -> tuple[list[Any], Columns]:
    """Ids and label columns; ``columns=[]`` for the ids alone."""
    try:
        content = shard.path.read_bytes()
    except FileNotFoundError as error:
        raise VanishedError from error
    except OSError as error:
        raise UnderstudyError(f"cannot read {shard.path}: {error.strerror}") from error
    if _checksum(content) != shard.checksum:
        raise UnderstudyError(
            f"{shard.path} is damaged ({len(content)} bytes that do not match its checksum); restore it, or set it "
            "aside with us.LabelStore.set_aside_damaged(folder): its rows are then asked again"
        )
    try:
        table = pq.read_table(pa.BufferReader(content), columns=None if columns is None else ["id", *columns])
        ids = table["id"].to_pylist()
        names = [name for name in table.column_names if name != "id"]
        return ids, {name: _array(table[name].combine_chunks()) for name in names}
    except (pa.ArrowException, ValueError, KeyError, AttributeError) as error:
        raise UnderstudyError(f"{shard.path} holds no labels ({' '.join(str(error).split())[:100]})") from error


def is_damaged(shard: Shard) -> bool:
    try:
        read_shard(shard)
    except UnderstudyError:
        return True
    return False


def write_shard(folder: Path, first: int, last: int, ids: list[Any], columns: Columns) -> Shard:
    arrays = {"id": pa.array(ids), **{name: _arrow(column) for name, column in columns.items()}}
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(arrays), sink)
    content = bytes(sink.getvalue())
    shard = Shard(folder / f"{first:08d}-{last:08d}.{_checksum(content)}.parquet", first, last, _checksum(content))
    write_bytes(shard.path, content)
    return shard


def remove_leftovers(folder: Path, shards: list[Shard]) -> None:
    """What killed writers left: temporary files, and shards that were merged into another. Only the writer may."""
    kept = {shard.path for shard in shards}
    for shard in _all_shards(folder)[0]:
        if shard.path not in kept:
            shard.path.unlink(missing_ok=True)
    for path in folder.glob(".*.parquet.*"):
        path.unlink(missing_ok=True)


def _checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]


def _arrow(column: Array) -> Any:
    if column.ndim == 1:
        return pa.array(column)
    return pa.FixedSizeListArray.from_arrays(pa.array(column.reshape(-1)), column.shape[1])


def _array(values: Any) -> Array:
    if not pa.types.is_fixed_size_list(values.type):
        return np.array(values.to_numpy(zero_copy_only=False))
    return np.array(values.flatten().to_numpy(zero_copy_only=False)).reshape(len(values), values.type.list_size)
