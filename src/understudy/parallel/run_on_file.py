"""A finished run applied to a file or a folder of shards, for ``predict``, ``teach``, ``encode``, ``select`` and
``export``.

given = RunOnFile(folder, file, ["label=truth"])
probs = predict(given.run.student, given.rows(given.run.student))
given.write(Predict(given.on_tables(given.run.student), given.classes), "predictions.csv")
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from understudy.data.rows import Rows, SubsetRows
from understudy.errors import UnderstudyError, first_line
from understudy.features.featuriser import Featuriser
from understudy.inference.passes import BATCH_SIZE, predict
from understudy.io.data_options import read_mapping
from understudy.io.gold_pool import features_of, load_featuriser
from understudy.io.label_columns import label_column
from understudy.io.table import Table, read_table
from understudy.io.write import write_table
from understudy.labels.class_names import ClassNames
from understudy.parallel.executors import Executor
from understudy.parallel.map_shards import ShardFunction, run_pass, split_result
from understudy.parallel.pool_shards import PoolShard, PoolShards, Result, results_in_order
from understudy.parallel.table_functions import StudentOnTables
from understudy.store.arrow import Array
from understudy.training.run import Run


class RunOnFile:
    """A finished run and a file (or the first of the shards), under the names of its training unless ``column`` gives
    others."""

    def __init__(
        self, folder: Path, file: Path, column: Sequence[str] | None = None, *, shards: PoolShards | None = None
    ) -> None:
        self.run, typed, self.shards = Run.load(folder), read_mapping(column), shards
        file = file if shards is None else Path(str(shards[0].path))
        assert self.run.path is not None
        self.folder = self.run.path
        self.columns = {**(self.run.config.get("columns") or {}), **typed}
        self.table = read_table(file, columns=self.columns)
        for ours, theirs in typed.items():
            if self.table.theirs.get(ours, ours) != theirs or ours not in self.table.names:
                raise UnderstudyError(f"{file} has no column {theirs!r} (to serve as {ours!r}); check the name")
        self.table.warn_of_lookalikes(self.run.config.get("features") or ())
        self.class_names = self.run.config.get("class_names")
        if self.class_names is not None and not _are_names(self.class_names):
            raise UnderstudyError(f"{folder / 'config.json'}: class_names is no list of names; restore it")

    @property
    def pool(self) -> Path:
        """The file, or the folder of the shards."""
        return self.table.path if self.shards is None else self.shards.path

    @cached_property
    def classes(self) -> ClassNames:
        """The names of the run's classes, to read and write labels with."""
        return ClassNames(tuple(self.class_names or ()), ordered=bool(self.run.config.get("class_places")))

    def labels(self, column: str = "label") -> Array | None:
        """The file's labels as class numbers of the run, −1 where there are none; None where it has no such column."""
        return label_column(self.table, self.classes, column)

    @cached_property
    def featuriser(self) -> Featuriser:
        return load_featuriser(self.folder, self.run.config, self.table)

    def on_tables(self, *, selected: bool = False, batch_size: int = BATCH_SIZE) -> StudentOnTables:
        """The student (``selected``: of the epoch chosen on gold), for this file and others of the same columns."""
        student = self.run.selected() if selected else self.run.student
        self.rows(student)  # raises where it cannot take them
        return StudentOnTables(student, self.featuriser, batch_size)

    def write(
        self, function: ShardFunction, out: Path, *, named: bool = True, title: str = "", progress: bool = False,
        executor: Executor | None = None,
    ) -> list[dict[str, Any]]:  # fmt: skip
        """Write what the function makes of the file, or of every shard; its summaries. ``named``: with the rows'
        ids."""
        if self.shards is not None:
            assert executor is not None
            return run_pass(
                function, self.shards, out, executor=executor, columns=self.columns, title=title, progress=progress,
                named=named,
            )  # fmt: skip
        columns, summary = split_result(function(self.table))
        rows, ids = len(self.table), self.table.ids
        if named:
            columns = {**({"row": np.arange(rows)} if ids is None else {"id": ids}), **columns}
        write_table(out, dict(columns))
        return [{"rows": rows, **summary}]

    def map_tables(
        self, function: Callable[[Table], Result], executor: Executor | None
    ) -> Iterator[tuple[int, Result]]:
        """The function of the file, or of every shard, and the number of its first row; in the order of the shards."""
        if self.shards is None:
            yield 0, function(self.table)
            return
        assert executor is not None
        for shard, result in results_in_order(executor, partial(_on_shard, function, self.columns), self.shards):
            yield shard.first, result

    def rows(self, student: nn.Module) -> Rows:
        """The rows as the student's input; an error where it cannot take them."""
        rows = features_of(self.table, self.featuriser)
        try:
            outputs = predict(student, SubsetRows(rows, torch.arange(1))).shape[1]
        except (RuntimeError, ValueError) as error:
            first: Any = rows.take(torch.arange(1))
            shape = f"rows of shape {tuple(first.shape[1:])}" if isinstance(first, Tensor) else "these rows"
            raise UnderstudyError(
                f"{self.table.path}: the student cannot take {shape} ({first_line(error)}); give the features of its "
                "training"
            ) from error
        if self.class_names is not None and len(self.class_names) != outputs:
            raise UnderstudyError(
                f"{self.folder / 'config.json'} names {len(self.class_names)} classes, the student has {outputs}; "
                "restore it"
            )
        return rows

    def named(self, labels: Array) -> Array:
        """Class numbers as the names they stand for."""
        return self.classes.named(labels)


def _on_shard(function: Callable[[Table], Result], columns: Mapping[str, str], shard: PoolShard) -> Result:
    return function(shard.read(columns))


def _are_names(names: Any) -> bool:
    return isinstance(names, list) and all(isinstance(name, str) for name in names)
