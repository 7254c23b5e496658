"""``understudy select`` where the pool is a folder of shards: the labelled rows are found in one pass, scores are made
in another, and the batch is picked from those."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from understudy.acquisition.select import strategy_named
from understudy.cli.labelled import labelled_rows, no_own_labels
from understudy.cli.run_on_file import RunOnFile
from understudy.inference.passes import BATCH_SIZE
from understudy.io.labelling import label_column
from understudy.io.table import Table
from understudy.labels.class_names import ClassNames
from understudy.parallel.executors import Executor
from understudy.parallel.pool_shards import OnTable, PoolShards, results_in_order
from understudy.parallel.shard_scores import ScoreTable
from understudy.parallel.shard_selection import SelectedBatch, rows_of_ids, select_batch
from understudy.store.arrow import Array
from understudy.training.ema import EMA


@dataclass(frozen=True)
class OwnLabels:
    """A shard's own labels as class numbers, −1 where there are none."""

    classes: ClassNames

    def __call__(self, table: Table) -> Array:
        labels = label_column(table, self.classes)
        if labels is None:
            raise no_own_labels(table.path)
        return labels


def batch_from_shards(
    given: RunOnFile,
    shards: PoolShards,
    strategy: str,
    n: int,
    ema: EMA | None,
    labelled: list[Path],
    seed: int,
    *,
    scratch: Path,
    executor: Executor,
    progress: bool,
) -> SelectedBatch:
    student = given.run.student
    given.rows(student)  # whether it can take them
    rows, labels = labelled_rows(
        labelled, given, shards.path,
        lambda named: rows_of_ids(named, shards, given.columns, executor),
        lambda: np.concatenate(
            [found for _, found in results_in_order(executor, OnTable(OwnLabels(given.classes), given.columns), shards)]
        ),
    )  # fmt: skip
    needed = {"probs", *strategy_named(strategy).needs} | ({"hidden"} if bool((labels >= 0).any()) else set())
    names = tuple(name for name in ("probs", "hidden", "probs_ema", "hidden_ema") if name in needed)
    return select_batch(
        ScoreTable(given.on_tables(student, BATCH_SIZE), ema, names), strategy, n, shards, scratch, labelled=rows,
        labels=labels, names=given.class_names, columns=given.columns, seed=seed, executor=executor, progress=progress,
    )  # fmt: skip
