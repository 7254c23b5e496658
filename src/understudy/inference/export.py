"""A trained student for use elsewhere, checked against the student before the file or folder appears.

    export(run, "model")                                # a folder that takes raw rows (``export_folder.py``)
    export(run, "student.onnx")                         # or .pt (TorchScript), .pt2 (torch.export), .safetensors
    export(net, "student.pt2", example=x[:8])           # a net of your own: some rows to trace it with

The model in a file takes a batch of any size and gives class probabilities, as ``run.predict`` does; the names of the
classes travel with it. Docs: docs/export.md.
"""

import copy
import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from understudy import models
from understudy.errors import UnderstudyError
from understudy.inference import export_formats
from understudy.inference.export_folder import export_folder
from understudy.inference.export_formats import Format, Probabilities, reason
from understudy.store.files import appearing_whole, local_path
from understudy.store.option_fields import checked
from understudy.training.run import Run


@checked
def export(run_or_student: Run | nn.Module, path: str | Path, *, example: Any = None) -> Path:
    """Write the student to a new file, or a run to a new folder where the name has no suffix, and return its path.

    The name's ending says the format: .safetensors, .pt, .pt2 or .onnx. ``example``: a few rows to trace the student
    with (an array, a Dataset, or a mapping of tensors where it takes those); the nets of ``us.models`` need none. The
    file is loaded again and its predictions are compared with the student's at several batch sizes; where they differ,
    no file is left and an error says so.
    """
    path = local_path(path)
    if not path.suffix and isinstance(run_or_student, Run):
        return export_folder(run_or_student, path, rows=example)
    kind = export_formats.find_format(path)
    if path.exists():
        raise UnderstudyError(f"{path} already exists and is not overwritten; choose another name or remove it")
    run = run_or_student if isinstance(run_or_student, Run) else Run(run_or_student, [], {})
    student = copy.deepcopy(run.student).cpu().eval()
    names, inputs = export_formats.example_inputs(student, example, needed=kind.traced)
    model = Probabilities(student, names, run.temperature).eval()
    export_formats.try_student(model, inputs)
    metadata = _metadata(run, names)
    try:
        content = kind.write(model, inputs, metadata)
    except (UnderstudyError, OSError):
        raise
    except Exception as error:  # torch's exporters raise whatever the traced code or they themselves raise
        why = f"{type(student).__name__} cannot be exported to {path.name}: {reason(error)}"
        raise UnderstudyError(f"{why}; avoid branches on values and fixed batch sizes, or use .safetensors") from error
    with appearing_whole(path) as temporary:
        temporary.write_bytes(content)
        _check(kind, model, inputs, temporary, path)
    return path


def _metadata(run: Run, names: tuple[str, ...] | None) -> dict[str, str]:
    """What a user of the file needs to know, each value as JSON."""
    known = {
        "class_names": run.config.get("class_names"),
        "features": run.config.get("features"),
        "student": models.spec_of(run.student),
        "temperature": run.temperature,
        "inputs": ["x"] if names is None else list(names),
    }
    return {name: json.dumps(value, ensure_ascii=False) for name, value in known.items() if value is not None}


def _check(kind: Format, model: Probabilities, inputs: tuple[Tensor, ...], file: Path, path: Path) -> None:
    """The file, read again, predicts what the student predicts: on one row, two, three and all."""
    try:
        loaded = kind.load(file, model)
        for size in (1, 2, 3, export_formats.ROWS) if inputs else ():
            rows = tuple(value[:size] for value in inputs)
            with torch.no_grad():
                differs = export_formats.difference(loaded(*rows), model(*rows))
            if differs:
                raise UnderstudyError(f"for {size} rows the exported model {differs}")
    except UnderstudyError as error:
        raise UnderstudyError(f"{path} was not written: {error}") from error
    except Exception as error:  # whatever another runtime raises
        raise UnderstudyError(f"{path} was not written: loaded again, it fails: {reason(error)}") from error
