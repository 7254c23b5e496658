"""A trained student as one file for use elsewhere, checked against the student before the file appears.

    export(run, "student.onnx")                         # or .pt (TorchScript), .pt2 (torch.export), .safetensors
    export(net, "student.pt2", example=x[:8])           # a net of your own: some rows to trace it with

The model in the file takes a batch of any size and gives class probabilities, as ``run.predict`` does; the names of the
classes travel with it. Docs: docs/export.md.
"""

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from understudy import models
from understudy.arguments import checked
from understudy.data.checks import to_tensor
from understudy.data.inputs import as_rows
from understudy.data.texts import read_by
from understudy.errors import UnderstudyError
from understudy.inference.export_formats import FORMATS, Format, Loaded, Probabilities, reason
from understudy.store.copies import local_path
from understudy.store.files import appearing_whole
from understudy.training.run import Run

# Tracing wants more than one row (a batch of 1 is often a special case); the check also takes fewer.
ROWS = 8
TOLERANCE = 1e-5
# Two classes whose probabilities differ by less are a tie that rounding may decide either way.
TIE = 1e-6


@checked
def export(
    run_or_student: Run | nn.Module,
    path: str | Path,
    *,
    format: str | None = None,
    example: Any = None,
    check: bool = True,
) -> Path:
    """Write the student to a new file and return its path.

    ``format``: safetensors, torchscript, pt2 or onnx; by default what the file's name ends in. ``example``: a few rows
    to trace the student with (an array, a Dataset, or a mapping of tensors where it takes those); the nets of
    ``us.models`` need none. ``check``: load the file again and compare its predictions with the student's at several
    batch sizes; where they differ, no file is left and an error says so.
    """
    path = local_path(path)
    kind = find_format(path, format)
    if path.exists():
        raise UnderstudyError(f"{path} already exists and is not overwritten; choose another name or remove it")
    student = run_or_student.student if isinstance(run_or_student, Run) else run_or_student
    config = run_or_student.config if isinstance(run_or_student, Run) else {}
    student = copy.deepcopy(student).cpu().eval()
    batch = _example_batch(student, example, needed=kind.traced)
    names = tuple(batch) if isinstance(batch, Mapping) else None
    inputs = () if batch is None else tuple(batch.values()) if isinstance(batch, Mapping) else (batch,)
    model = Probabilities(student, names).eval()
    _try_student(model, inputs)
    metadata = _metadata(student, config, names)
    try:
        content = kind.write(model, inputs, metadata)
    except (UnderstudyError, OSError):
        raise
    except Exception as error:  # torch's exporters raise whatever the traced code or they themselves raise
        raise UnderstudyError(
            f"{type(student).__name__} cannot be exported to {path.name}: {reason(error)}; avoid branches on "
            "values and fixed batch sizes in its forward, or write .safetensors"
        ) from error
    with appearing_whole(path) as temporary:
        temporary.write_bytes(content)
        if check:
            _check(kind, model, inputs, temporary, path)
    return path


def find_format(path: Path, format: str | None = None) -> Format:
    if format is not None:
        if format not in FORMATS:
            raise UnderstudyError(f"there is no format {format!r}; use one of {', '.join(FORMATS)}")
        return FORMATS[format]
    for kind in FORMATS.values():
        if kind.suffix == path.suffix.lower():
            return kind
    known = ", ".join(f"{kind.suffix} ({name})" for name, kind in FORMATS.items())
    raise UnderstudyError(f"{path}: the name says no format; end it in one of {known}")


def _example_batch(student: nn.Module, example: Any, *, needed: bool) -> Any:
    """ROWS rows as the student takes them; None where there are none and none are needed."""
    if example is None:
        spec = models.spec_of(student)
        if spec is None and needed:
            raise UnderstudyError(
                f"{type(student).__name__} is no net of us.models, so the shape of its rows is unknown; "
                "pass some: example=x[:8]"
            )
        if spec is None:
            return None
        shape = spec["args"]["inputs"]
        generator = torch.Generator().manual_seed(0)
        return torch.randn(ROWS, *([shape] if isinstance(shape, int) else shape), generator=generator)
    if isinstance(example, Mapping):
        return _example_mapping(example)
    rows = read_by(student, as_rows(example, "example"))
    if not len(rows):
        raise UnderstudyError("example holds no rows; pass at least one")
    batch = rows.take(torch.arange(ROWS) % len(rows))
    return batch if isinstance(batch, Tensor) else _example_mapping(batch)


def _example_mapping(example: Mapping[str, Any]) -> dict[str, Tensor]:
    batch = {name: to_tensor(value, f"example[{name!r}]") for name, value in example.items()}
    lengths = {value.shape[:1] for value in batch.values()}
    if len(lengths) != 1 or not lengths.pop().numel():
        shapes = ", ".join(f"{name} {tuple(value.shape)}" for name, value in batch.items())
        raise UnderstudyError(f"example: the tensors do not hold one row per example each ({shapes or 'none given'})")
    rows = len(next(iter(batch.values())))
    return {name: value[torch.arange(ROWS) % rows] for name, value in batch.items()}


def _try_student(model: Probabilities, inputs: tuple[Tensor, ...]) -> None:
    if not inputs:
        return
    student = type(model.student).__name__
    shapes = ", ".join(str(tuple(value.shape[1:])) for value in inputs)
    try:
        with torch.no_grad():
            probs = model(*inputs)
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        raise UnderstudyError(
            f"{student} cannot take the example rows of shape {shapes} ({reason(error)}); pass rows as in training"
        ) from error
    if probs.dim() != 2 or not bool(probs.isfinite().all()):
        raise UnderstudyError(
            f"{student} gives no finite (rows, classes) for the example (shape {tuple(probs.shape)}); check its weights"
        )


def _metadata(student: nn.Module, config: dict[str, Any], names: tuple[str, ...] | None) -> dict[str, str]:
    """What a user of the file needs to know, each value as JSON."""
    known = {
        "class_names": config.get("class_names"),
        "features": config.get("features"),
        "student": models.spec_of(student),
        "inputs": ["x"] if names is None else list(names),
    }
    return {name: json.dumps(value, ensure_ascii=False) for name, value in known.items() if value is not None}


def _check(kind: Format, model: Probabilities, inputs: tuple[Tensor, ...], file: Path, path: Path) -> None:
    """The file, read again, predicts what the student predicts: on one row, two, three and all."""
    try:
        loaded: Loaded = kind.load(file, model)
        for size in (1, 2, 3, ROWS) if inputs else ():
            rows = tuple(value[:size] for value in inputs)
            with torch.no_grad():
                expected = model(*rows)
            _compare(loaded(rows), expected, size)
    except UnderstudyError as error:
        raise UnderstudyError(f"{path} was not written: {error}") from error
    except Exception as error:  # whatever another runtime raises
        raise UnderstudyError(f"{path} was not written: loaded again, it fails: {reason(error)}") from error


def _compare(exported: Tensor, expected: Tensor, size: int) -> None:
    if exported.shape != expected.shape:
        raise UnderstudyError(
            f"for {size} rows the exported model gives {tuple(exported.shape)}, the student {tuple(expected.shape)}"
        )
    gap = float((exported - expected).abs().max())
    # Written so that NaN fails.
    if not gap <= TOLERANCE:
        raise UnderstudyError(
            f"for {size} rows the exported model's probabilities differ from the student's by {gap:.2g} "
            f"(more than {TOLERANCE:g}); another format may do better"
        )
    if expected.shape[1] > 1:
        best = expected.topk(2, -1).values
        decided = best[:, 0] - best[:, 1] > TIE
        if bool((exported.argmax(-1) != expected.argmax(-1))[decided].any()):
            raise UnderstudyError(f"for {size} rows the exported model predicts other classes than the student")
