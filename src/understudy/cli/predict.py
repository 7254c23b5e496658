"""``understudy predict``: a trained student on the rows of a file."""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer

from understudy.cli import options as shared
from understudy.comparison.interval import percent
from understudy.data.rows import Rows
from understudy.errors import UnderstudyError, first_line
from understudy.inference.passes import predict
from understudy.store.arrow import Array
from understudy.tables.classes import ClassNames
from understudy.tables.inputs import rows_for
from understudy.tables.table import Table, read_table
from understudy.tables.write import check_new_table, write_table
from understudy.training.run import Run


def predict_command(
    run: Annotated[Path, typer.Argument(help="The folder of a finished training.", show_default=False)],
    file: Annotated[Path, typer.Argument(help="A file of any kind that train reads.", show_default=False)],
    out: Annotated[Path, typer.Option(help="New .parquet, .csv, .jsonl or .npz file.")] = Path("predictions.parquet"),
    selected: Annotated[bool, typer.Option("--selected", help="The student of the epoch chosen on gold.")] = False,
    column: shared.Column = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Rows at once.")] = 1024,
) -> None:
    """Apply a trained student to the rows of a file.

    FILE has the raw columns of the training (texts, numbers, `x`, images) under the same names. Written are `id` (or
    `row`), `label`, the most probable class, `confidence`, its probability, and `probabilities`: a list in the order of
    the class numbers, or by name where the classes have names. In CSV, `probabilities` is one column per class. An
    existing file is not overwritten. Where FILE has the true `label`, the accuracy is printed too.

    Example: `understudy predict runs/first new.csv --out predictions.csv`
    """
    check_new_table(out)
    loaded = Run.load(run)
    table = read_rows(file, mapping_for(loaded, column), column)
    student = loaded.selected() if selected else loaded.student
    rows = fitting_rows(run, loaded, table, student)
    probs = predict(student, rows, batch_size=batch_size)
    confidence, label = probs.max(-1)
    names, ids = class_names(loaded), table.ids
    write_table(
        out,
        {
            **({"row": np.arange(len(probs))} if ids is None else {"id": ids}),
            "label": named(label.numpy(), names),
            "confidence": confidence.numpy(),
            "probabilities": probs.numpy() if names is None else _by_name(probs.numpy(), names),
        },
    )
    truth = _truth(table, names)
    if truth is not None and (truth >= 0).any():
        known = truth >= 0
        right = float((label.numpy() == truth)[known].mean())
        typer.echo(f"accuracy {percent(right)}% against the file's label column ({int(known.sum())} rows)")
    typer.echo(f"{len(probs)} predictions: {out}")


def mapping_for(run: Run, column: list[str] | None) -> dict[str, str]:
    """The names of the training's files, unless others are given."""
    return {**(run.config.get("columns") or {}), **shared.read_mapping(column)}


def read_rows(file: Path, mapping: dict[str, str], column: list[str] | None) -> Table:
    """A file under the run's names; a column that was named for this file must be there."""
    table = read_table(file, columns=mapping)
    for ours, theirs in shared.read_mapping(column).items():
        if table.theirs.get(ours, ours) != theirs or ours not in table:
            raise UnderstudyError(f"{file} has no column {theirs!r} (to serve as {ours!r}); check the name")
    return table


def class_names(run: Run) -> ClassNames | None:
    names = run.config.get("class_names")
    return None if names is None else ClassNames(tuple(names))


def named(labels: Array, names: ClassNames | None) -> Array:
    """Class numbers as the names they stand for."""
    return labels if names is None else np.array(names.names, dtype=object)[labels]


def fitting_rows(folder: Path, run: Run, table: Table, student: torch.nn.Module) -> Rows:
    """The rows, if the student can take them."""
    rows = rows_for(folder, run.config, table)
    first: Any = rows.take(torch.arange(1))
    try:
        predict(student, first)
    except (RuntimeError, ValueError) as error:
        raise UnderstudyError(
            f"{table.path}: the student cannot take rows of shape {tuple(first.shape[1:])} ({first_line(error)}); give "
            "the features of its training"
        ) from error
    return rows


def _by_name(probs: Array, names: ClassNames) -> Array:
    record = np.empty(len(probs), dtype=[(name, probs.dtype) for name in names.names])
    for place, name in enumerate(names.names):
        record[name] = probs[:, place]
    return record


def _truth(table: Table, names: ClassNames | None) -> Array | None:
    """The true classes where the file has them; what is no class of the run is left out."""
    if "label" not in table:
        return None
    try:
        column = table.columns["label"]
        if names is None:
            return column if column.ndim == 1 and column.dtype.kind in "iu" else None
        return names.numbers(column, table.where("label"), missing=True)
    except UnderstudyError:
        # Predictions do not need it: a file may hold anything under this name.
        return None
