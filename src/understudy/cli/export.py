"""``understudy export``: a trained student as a folder that takes raw rows, or as one file, for use elsewhere."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from understudy.cli.shared import RunFolder, Selected, flag, loading, takes_options
from understudy.errors import shown


@takes_options()
def export_command(
    run: RunFolder,
    out: Annotated[Path, flag("New folder; or a file: .onnx, .safetensors, .pt (TorchScript), .pt2.")],
    selected: Selected = False,
    rows: Annotated[Path | None, flag("A file whose first rows serve the check.")] = None,
) -> None:
    """Write a trained student so that it runs without this package.

    `--out FOLDER`: takes rows as they are (texts, columns) and gives class names. Its `predict.py` needs numpy and
    onnxruntime alone, reads CSV or serves HTTP (`--serve 8000`); a README and a Dockerfile lie beside it.

    `--out FILE.onnx` (or .safetensors, .pt, .pt2): the student alone, which takes rows of features and gives class
    probabilities. The names of classes and features are stored inside.

    Before it appears it is loaded again, and its predictions are compared with the student's: on made-up rows, or with
    `--rows` on real ones. Nothing is overwritten. Folders and .onnx need `pip install "understudy-ml[onnx]"`.

    Example: `understudy export runs/first --out model`
    """
    with loading():
        import torch

        from understudy.inference.export import export
        from understudy.inference.export_formats import ROWS
        from understudy.parallel.run_on_file import RunOnFile
        from understudy.training.run import Run

    given = None if rows is None else RunOnFile(run, rows)
    loaded = Run.load(run) if given is None else given.run
    if selected:
        loaded = replace(loaded, student=loaded.selected(), evaluation=None)  # nor its temperature
    example: Any = None
    if given is not None and out.suffix:
        example = given.rows(loaded.student).take(torch.arange(min(ROWS, len(given.table))))
    elif given is not None:
        example = {name: given.table.columns[name][:ROWS].tolist() for name in given.featuriser.names}
    export(loaded, out, example=example)
    typer.echo(shown(f"{'student' if out.suffix else 'model'}: {out}"))
