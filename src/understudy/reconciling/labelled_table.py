"""The pool's file with reconciled labels.

write_table(out, with_reconciled_labels(read_table(pool), gold, reconciled, class_names))
"""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from understudy.data.examples import Gold
from understudy.io.label_columns import SAW
from understudy.io.table import Stored, Table
from understudy.labels.forms import Soft, named_columns
from understudy.reconciling.label_sources import ReconciledPool
from understudy.store.arrow import Array


def with_reconciled_labels(
    table: Table, gold: Gold, pool: ReconciledPool, names: Sequence[str] | None
) -> dict[str, Stored]:
    """The pool file's own columns, and the reconciled labels of its rows."""
    pool_row, gold_row = _matched_rows(table, gold, pool)
    in_pool, in_gold = pool_row >= 0, gold_row >= 0
    rows, gold_rows, classes = pool_row[in_pool], gold_row[in_gold], pool.on_gold.shape[1]
    assert pool.teacher is not None
    probs = torch.empty(len(table), classes)
    probs[in_pool] = pool.teacher.dense(rows, classes)
    # Rows chosen by active learning have no out-of-fold prediction: they keep their own label.
    own = torch.nn.functional.one_hot(gold.y[gold_rows], classes).float()
    probs[in_gold] = torch.where(gold.chosen[gold_rows].unsqueeze(1), own, pool.on_gold[gold_rows])
    labels, best = Soft(probs, trusted=True), probs.argmax(1)
    columns = {name: table.stored(name) for name in table.names if name == SAW or not name.startswith("teacher_")}
    columns |= labels.to_columns() if names is None else named_columns(labels, names)
    columns["reconciled_label"] = _class_names(best, names)
    columns["reconciled_probability"] = probs.amax(1).numpy()
    for source in pool.sources:
        # Empty on gold rows, which the sources predicted in folds.
        label, probability = torch.full((len(table),), -1), torch.zeros(len(table))
        label[in_pool] = source.probs.argmax(1)[rows]
        probability[in_pool] = source.probs[rows, best[in_pool]]
        name = "source_" + re.sub(r"\W+", "_", source.name)
        columns |= {f"{name}_label": _class_names(label, names), f"{name}_probability": probability.numpy()}
    return columns


def _class_names(labels: Tensor, names: Sequence[str] | None) -> Array:
    """By name where classes have names; −1 is an empty name."""
    return labels.numpy() if names is None else np.array([*names, ""], dtype=object)[labels.numpy()]


def _matched_rows(table: Table, gold: Gold, pool: ReconciledPool) -> tuple[Tensor, Tensor]:
    """For every row of the file, its number in the pool and in gold; −1: not there."""
    if table.ids is None:
        return torch.arange(len(table)), torch.full((len(table),), -1)
    # As text: 7 in one file is "7" in another.
    ids = list(map(str, table.ids.tolist()))

    def matched(names: Any) -> Tensor:
        row_of = {} if names is None else {str(name): row for row, name in enumerate(names.tolist())}
        return torch.tensor([row_of.get(name, -1) for name in ids])

    pool_row = matched(pool.ids)
    return pool_row, torch.where(pool_row >= 0, -1, matched(gold.ids))
