"""The formats of exported students: how each is written, and read again to be checked.

A format is two functions and a suffix in FORMATS. Writing gives bytes: where a disk is full, PyTorch's own writers
abort the process, and leave a piece of a file. Only files that ``export`` has just written are loaded.
"""

import contextlib
import copy
import io
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.jit._trace import TracerWarning

from understudy import models
from understudy.data.checks import to_tensor
from understudy.data.inputs import as_rows, read_by
from understudy.errors import UnderstudyError, install
from understudy.inference.passes import logits_of

Inputs = tuple[Tensor, ...]
Loaded = Callable[..., Tensor]


class Probabilities(nn.Module):
    """A student that takes its tensors by position and gives probabilities, at the run's temperature.

    ``names``: the keywords of a student that takes a mapping, in the order of the positions.
    """

    def __init__(self, student: nn.Module, names: tuple[str, ...] | None = None, temperature: float = 1.0) -> None:
        super().__init__()
        self.student, self.names, self.temperature = student, names, temperature

    def forward(self, *inputs: Tensor) -> Tensor:
        x = inputs[0] if self.names is None else dict(zip(self.names, inputs, strict=True))
        logits = logits_of(self.student, x).float()
        return (logits if self.temperature == 1.0 else logits / self.temperature).softmax(-1)


@dataclass(frozen=True)
class Format:
    suffix: str
    write: Callable[[Probabilities, Inputs, dict[str, str]], bytes]
    load: Callable[[Path, Probabilities], Loaded]
    #: Whether writing needs example rows.
    traced: bool = True


def reason(error: BaseException) -> str:
    """The first line that says something, in a message that may be pages long."""
    lines = [" ".join(line.split()).lstrip("- ") for line in str(error).splitlines() if "TORCH_LOGS" not in line]
    first = next((line for line in lines if any(letter.isalpha() for letter in line)), type(error).__name__)
    return first.split(". ")[0][:200].rstrip(" .:;")


@contextmanager
def _quiet() -> Iterator[None]:
    """No chatter about torch's own plans: TorchScript as such is deprecated, exporters call each other's old names."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            warnings.simplefilter("ignore", FutureWarning)
            yield
    finally:
        logging.disable(before)


def _write_safetensors(model: Probabilities, inputs: Inputs, metadata: dict[str, str]) -> bytes:
    import safetensors.torch

    # Tied parameters share memory, which safetensors refuses: each name gets its own copy.
    state = {name: value.detach().clone().contiguous() for name, value in model.student.state_dict().items()}
    return safetensors.torch.save(state, metadata={"format": "pt", **metadata})


def _load_safetensors(path: Path, model: Probabilities) -> Loaded:
    """The weights in a net built anew, where its making is known; in a blanked copy otherwise."""
    import safetensors.torch

    state = safetensors.torch.load_file(path)
    spec = models.spec_of(model.student)
    rebuilt = models.build(spec) if spec is not None else copy.deepcopy(model.student)
    for value in rebuilt.state_dict().values():
        value.zero_()
    try:
        rebuilt.load_state_dict(state)
    except RuntimeError as error:
        raise UnderstudyError(f"weights do not fit the net ({reason(error)}); was a layer replaced by hand?") from error
    for name, value in model.student.state_dict().items():
        if not torch.equal(state[name], value):
            raise UnderstudyError(f"the weights {name!r} in the file differ from the student's")
    return Probabilities(rebuilt, model.names, model.temperature).eval()


def _write_torchscript(model: Probabilities, inputs: Inputs, metadata: dict[str, str]) -> bytes:
    with _quiet(), torch.no_grad():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", TracerWarning)
            traced: Any = torch.jit.trace(model, inputs, check_trace=False)
        # A branch on a value is traced one way only, and the example rows need not show it.
        for warning in caught:
            if issubclass(warning.category, TracerWarning):
                place = f"{Path(warning.filename).name} line {warning.lineno} chooses one by a tensor's value or shape"
                raise UnderstudyError(f".pt records one path through the net, and {place}; write .pt2 or .safetensors")
        content = io.BytesIO()
        torch.jit.save(traced, content, _extra_files=dict(metadata))
    return content.getvalue()


def _load_torchscript(path: Path, model: Probabilities) -> Loaded:
    with _quiet():
        return torch.jit.load(str(path), map_location="cpu")  # type: ignore[no-any-return]


def _program(model: nn.Module, inputs: Inputs) -> Any:
    """The student as a graph whose first axis, the batch, may have any size; and the second of token numbers."""
    batch, any_length = torch.export.Dim("batch"), torch.export.Dim.AUTO
    tokens = [value.dim() == 2 and not value.is_floating_point() for value in inputs]
    axes = tuple({0: batch, 1: any_length} if each else {0: batch} for each in tokens)
    # On failure torch prints the graph so far; the error has what a user can use.
    with contextlib.redirect_stderr(io.StringIO()):
        return torch.export.export(model, inputs, dynamic_shapes={"inputs": axes})


def _write_pt2(model: Probabilities, inputs: Inputs, metadata: dict[str, str]) -> bytes:
    content = io.BytesIO()
    with _quiet(), torch.no_grad():
        torch.export.save(_program(model, inputs), content, extra_files=dict(metadata))
    return content.getvalue()


def _load_pt2(path: Path, model: Probabilities) -> Loaded:
    with _quiet():
        return torch.export.load(path).module()


def _write_onnx(model: Probabilities, inputs: Inputs, metadata: dict[str, str]) -> bytes:
    return onnx_bytes(model, inputs, metadata, names=model.names or ("x",))


def onnx_bytes(model: nn.Module, inputs: Inputs, metadata: dict[str, str], *, names: Sequence[str]) -> bytes:
    for package in ("onnx", "onnxruntime", "onnxscript"):
        if find_spec(package) is None:
            raise UnderstudyError(f"writing .onnx needs the package {package}: {install('onnx')}")
    with _quiet(), torch.no_grad():
        program = torch.onnx.export(
            _program(model, inputs), dynamo=True, verbose=False, input_names=list(names),
            output_names=["probabilities"],
        )  # fmt: skip
        assert program is not None
        program.model.metadata_props.update(metadata)
        return bytes(program.model_proto.SerializeToString())


def _load_onnx(path: Path, model: Probabilities) -> Loaded:
    from understudy.inference.standalone import first_output, open_net

    net = open_net(path)

    def run(*inputs: Tensor) -> Tensor:
        given = zip(model.names or ("x",), inputs, strict=True)
        return torch.from_numpy(first_output(net, {name: value.numpy() for name, value in given}))

    return run


FORMATS = {
    "safetensors": Format(".safetensors", _write_safetensors, _load_safetensors, traced=False),
    "torchscript": Format(".pt", _write_torchscript, _load_torchscript),
    "pt2": Format(".pt2", _write_pt2, _load_pt2),
    "onnx": Format(".onnx", _write_onnx, _load_onnx),
}


# Tracing wants more than one row (a batch of 1 is often a special case); the check also takes fewer.
ROWS = 8
TOLERANCE = 1e-5
# Two classes whose probabilities differ by less are a tie that rounding may decide either way.
TIE = 1e-6


def find_format(path: Path) -> Format:
    for kind in FORMATS.values():
        if kind.suffix == path.suffix.lower():
            return kind
    known = ", ".join(f"{kind.suffix} ({name})" for name, kind in FORMATS.items())
    raise UnderstudyError(f"{path}: the name says no format; end it in one of {known}")


def example_inputs(student: nn.Module, example: Any, *, needed: bool) -> tuple[tuple[str, ...] | None, Inputs]:
    """ROWS rows as the student takes them: the tensors, and their names where it takes a mapping."""
    if example is None:
        spec = models.spec_of(student)
        if spec is None and needed:
            raise UnderstudyError(f"{type(student).__name__} is no net of us.models; pass some: example=x[:8]")
        if spec is None:
            return None, ()
        shape = spec["args"]["inputs"]
        generator = torch.Generator().manual_seed(0)
        return None, (torch.randn(ROWS, *([shape] if isinstance(shape, int) else shape), generator=generator),)
    if not isinstance(example, Mapping):
        rows = read_by(student, as_rows(example, "example"))
        if not len(rows):
            raise UnderstudyError("example holds no rows; pass at least one")
        example = rows.take(torch.arange(ROWS) % len(rows))
        if isinstance(example, Tensor):
            return None, (example,)
    batch = {name: to_tensor(value, f"example[{name!r}]") for name, value in example.items()}
    lengths = {value.shape[:1] for value in batch.values()}
    if len(lengths) != 1 or not (length := lengths.pop().numel()):
        shapes = ", ".join(f"{name} {tuple(value.shape)}" for name, value in batch.items())
        raise UnderstudyError(f"example: the tensors do not hold one row per example each ({shapes or 'none given'})")
    return tuple(batch), tuple(value[torch.arange(ROWS) % length] for value in batch.values())


def try_student(model: Probabilities, inputs: tuple[Tensor, ...]) -> None:
    if not inputs:
        return
    student = type(model.student).__name__
    shapes = ", ".join(str(tuple(value.shape[1:])) for value in inputs)
    try:
        with torch.no_grad():
            probs = model(*inputs)
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        why = f"{student} cannot take the example rows of shape {shapes} ({reason(error)})"
        raise UnderstudyError(f"{why}; pass rows as in training") from error
    if probs.dim() != 2 or not bool(probs.isfinite().all()):
        raise UnderstudyError(f"{student} gives no finite (rows, classes): {tuple(probs.shape)}; check its weights")


def difference(exported: Tensor, expected: Tensor) -> str:
    """How the exported model's probabilities differ from the student's; empty where they do not."""
    if exported.shape != expected.shape:
        return f"gives {tuple(exported.shape)}, the student {tuple(expected.shape)}"
    gap = float((exported - expected).abs().max())
    if not gap <= TOLERANCE:  # written so that NaN fails
        return f"gives probabilities that differ from the student's by {gap:.2g} (over {TOLERANCE:g}); try another"
    best = expected.topk(min(2, expected.shape[1]), -1).values
    decided = best[:, 0] - best[:, -1] > TIE
    other = exported.argmax(-1) != expected.argmax(-1)
    return "predicts other classes than the student" if bool(other[decided].any()) else ""
