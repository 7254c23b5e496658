"""``understudy reconcile``: the labels of a pool, made of everybody's word."""

import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table as Grid
from torch import Tensor

from understudy import models
from understudy.cli import shared
from understudy.cli.shared import DataOptions, takes_options
from understudy.comparison.reconcile import reconcile
from understudy.data.examples import Gold
from understudy.errors import UnderstudyError
from understudy.inference.passes import usable_device
from understudy.labels.forms import Soft, named_columns
from understudy.reconciling.reconcile import ReconciledPool
from understudy.reconciling.words import HEADINGS, together, witness_table
from understudy.store.arrow import Array
from understudy.store.console import collected_warnings
from understudy.store.files import check_new_file
from understudy.tables.table import Table, read_table
from understudy.tables.write import write_table
from understudy.training.recipe import AUTO


@takes_options("ema", "checkpoint_every", "patience", "finetune", "finetune_lr")
def reconcile_command(
    gold: Annotated[list[str], shared.GOLD],
    pool: Annotated[Path, typer.Option(help="Imperfect labels.", show_default=False)],
    data: DataOptions,
    out: Annotated[Path, typer.Option(help="New .parquet, .jsonl or .npz file.")] = Path("labels.parquet"),
    folds: Annotated[int, typer.Option(min=2, help="Parts of gold; each witness is trained once without each.")] = 4,
    rows: Annotated[int, typer.Option(min=1, help="How many pool rows train witnesses; all get a label.")] = 20_000,
    methods: Annotated[
        str | None,
        typer.Option(help="Methods that train witnesses, e.g. gce,slam. Without: a short list.", show_default=False),
    ] = None,
    parts: Annotated[
        Path | None,
        typer.Option(help="Folder to keep finished trainings in; the same command goes on there.", show_default=False),
    ] = None,
    student: shared.Student = AUTO,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes of one thread each; one per core.", show_default=False)
    ] = None,
    quiet: shared.Quiet = False,
    **recipe: Any,
) -> None:
    """Make better labels for a pool: of the teacher's word, and of what students and similar rows say.

    Files are those of `understudy train`. Each of these *witnesses* is asked about gold rows it has not seen, which
    tells how far to believe it; a table says so. Every pool row then gets one label made of all of them, also rows the
    teacher did not label. At least 20 gold rows are needed, better 100.

    OUT is the pool file with new labels, ready for `understudy train --pool`: its own columns, `teacher_probs` (the new
    label's chances by class) in place of the old labels, and beside it `reconciled_label` and `reconciled_chance`, and
    for each witness `witness_NAME_label` and `witness_NAME_chance`, what it gives the reconciled label. Rows that are
    gold have a label made without their own truth. An existing file is not overwritten.

    Examples:

    `understudy reconcile --gold gold.csv --pool reviews.csv --text review --out labels.parquet`

    `understudy reconcile --gold gold.npz --pool pool.npz --student mlp:128,128 --epochs 30 --folds 5 --out labels.npz`
    """
    check_new_file(out, "labels are", (".parquet", ".jsonl", ".npz"))
    names = None if methods is None else [name.strip() for name in methods.split(",") if name.strip()]
    with collected_warnings():
        examples = data.read(gold, pool=pool)
        if examples.gold is None or examples.pool is None:
            raise UnderstudyError("labels are weighed on gold; name a gold file and a pool file")
        examples.leaks().warn()
        classes = data.outputs(examples)
        student, recipe = shared.suited(student, examples, recipe)
        build = partial(models.from_text, student, shape=examples.shape, classes=classes)  # can be sent to processes
        made = reconcile(
            build, examples.gold, examples.pool, methods=names, folds=folds, rows=rows, out=parts, workers=workers,
            progress=not quiet, **recipe | {"device": usable_device(recipe["device"])},
        )  # fmt: skip
    print_witnesses(made.facts())
    table = read_table(pool, columns=data.columns)
    write_table(out, _columns(table, examples.gold, made, examples.class_names))
    typer.echo(f"{len(made):,} pool rows with reconciled labels: {out}")


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


def _columns(table: Table, gold: Gold, made: ReconciledPool, names: Sequence[str] | None) -> dict[str, Array]:
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
    columns = {name: table.columns[name] for name in table.names if not name.startswith("teacher_")}
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
    ids = table.ids.tolist()

    def places(names: Any) -> Tensor:
        row_of = {} if names is None else {name: row for row, name in enumerate(names.tolist())}
        return torch.tensor([row_of.get(name, -1) for name in ids])

    at = places(made.ids)
    return at, torch.where(at >= 0, -1, places(gold.ids))
