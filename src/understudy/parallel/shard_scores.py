"""What a selection looks at, of every row of a sharded pool: one .npy file of records for each shard, mapped.

    scored = score_shards(student, ema, shards, folder, names=("probs", "hidden"), …)
    scored.take(torch.tensor([5, 70_000]))           # {"probs": (2, C), "hidden": (2, d)}, read where they lie
    read_scores(scored.shards[3])                    # one shard's

Parquet cannot give single rows without unpacking their neighbours; these files can.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from understudy.active.loop import score
from understudy.io.gold_pool import own_labels
from understudy.io.table import Table
from understudy.parallel.executors import Executor
from understudy.parallel.map_shards import PassFolder, ShardResult, run_pass
from understudy.parallel.pool_shards import PoolShard, PoolShards
from understudy.parallel.table_functions import StudentOnTables
from understudy.training.averages import EMA


@dataclass(frozen=True)
class ScoreTable:
    """Probabilities and penultimate features of a shard's rows, and those of the moving average."""

    student: StudentOnTables
    ema: EMA | None
    #: Which of them are kept.
    names: tuple[str, ...]

    def __call__(self, table: Table) -> ShardResult:
        found = score(self.student.student, self.student.rows(table), ema=self.ema).arrays()
        same = "hidden_ema" in found and torch.equal(found["hidden"], found["hidden_ema"])
        labelled = len(own_labels(table)[1]) if "label" in table.names else 0
        kept = {name: found[name].float().numpy() for name in self.names}
        return ShardResult(kept, {"same": same, "labelled": labelled})


@dataclass(frozen=True)
class ShardScores:
    #: With the files of the scores as their paths.
    shards: tuple[PoolShard, ...]
    summaries: Sequence[Mapping[str, Any]]

    @property
    def rows(self) -> int:
        return self.shards[-1].first + self.shards[-1].rows

    def homes(self, index: Tensor) -> Tensor:
        """In which shard each of these rows is."""
        firsts = torch.tensor([shard.first for shard in self.shards])
        return torch.searchsorted(firsts, index, right=True) - 1

    def take(self, index: Tensor) -> dict[str, Tensor]:
        """Some rows, in the given order."""
        homes = self.homes(index)
        records: Any = None
        for number in homes.unique().tolist():
            here, shard = (homes == number).nonzero().squeeze(1), self.shards[number]
            stored = np.load(str(shard.path), mmap_mode="r", allow_pickle=False)
            some = np.array(stored[(index[here] - shard.first).numpy()])
            records = np.empty(len(index), dtype=some.dtype) if records is None else records
            records[here.numpy()] = some
        return tensors(records)


def read_scores(shard: PoolShard) -> dict[str, Tensor]:
    return tensors(np.load(str(shard.path), allow_pickle=False))


def tensors(records: Any) -> dict[str, Tensor]:
    """A field of records as a tensor of its own."""
    return {name: torch.from_numpy(np.ascontiguousarray(records[name])) for name in records.dtype.names}


def score_shards(
    function: ScoreTable,
    shards: PoolShards,
    folder: Path,
    *,
    executor: Executor,
    columns: Mapping[str, str],
    progress: bool,
) -> ShardScores:
    """A pass over the shards into ``folder``, or what is left of it."""
    summaries = run_pass(
        function, shards, folder, executor=executor, columns=columns, title="score", progress=progress, suffix=".npy",
        named=False,
    )  # fmt: skip
    files = PassFolder(folder, shards, ".npy").files()
    there = (
        PoolShard(shard.number, file.resolve(), shard.first, shard.rows)
        for shard, file in zip(shards, files, strict=True)
    )
    return ShardScores(tuple(there), summaries)
