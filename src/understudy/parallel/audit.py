"""``us.audit`` of a pool that lies in shards: of each row only the class that the teacher named and how sure it was.

    found = audit_shards(gold, list_shards("pool"), Labelling(classes=3), InProcess())

The same measures as of a pool in memory, from the same numbers: 16 bytes for each row of the pool, in the process that
asks. Features are not looked at, so no suspect rows are listed; votes are weighed as ``how`` says, not by gold.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch

from understudy.auditing.audit import Audit, audit_labels, check_audit_options
from understudy.auditing.teacher_labels import Floats, Ints, TeacherLabels, beside_truth
from understudy.data.examples import Gold
from understudy.errors import UnderstudyError
from understudy.io.labelling import Labelling
from understudy.io.table import Table
from understudy.labels.forms import Hard
from understudy.parallel.estimates import NO_COLUMNS, labels_of
from understudy.parallel.executors import Executor
from understudy.parallel.shards import OnTable, Shards, gathered


class Said(NamedTuple):
    """What a teacher said of the labelled rows of a shard."""

    named: Ints
    confidence: Floats | None
    title: str
    """What its labels are, with their confidences, and without: where all are one-hot."""
    bare: str
    ranks: bool
    bare_ranks: bool
    classes: int | None


@dataclass(frozen=True)
class Answered:
    how: Labelling

    def __call__(self, table: Table) -> Said:
        labels = labels_of(table, self.how)
        labels = labels.take(labels.labelled().nonzero().squeeze(1))
        bare = labels.simplest()
        confidence = labels.confidence("margin").numpy() if labels.has_confidence else None
        return Said(
            labels.top1().numpy(), confidence, labels.title, bare.title, labels.ranks,
            bare.ranks, labels.classes,
        )  # fmt: skip


def audit_shards(
    gold: Gold,
    shards: Shards,
    how: Labelling,
    executor: Executor,
    columns: Mapping[str, str] = NO_COLUMNS,
    *,
    class_names: Sequence[Any] | None = None,
    confusions: int = 8,
    target: float = 0.02,
    seed: int = 0,
) -> Audit:
    """``us.audit(gold, pool, rows_wrong=0)`` of the pool in these shards."""
    check_audit_options(0, confusions, target)
    rows, on_gold = gold.calibration()
    if on_gold is None or not len(rows):
        raise UnderstudyError("no gold row carries the teacher's word; pass us.Gold(x, y, teacher=…)")
    parts = [said for _, said in gathered(executor, OnTable(Answered(how), columns), shards)]
    named = np.concatenate([part.named for part in parts])
    if not len(named):
        raise UnderstudyError(f"{shards.path}: no row has a teacher's label (all are −1); label some")
    # One teacher: only where all of its labels are one-hot do they count as hard.
    plain = all(part.title != part.bare for part in parts)
    sure = [part.confidence for part in parts]
    confidence = None if plain or any(each is None for each in sure) else np.concatenate(sure)
    answers = TeacherLabels(Hard(torch.from_numpy(named)), named, confidence)
    first = parts[0]
    title, ranks = (first.bare, first.bare_ranks) if plain else (first.title, first.ranks)
    names = class_names or (None if how.names is None else how.names.names)
    data = beside_truth(gold, ranks, title, first.classes, answers, names, shards.rows - len(named))
    return audit_labels(data, gold, None, rows_wrong=0, confusions=confusions, target=target, seed=seed)
