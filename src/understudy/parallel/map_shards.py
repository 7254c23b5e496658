"""A pass over the shards of a pool into a folder of shards: one for each, in the same order.

    us.map_shards(function, "pool", "out", executor=us.ray())

    out/00000.parquet …    what the function made of each shard, with the rows' ``id``, or ``row``, their number
    out/_pass.json         what was passed over with what; at the end the checksums of all shards
    out/_unfinished/       while the pass runs: a record of each finished shard, and files that are not yet taken over

A worker writes its shard to a temporary name; the process that owns the pass moves it to its place and records it, so
that a worker that outlives that process cannot overwrite later work. Recorded shards are not made again: the same call
resumes an interrupted pass, and the shard of a lost worker is made once more, to the same bytes. Each worker needs
memory for one shard, and so does the owner.

One task for each shard, on whatever executor: not Ray Data, whose blocks are cut, joined and ordered by its own plan.
A task that reads one file and makes one file has its order, its memory and its place to go on from by construction.
"""

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from understudy.errors import UnderstudyError
from understudy.io.table import Table
from understudy.parallel.executors import Executor, executor_for
from understudy.parallel.pool_shards import PoolShard, PoolShards, list_pool_shards
from understudy.store.arrow import to_parquet
from understudy.store.checked_folder import Finding, FolderKind, Jobs, Manifest
from understudy.store.console import ProgressBar, ends_on_sigterm
from understudy.store.files import digest, locked, read_json, work_folder, write_bytes
from understudy.store.fingerprints import fingerprint
from understudy.store.option_fields import checked
from understudy.store.settings import as_json, check_same

PASS, UNFINISHED = "_pass.json", "_unfinished"
Columns = Mapping[str, Any]


class ShardResult(NamedTuple):
    """What a function makes of a shard, where it has more to say than columns."""

    columns: Columns
    #: Kept with the shard's record, as JSON.
    summary: Mapping[str, Any]


ShardFunction = Callable[[Table], Columns | ShardResult]


def split_result(result: Columns | ShardResult) -> tuple[Columns, Mapping[str, Any]]:
    """Columns and summary of what a function made of a table."""
    return (result.columns, result.summary) if isinstance(result, ShardResult) else (result, {})


def row_names(table: Table, first: int = 0) -> Columns:
    """The rows' ids, or their numbers where there are none."""
    return {"row": np.arange(first, first + len(table))} if table.ids is None else {"id": table.ids}


def to_records(columns: Columns) -> bytes:
    """Arrays as one .npy file of records, whose rows can be read where they lie."""
    fields = [(name, column.dtype, column.shape[1:]) for name, column in columns.items()]
    records = np.empty(len(next(iter(columns.values()))), dtype=fields)
    for name, column in columns.items():
        records[name] = column
    content = BytesIO()
    np.save(content, records, allow_pickle=False)
    return content.getvalue()


FORMATS: dict[str, Callable[[Columns], bytes]] = {".parquet": to_parquet, ".npy": to_records}


@dataclass(frozen=True)
class ShardTask:
    """The work on one shard, wherever it is done."""

    function: ShardFunction
    columns: Mapping[str, str]
    staging: Path
    suffix: str
    named: bool

    def __call__(self, shard: PoolShard) -> dict[str, Any]:
        table = shard.read(self.columns)
        columns, summary = split_result(self.function(table))
        for name, column in columns.items():
            if len(column) != shard.rows:
                raise UnderstudyError(f"{shard}: made {len(column)} values of {name!r} for {shard.rows} rows; one each")
        if self.named and not columns.keys() & {"id", "row"}:
            columns = {**row_names(table, shard.first), **columns}
        content = FORMATS[self.suffix](columns)
        checksum = digest(content)
        if not self.staging.is_dir():
            raise UnderstudyError(f"{self.staging} is gone, or not to be seen from here; workers share the pool's disk")
        write_bytes(self.staging / f"{shard.number}-{checksum[:16]}{self.suffix}", content)
        return {"checksum": checksum, "rows": shard.rows, "bytes": len(content), "summary": dict(summary)}


def _also(path: Path, stored: Manifest) -> Iterator[Finding]:
    if not stored["finished"]:
        yield Finding(path / PASS, "is of a pass that is not finished (the same command goes on)")


SHARD_PASS = FolderKind("pass over shards", PASS, _also, "remove the folder to make the pass again")


class PassFolder:
    """The folder of one pass: begun, gone on with, finished."""

    def __init__(self, path: Path, shards: PoolShards, suffix: str = ".parquet") -> None:
        self.path, self.shards, self.suffix = path, shards, suffix
        self.staging = path / UNFINISHED
        self.done = Jobs(self.staging, ("shard",))
        self.digits = max(5, len(str(len(shards) - 1)))

    def file(self, shard: PoolShard) -> Path:
        return self.path / f"{shard.number:0{self.digits}d}{self.suffix}"

    def files(self) -> list[Path]:
        return [self.file(shard) for shard in self.shards]

    def open(self, settings: dict[str, Any]) -> bool:
        """Begin, or go on with the same; whether it was finished already."""
        file = self.path / PASS
        if not file.exists():
            # A name that begins with a dot is a lock, or a file that a killed process did not finish.
            if any(self.path.glob("[!.]*")):
                raise UnderstudyError(f"{self.path} is not empty and holds no pass over shards; choose a new folder")
            SHARD_PASS.write(self.path, {"settings": settings, "finished": False})
        stored = SHARD_PASS.read(self.path)
        check_same(stored["settings"], settings, self.path, hints=HINTS)
        if stored["finished"]:  # killed, perhaps, before this was gone
            shutil.rmtree(self.staging, ignore_errors=True)
            return True
        self.staging.mkdir(exist_ok=True)
        for leftover in self.staging.glob(f"*{self.suffix}"):
            leftover.unlink()
        return False

    def missing(self) -> list[PoolShard]:
        open_ones = {number for (number,) in self.done.missing([(shard.number,) for shard in self.shards])}
        return [shard for shard in self.shards if shard.number in open_ones or not self.file(shard).exists()]

    def take_over(self, shard: PoolShard, record: dict[str, Any]) -> None:
        """A shard that a worker has put aside goes to its place, and is recorded."""
        staged = self.staging / f"{shard.number}-{record['checksum'][:16]}{self.suffix}"
        os.replace(staged, self.file(shard))
        self.done.write((shard.number,), record)

    def finish(self, settings: dict[str, Any]) -> list[dict[str, Any]]:
        """All shards are there: their checksums and summaries in one file, in the order of the shards."""
        records = [self.done.read((shard.number,)) for shard in self.shards]
        files = {path.name: record["checksum"] for path, record in zip(self.files(), records, strict=True)}
        summaries = [{"rows": record["rows"], **record["summary"]} for record in records]
        finished = {"settings": settings, "finished": True, "shards": summaries}
        SHARD_PASS.write(self.path, finished, files)
        shutil.rmtree(self.staging)
        return summaries


HINTS = {"shards": "the files have changed", "function": "another run, function or option"}


@checked
def map_shards(
    function: Callable[[Any], Any],
    pool: str | Path,
    out: str | Path,
    *,
    columns: Mapping[str, str] | None = None,
    workers: int = 1,
    executor: Executor | None = None,
    progress: bool = True,
) -> Path:
    """Apply a function to every shard of a pool (a folder of .parquet files), and write a folder of shards.

    ``function(table)`` is given one shard: ``table.columns["text"]`` is an array with a value for each row, and
    returns columns by name, arrays of as many rows. ``columns``: our names to those in the files. ``workers``:
    processes of one thread each; ``executor``: anything else that runs shards (``us.ray()``). The same call goes on
    where it was stopped. PoolShards and rows keep their order, so ids and bytes do not depend on who did what.
    """
    executor = executor_for(None if executor else workers, executor)
    run_pass(function, list_pool_shards(pool), Path(out), columns=columns or {}, executor=executor, progress=progress)
    return Path(out)


def run_pass(
    function: ShardFunction, shards: PoolShards, out: Path, *, executor: Executor, columns: Mapping[str, str],
    title: str = "shards", progress: bool = True, suffix: str = ".parquet", named: bool = True,
) -> list[dict[str, Any]]:  # fmt: skip
    """The pass, or what is left of it; the shards' rows and summaries, in their order."""
    given = {"shards": shards.fingerprint(), "function": fingerprint(function), "kind": suffix}
    settings = as_json({**given, "columns": dict(columns)})
    out = work_folder(out)
    if out.is_file():
        raise UnderstudyError(f"{out} is a file; name a folder for the shards")
    with ends_on_sigterm(), locked(out):
        folder = PassFolder(out, shards, suffix)
        if folder.open(settings):
            return list(read_json(out / PASS)["shards"])
        left = folder.missing()
        task = ShardTask(function, columns, folder.staging.resolve(), suffix, named)
        bar = ProgressBar(title, len(shards), len(shards) - len(left), shown=progress)
        with bar, closing(executor.map(task, left)) as results:
            for number, record in results:
                folder.take_over(left[number], record)
                bar.advance(f"{left[number].path.name}: {record['rows']} rows")
        shards.check_unchanged(settings["shards"])
        return folder.finish(settings)
