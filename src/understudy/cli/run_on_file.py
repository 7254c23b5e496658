"""A finished run at work on a file: what ``predict``, ``select`` and ``export --rows`` have in common.

given = RunOnFile(folder, file, ["label=truth"])
probs = predict(given.run.student, given.rows(given.run.student))
"""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from understudy.data.rows import Rows
from understudy.errors import UnderstudyError, first_line
from understudy.features.featuriser import Featuriser
from understudy.inference.passes import predict
from understudy.io.data_options import read_mapping
from understudy.io.featurise import features_of, load_featuriser
from understudy.io.labelling import label_column
from understudy.io.table import read_table
from understudy.labels.class_names import ClassNames
from understudy.parallel.table_functions import StudentOnTables
from understudy.store.arrow import Array
from understudy.training.run import Run


class RunOnFile:
    """A finished run and the rows of a file, under the names of its training unless ``column`` gives others."""

    def __init__(self, folder: Path, file: Path, column: Sequence[str] | None = None) -> None:
        self.run, typed = Run.load(folder), read_mapping(column)
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

    def on_tables(self, student: nn.Module, batch_size: int) -> StudentOnTables:
        """The student, for this file and for others of the same columns."""
        return StudentOnTables(student, self.featuriser, batch_size)

    def rows(self, student: nn.Module) -> Rows:
        """The rows, if the student can take them."""
        rows = features_of(self.table, self.featuriser)
        first: Any = rows.take(torch.arange(1))
        try:
            outputs = predict(student, first).shape[1]
        except (RuntimeError, ValueError) as error:
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


def _are_names(names: Any) -> bool:
    return isinstance(names, list) and all(isinstance(name, str) for name in names)
