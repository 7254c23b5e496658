"""``understudy export``: a trained student as one file for use elsewhere."""

from pathlib import Path
from typing import Annotated

import typer

from understudy.cli import shared
from understudy.cli.shared import flag
from understudy.errors import shown


def export_command(
    run: shared.RunFolder,
    out: Annotated[Path, flag("New file: .safetensors, .pt (TorchScript), .pt2 or .onnx.")],
    selected: shared.Selected = False,
    rows: Annotated[Path | None, flag("A file whose first rows serve the check.")] = None,
) -> None:
    """Write a trained student as one file that runs without this package.

    The model in the file takes rows of features, any number at once, and gives class probabilities. Before the file
    appears it is loaded again, and its predictions are compared with the student's: on made-up rows, or with `--rows`
    on real ones. The names of classes and features are stored inside. An existing file is not overwritten.

    `.onnx` needs `pip install "understudy[onnx]"`.

    Example: `understudy export runs/first --out student.onnx`
    """
    import torch

    with shared.loading():
        from understudy.inference.export import ROWS, export
        from understudy.parallel.run_on_file import RunOnFile
        from understudy.training.run import Run

    given = None if rows is None else RunOnFile(run, rows)
    loaded = Run.load(run) if given is None else given.run
    if selected:
        loaded.student = loaded.selected()
    example = None if given is None else given.rows(loaded.student).take(torch.arange(min(ROWS, len(given.table))))
    export(loaded, out, example=example)
    typer.echo(shown(f"student: {out}"))
