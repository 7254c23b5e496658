"""A finished run at work on a file: what ``predict``, ``select`` and ``export --rows`` have in common.

given = RunOnFile(folder, file, ["label=truth"])
probs = predict(given.run.student, given.rows(given.run.student))
"""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from understudy.cli.shared import read_mapping
from understudy.data.rows import Rows
from understudy.errors import UnderstudyError, first_line
from understudy.inference.passes import predict
from understudy.store.arrow import Array
from understudy.tables.labelling import ClassNames
from understudy.tables.read import rows_for
from understudy.tables.table import read_table
from understudy.training.run import Run


class RunOnFile:
    """A finished run and the rows of a file, under the names of its training unless ``column`` gives others."""

    def __init__(self, folder: Path, file: Path, column: Sequence[str] | None = None) -> None:
        self.folder, self.run, typed = folder, Run.load(folder, must_be_sealed=True), read_mapping(column)
        self.columns = {**(self.run.config.get("columns") or {}), **typed}
        self.table = read_table(file, columns=self.columns)
        for ours, theirs in typed.items():
            if self.table.theirs.get(ours, ours) != theirs or ours not in self.table.names:
                raise UnderstudyError(f"{file} has no column {theirs!r} (to serve as {ours!r}); check the name")
        self.class_names = self.run.config.get("class_names")

    @cached_property
    def names(self) -> ClassNames | None:
        """The classes by name, where they have names, to read labels with."""
        return None if self.class_names is None else ClassNames(tuple(self.class_names))

    def rows(self, student: nn.Module) -> Rows:
        """The rows, if the student can take them."""
        rows = rows_for(self.folder, self.run.config, self.table)
        first: Any = rows.take(torch.arange(1))
        try:
            predict(student, first)
        except (RuntimeError, ValueError) as error:
            shape = f"rows of shape {tuple(first.shape[1:])}" if isinstance(first, Tensor) else "these rows"
            raise UnderstudyError(
                f"{self.table.path}: the student cannot take {shape} ({first_line(error)}); give the features of its "
                "training"
            ) from error
        return rows

    def named(self, labels: Array) -> Array:
        """Class numbers as the names they stand for."""
        return labels if self.class_names is None else np.array(self.class_names, dtype=object)[labels]
