"""Reconciled labels for people: the pool's file with them, and who was believed how far.

print_witnesses(made.facts())
write_table(out, with_new_labels(read_table(pool), gold, made, class_names))
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.markup import escape
from rich.table import Table as Grid
from torch import Tensor

from understudy.data.examples import Gold
from understudy.io.labelling import SAW
from understudy.io.table import Stored, Table
from understudy.labels.forms import Soft, named_columns
from understudy.reconciling.reconcile import ReconciledPool
from understudy.reconciling.words import HEADINGS, together, witness_table
from understudy.store.arrow import Array


def print_witnesses(facts: Mapping[str, float]) -> None:
    """Who was believed how far, as a table; nothing where a run had no witnesses."""
    found = witness_table(facts)
    if not found:
        return
    grid = Grid(padding=(0, 1), box=None, header_style="dim")
    for number, heading in enumerate(HEADINGS):
        grid.add_column(heading, justify="left" if number < 2 else "right", no_wrap=number != 1)
    for row in found:
        grid.add_row(*map(escape, row))
    out = Console(width=max(110, Console().width))
    out.print("\n[bold]What the labels were made of[/] (weight 0: not believed)")
    out.print(grid)
    out.print(together(facts))


def with_new_labels(table: Table, gold: Gold, made: ReconciledPool, names: Sequence[str] | None) -> dict[str, Stored]:
    """The pool file's own columns, and the new labels of its rows."""
    at, of_gold = _places(table, gold, made)
    mine, theirs = at >= 0, of_gold >= 0
    rows, known, classes = at[mine], of_gold[theirs], made.on_gold.shape[1]
    assert made.teacher is not None
    probs = torch.empty(len(table), classes)
    probs[mine] = made.teacher.dense(rows, classes)
    # Rows chosen by active learning judged nobody, so nobody judged them: they keep their own label.
    own = torch.nn.functional.one_hot(gold.y[known], classes).float()
    probs[theirs] = torch.where(gold.chosen[known].unsqueeze(1), own, made.on_gold[known])
    labels, best = Soft(probs, trusted=True), probs.argmax(1)
    columns = {name: table.stored(name) for name in table.names if name == SAW or not name.startswith("teacher_")}
    columns |= labels.to_columns() if names is None else named_columns(labels, names)
    columns["reconciled_label"] = _called(best, names)
    columns["reconciled_chance"] = probs.amax(1).numpy()
    for witness in made.witnesses:
        # Of gold rows nothing is told: there a witness's words are those of its folds.
        said, chance = torch.full((len(table),), -1), torch.zeros(len(table))
        said[mine] = witness.probs.argmax(1)[rows]
        chance[mine] = witness.probs[rows, best[mine]]
        name = re.sub(r"\W+", "_", witness.name.replace("'", ""))
        columns |= {f"witness_{name}_label": _called(said, names), f"witness_{name}_chance": chance.numpy()}
    return columns


def _called(labels: Tensor, names: Sequence[str] | None) -> Array:
    """By name where classes have names; −1 is no name."""
    return labels.numpy() if names is None else np.array([*names, ""], dtype=object)[labels.numpy()]


def _places(table: Table, gold: Gold, made: ReconciledPool) -> tuple[Tensor, Tensor]:
    """For every row of the file, which pool row and which gold row it is; −1: none."""
    if table.ids is None:
        return torch.arange(len(table)), torch.full((len(table),), -1)
    # By the letter: 7 in one file is "7" where another has text.
    ids = list(map(str, table.ids.tolist()))

    def places(names: Any) -> Tensor:
        row_of = {} if names is None else {str(name): row for row, name in enumerate(names.tolist())}
        return torch.tensor([row_of.get(name, -1) for name in ids])

    at = places(made.ids)
    return at, torch.where(at >= 0, -1, places(gold.ids))
