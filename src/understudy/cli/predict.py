"""``understudy predict``: a trained student on the rows of a file."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from understudy.cli import shared
from understudy.errors import UnderstudyError
from understudy.store.console import complain
from understudy.store.files import check_new_file

if TYPE_CHECKING:
    from understudy.cli.run_on_file import RunOnFile
    from understudy.store.arrow import Array
    from understudy.tables.labelling import ClassNames


def predict_command(
    run: shared.RunFolder,
    file: Annotated[Path, typer.Argument(help="A file of any kind that train reads.", show_default=False)],
    out: Annotated[Path, typer.Option(help="New .parquet, .csv, .jsonl or .npz file.")] = Path("predictions.parquet"),
    selected: shared.Selected = False,
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
    with shared.loading():
        import numpy as np

        from understudy.cli.run_on_file import RunOnFile
        from understudy.comparison.interval import percent
        from understudy.inference.passes import predict
        from understudy.tables.write import WRITERS, write_table

    check_new_file(out, "tables are", tuple(WRITERS))
    given = RunOnFile(run, file, column)
    student = given.run.selected() if selected else given.run.student
    probs = predict(student, given.rows(student), batch_size=batch_size)
    truth = _truth(given, probs.shape[1])
    confidence, label = probs.max(-1)
    names, ids = given.names, given.table.ids
    write_table(
        out,
        {
            **({"row": np.arange(len(probs))} if ids is None else {"id": ids}),
            "label": given.named(label.numpy()),
            "confidence": confidence.numpy(),
            "probabilities": probs.numpy() if names is None else _by_name(probs.numpy(), names),
        },
    )
    if truth is not None and (truth >= 0).any():
        known = truth >= 0
        right = float((label.numpy() == truth)[known].mean())
        typer.echo(f"accuracy {percent(right)}% against the file's label column ({int(known.sum())} rows)")
    typer.echo(f"{len(probs)} predictions: {out}")


def _by_name(probs: "Array", names: "ClassNames") -> "Array":
    import numpy as np

    record = np.empty(len(probs), dtype=[(name, probs.dtype) for name in names.names])
    for number, name in enumerate(names.names):
        record[name] = probs[:, number]
    return record


def _truth(given: "RunOnFile", classes: int) -> "Array | None":
    """The true classes where the file has them, −1 where a row has none."""
    table, names = given.table, given.names
    kind = table.columns["label"].dtype.kind if "label" in table.names else ""
    if kind == "b" and classes > 2:
        raise UnderstudyError(
            f"{table.where('label')} holds true or false, but there are {classes} classes; leave it out"
        )
    if kind in ("b", "i", "u", "f") and names is not None:
        # Numbers beside names: to compare them with places in the order would be a guess.
        return given.labels()
    try:
        return given.labels()
    except UnderstudyError as error:
        # Predictions do not need it: a file may hold anything under this name.
        complain(f"warning: no accuracy: {error}")
        return None
