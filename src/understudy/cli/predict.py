"""``understudy predict``: a trained student on the rows of a file."""

from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from understudy.compare import percent
from understudy.data.read import find_features, read_features, read_ids
from understudy.data.tables import check_new_table, read_table, write_table
from understudy.errors import UnderstudyError
from understudy.evaluate import predict
from understudy.run import Run


def predict_command(
    run: Annotated[Path, typer.Argument(help="The folder of a finished training.", show_default=False)],
    file: Annotated[Path, typer.Argument(help="A .parquet or .npz file.", show_default=False)],
    out: Annotated[Path, typer.Option(help="New .parquet or .npz file.")] = Path("predictions.parquet"),
    selected: Annotated[bool, typer.Option("--selected", help="The student of the epoch chosen on gold.")] = False,
    batch_size: Annotated[int, typer.Option(min=1, help="Rows at once.")] = 1024,
) -> None:
    """Apply a trained student to the rows of a file.

    FILE has the features under the same column names as in training. Written are `id` (or `row`), `label`, the most
    probable class, `confidence`, its probability, and `probabilities`, a list per row. An existing file is not
    overwritten. Where FILE has the true `label`, the accuracy is printed too.

    Example: `understudy predict runs/first new.parquet --out predictions.parquet`
    """
    check_new_table(out)
    loaded = Run.load(run)
    table = read_table(file)
    x = read_features(table, loaded.config.get("features") or find_features(table))
    student = loaded.selected() if selected else loaded.student
    probs = predict(student, _fitting(x, student, file), batch_size=batch_size)
    confidence, label = probs.max(-1)
    ids = read_ids(table)
    write_table(
        out,
        {
            **({"row": torch.arange(len(probs)).numpy()} if ids is None else {"id": ids}),
            "label": label.numpy(),
            "confidence": confidence.numpy(),
            "probabilities": probs.numpy(),
        },
    )
    truth = table.columns.get("label")
    if truth is not None and truth.dtype.kind in "iu" and (truth >= 0).any():
        known = truth >= 0
        right = float((label.numpy() == truth)[known].mean())
        typer.echo(f"accuracy {percent(right)}% against the file's label column ({int(known.sum())} rows)")
    typer.echo(f"{len(probs)} predictions: {out}")


def _fitting(x: Any, student: torch.nn.Module, file: Path) -> Any:
    """The rows, if the student can take them."""
    try:
        predict(student, x[:1])
    except (RuntimeError, ValueError) as error:
        reason = " ".join(str(error).split())[:120]
        raise UnderstudyError(
            f"{file}: the student cannot take rows of shape {x.shape[1:]} ({reason}); give the features of its training"
        ) from error
    return x
