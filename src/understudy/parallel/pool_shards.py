"""A pool as Parquet shards: which there are, and where each one's rows stand among all.

    pool = list_pool_shards("pool")                  # reads the files' footers only
    len(pool)                                   # shards
    table = pool[3].read({"label": "truth"})    # one shard as a table, columns read at first use

Rows are numbered over all shards in the order of the files' names, and these numbers, like the ids, do not depend on
who works on which shard. PoolShards without a row are passed over.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from understudy.errors import UnderstudyError
from understudy.io.readers import File, file_state
from understudy.io.readers.parquet import parquet_at, read_footers
from understudy.io.table import Table, read_table, shards_of
from understudy.parallel.executors import Executor
from understudy.store.files import is_remote
from understudy.store.fingerprints import fingerprint
from understudy.store.remote import address_of

Result = TypeVar("Result")


@dataclass(frozen=True)
class PoolShard:
    number: int
    path: File
    #: The number of its first row among all rows.
    first: int
    rows: int

    def __str__(self) -> str:
        return f"shard {self.path}"

    @property
    def part(self) -> slice:
        """Its rows among all rows."""
        return slice(self.first, self.first + self.rows)

    def read(self, columns: Mapping[str, str] | None = None) -> Table:
        table = read_table(str(self.path), columns=columns)
        if len(table) != self.rows:
            raise UnderstudyError(f"{self.path} has {len(table)} rows and had {self.rows}; do not change a pool in use")
        return table


@dataclass(frozen=True)
class PoolShards(Sequence[PoolShard]):
    path: Path
    shards: tuple[PoolShard, ...]

    def __len__(self) -> int:
        return len(self.shards)

    def __getitem__(self, number: Any) -> Any:
        return self.shards[number]

    def fingerprint(self, *, again: bool = False) -> str:
        """Changes where a file does (``io.readers.file_state``)."""
        return fingerprint([file_state(shard.path, again=again) for shard in self])

    def check_unchanged(self, before: str) -> None:
        """Whether the files still are what this fingerprint was taken of."""
        try:
            same = self.fingerprint(again=True) == before
        except FileNotFoundError:
            same = False
        if not same:
            raise UnderstudyError(f"{self.path} was changed during the pass; repeat it into a new folder")


def is_sharded(path: Path) -> bool:
    """Whether this is a folder of .parquet files, here or at an address."""
    if remote := parquet_at(path):
        return remote[0].address != address_of(path)
    return path.is_dir() and bool(shards_of(path))


def list_pool_shards(path: str | Path) -> PoolShards:
    """A folder of .parquet files with the same columns, or one such file."""
    files: Sequence[File] = parquet_at(path)
    path = Path(path)
    if not files and path.is_file() and path.suffix.lower() == ".parquet":
        files = [path]
    elif not files and path.is_dir():
        files = shards_of(path)
    if not files:
        if not is_remote(path) and not path.exists():
            raise UnderstudyError(f"{path} is not there; check the path")
        raise UnderstudyError(f"{path} is no folder of .parquet shards; passes over shards read those alone")
    counts, _ = read_footers(files)
    shards: list[PoolShard] = []
    first = 0
    for file, count in zip(files, counts, strict=True):
        if count:
            shards.append(PoolShard(len(shards), file, first, count))
            first += count
    if not shards:
        raise UnderstudyError(f"{path}: no shard holds a row; check how they were written")
    return PoolShards(path, tuple(shards))


def results_in_order(
    executor: Executor, function: Callable[[PoolShard], Result], shards: Sequence[PoolShard]
) -> Iterator[tuple[PoolShard, Result]]:
    """A function's results for all shards, in the order of the shards, so that sums in floating point are reproducible.

    Early results wait in memory, so they should be small.
    """
    early: dict[int, Result] = {}
    place = 0
    with closing(executor.map(function, shards)) as results:
        for number, result in results:
            early[number] = result
            while place in early:
                yield shards[place], early.pop(place)
                place += 1


def shards_with(shards: Sequence[PoolShard], index: Tensor) -> list[tuple[PoolShard, Tensor]]:
    """The shards that hold some of these rows, and the places of those in ``index``."""
    homes = torch.searchsorted(torch.tensor([shard.first for shard in shards]), index, right=True) - 1
    return [(shards[number], (homes == number).nonzero().squeeze(1)) for number in homes.unique().tolist()]
