"""A trained student applied to tables: the functions that are sent, once, to the workers on shards.

    student = StudentOnTables(run.student, featuriser)
    student.probabilities(table)                           # (n, C)

Predictions, a teacher's labels, features and the scores of a selection are each one function of a table, the same for a
file and for a shard:

    Predict(student, names)(table)                         # label, confidence, probabilities
    Teach(student, names)(table)                           # the table's own columns, and teacher_probs
    Encode(featuriser)(table)                              # x
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import torch
from torch import Tensor, nn

from understudy.data.rows import Rows
from understudy.errors import UnderstudyError
from understudy.features.featuriser import Featuriser
from understudy.inference.passes import BATCH_SIZE, predict
from understudy.io.gold_pool import features_of
from understudy.io.label_columns import label_column
from understudy.io.table import Table
from understudy.labels.class_names import ClassNames
from understudy.labels.forms import Labels, Soft, TopK, named_columns
from understudy.parallel.map_shards import Columns, ShardResult
from understudy.store.arrow import Array


@dataclass(frozen=True)
class StudentOnTables:
    student: nn.Module
    featuriser: Featuriser
    batch_size: int = BATCH_SIZE

    def rows(self, table: Table) -> Rows:
        return features_of(table, self.featuriser)

    def probabilities(self, table: Table) -> Tensor:
        return predict(self.student, self.rows(table), batch_size=self.batch_size)


class NoTruth(UnderstudyError):
    """A column ``label`` that holds something else."""


def _truth(table: Table, names: ClassNames, classes: int) -> Array | None:
    """The true classes where the file has them, −1 where a row has none; ``NoTruth`` where they cannot be read."""
    kind = table.columns["label"].dtype.kind if "label" in table.names else ""
    if kind == "b" and classes > 2:
        raise UnderstudyError(
            f"{table.where('label')} holds true or false, but there are {classes} classes; leave it out"
        )
    if kind in ("b", "i", "u", "f") and names:
        # Numbers beside names: to compare them with positions in the order would be a guess.
        return label_column(table, names)
    try:
        return label_column(table, names)
    except UnderstudyError as error:
        raise NoTruth(error) from error


@dataclass(frozen=True)
class Predict:
    """``label``, ``confidence`` and ``probabilities`` of every row; and how many are correct where the table has
    labels."""

    student: StudentOnTables
    classes: ClassNames

    def __call__(self, table: Table) -> ShardResult:
        probs = self.student.probabilities(table)
        confidence, label = probs.max(-1)
        columns = {
            "label": self.classes.named(label.numpy()),
            "confidence": confidence.numpy(),
            "probabilities": self.classes.by_name(probs.numpy()),
        }
        try:
            truth = _truth(table, self.classes, probs.shape[1])
        except NoTruth as error:
            # Predictions do not need it: a file may hold anything under this name.
            return ShardResult(columns, {"problem": str(error)})
        if truth is None:
            return ShardResult(columns, {})
        known = truth >= 0
        return ShardResult(columns, {"known": int(known.sum()), "right": int((label.numpy() == truth)[known].sum())})


@dataclass(frozen=True)
class Teach:
    """A pool's own columns as they are stored, and the teacher's labels.

    ``top``: only the so many most likely classes, as ``teacher_topk_index`` and ``teacher_topk_prob``.
    ``labels_only``: without the other columns.
    """

    student: StudentOnTables
    classes: ClassNames
    top: int | None = None
    labels_only: bool = False

    def __call__(self, table: Table) -> Columns:
        # New labels replace those of an earlier teacher.
        own = [] if self.labels_only else [name for name in table.names if name not in table.teacher]
        kept = _stored(table, own)
        _ = table.ids  # checked, for later readers
        probs = self.student.probabilities(table)
        labels: Labels = Soft(probs, where="the teacher's labels")
        if self.top is not None:
            best = probs.topk(min(self.top, probs.shape[1]), dim=1)
            labels = TopK(best.indices, best.values, classes=probs.shape[1])
        return kept | (named_columns(labels, self.classes.names) if self.classes else labels.to_columns())


@dataclass(frozen=True)
class Encode:
    """The features of every row, as the student takes them, in one column ``x``: text or images once, not every epoch.

    Columns that are no features stay (labels, a teacher's labels)."""

    featuriser: Featuriser

    def __call__(self, table: Table) -> Columns:
        rows = features_of(table, self.featuriser)
        x = rows.take(torch.arange(len(rows)))
        if not isinstance(x, Tensor):
            raise UnderstudyError(f"{table.path}: rows of this kind are no list of numbers each; nothing to encode")
        kept: Sequence[str] = [name for name in table.names if name not in self.featuriser.names and name != "x"]
        return _stored(table, kept) | {"x": x.numpy()}


def _stored(table: Table, names: Sequence[str]) -> dict[str, Any]:
    """Columns as the file has them, under their names there; text as text, however it was packed."""
    columns = {table.theirs.get(name, name): table.stored(name) for name in names}
    return {name: _unpacked(column) for name, column in columns.items()}


def _unpacked(column: Any) -> Any:
    packed = isinstance(column, pa.ChunkedArray) and pa.types.is_dictionary(column.type)
    return column.cast(column.type.value_type) if packed else column
