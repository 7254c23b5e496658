"""What a selection looks at, of every row of a sharded pool: one .npy file of records for each shard, mapped.

    scored = score_shards(ScoreTable(student, ema, ("probs", "hidden")), shards, folder, …)
    scored.take(torch.tensor([5, 70_000]))           # {"probs": (2, C), "hidden": (2, d)}, read where they lie
    pick_rows("badge", 100, scored, available, seed=0)

Parquet cannot give single rows without unpacking their neighbours; these files can. Strategies pick from them as from
arrays in memory (``acquisition/strategy.py``), from the same random numbers: ranked strategies pick the same rows, the
others the same but for what rounding decides. Memory is for one shard, and 1 byte for each row; bounds on distances are
in a file, 4 bytes for each row. A pass over the vectors sends each shard its bounds, and gets new ones back.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from understudy.acquisition.select import checked_arrays
from understudy.acquisition.strategy import Arrays
from understudy.active.loop import score
from understudy.data.rows import Rows
from understudy.inference.passes import room_for
from understudy.io.table import Table
from understudy.maths.spread import Factored
from understudy.parallel.executors import Executor
from understudy.parallel.map_shards import PassFolder, ShardResult, run_pass
from understudy.parallel.pool_shards import PoolShard, PoolShards, results_in_order, shards_with
from understudy.parallel.run_on_file import StudentOnTables
from understudy.training.averages import EMA

Vectors = Callable[[Arrays], Factored]


@dataclass(frozen=True)
class ScoreTable:
    """Probabilities and penultimate features of a table's rows, and those of the moving average."""

    student: StudentOnTables
    ema: EMA | None
    #: Which of them are kept.
    names: tuple[str, ...]

    def __call__(self, table: Table, rows: Rows | None = None) -> ShardResult:
        """``rows``: the student's input, where it is there already."""
        rows = self.student.rows(table) if rows is None else rows
        found = checked_arrays(score(self.student.student, rows, ema=self.ema).arrays())
        same = "hidden_ema" in found and torch.equal(found["hidden"], found["hidden_ema"])
        return ShardResult({name: found[name].numpy() for name in self.names}, {"same": same})


@dataclass(frozen=True)
class ShardScores:
    #: With the files of the scores as their paths.
    shards: tuple[PoolShard, ...]
    summaries: Sequence[Mapping[str, Any]]
    executor: Executor

    @property
    def parts(self) -> list[slice]:
        return [shard.part for shard in self.shards]

    @property
    def same_features(self) -> bool:
        return all(each["same"] for each in self.summaries)

    def take(self, index: Tensor) -> dict[str, Tensor]:
        records: Any = None
        for shard, places in shards_with(self.shards, index):
            stored = np.load(str(shard.path), mmap_mode="r", allow_pickle=False)
            some = np.array(stored[(index[places] - shard.first).numpy()])
            records = np.empty(len(index), dtype=some.dtype) if records is None else records
            records[places.numpy()] = some
        return tensors(records)

    def map(self, function: Callable[[Arrays], Tensor]) -> Iterator[tuple[slice, Tensor]]:
        for shard, values in results_in_order(self.executor, partial(_of_scores, function), self.shards):
            yield shard.part, values

    def vectors(self, function: Vectors) -> "ShardVectors":
        return ShardVectors(self, function)


class ShardVectors(NamedTuple):
    scored: ShardScores
    function: Vectors

    @property
    def parts(self) -> list[slice]:
        return self.scored.parts

    def take(self, index: Tensor) -> Factored:
        return self.function(self.scored.take(index))

    def map(self, function: Callable[[Factored, Tensor], Tensor], values: Tensor) -> Iterator[tuple[slice, Tensor]]:
        cells = ((shard, values[shard.part].clone()) for shard in self.scored.shards)
        with closing(self.scored.executor.map(partial(_of_vectors, self.function, function), cells)) as results:
            for number, found in results:
                yield self.parts[number], found

    def zeros(self) -> Tensor:
        return room_for((self.parts[-1].stop,), torch.float32).zero_()


def read_scores(shard: PoolShard) -> dict[str, Tensor]:
    return tensors(np.load(str(shard.path), allow_pickle=False))


def _of_scores(function: Callable[[Arrays], Tensor], shard: PoolShard) -> Tensor:
    return function(read_scores(shard))


def _of_vectors(
    vectors: Vectors, function: Callable[[Factored, Tensor], Tensor], cell: tuple[PoolShard, Tensor]
) -> Tensor:
    return function(vectors(read_scores(cell[0])), cell[1])


def tensors(records: Any) -> dict[str, Tensor]:
    """A field of records as a tensor of its own."""
    return {name: torch.from_numpy(np.ascontiguousarray(records[name])) for name in records.dtype.names}


def score_shards(
    table: ScoreTable, shards: PoolShards, folder: Path, executor: Executor, columns: Mapping[str, str], progress: bool
) -> ShardScores:
    """A pass over the shards into ``folder``, or what is left of it."""
    summaries = run_pass(
        table, shards, folder, executor=executor, columns=columns, title="score", progress=progress, suffix=".npy",
        named=False,
    )  # fmt: skip
    files = PassFolder(folder, shards, ".npy").files()
    there = (replace(shard, path=file.resolve()) for shard, file in zip(shards, files, strict=True))
    return ShardScores(tuple(there), summaries, executor)
