"""The kinds of file a student is exported to: how each is written, and how it is read again to be checked.

A format is two functions and a suffix in FORMATS. Writing gives bytes: where a disk is full, PyTorch's own writers
abort the process, and leave a piece of a file. Only files that ``export`` has
just written are loaded.
"""

import contextlib
import copy
import io
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.jit._trace import TracerWarning

from understudy import models
from understudy.errors import UnderstudyError
from understudy.inference.passes import logits_of

Inputs = tuple[Tensor, ...]
Loaded = Callable[[Inputs], Tensor]


class Probabilities(nn.Module):
    """A student that takes its tensors by position and gives probabilities.

    ``names``: the keywords of a student that takes a mapping, in the order of the positions.
    """

    def __init__(self, student: nn.Module, names: tuple[str, ...] | None = None) -> None:
        super().__init__()
        self.student, self.names = student, names

    def forward(self, *inputs: Tensor) -> Tensor:
        x = inputs[0] if self.names is None else dict(zip(self.names, inputs, strict=True))
        return logits_of(self.student, x).float().softmax(-1)


@dataclass(frozen=True)
class Format:
    suffix: str
    write: Callable[[Probabilities, Inputs, dict[str, str]], bytes]
    load: Callable[[Path, Probabilities], Loaded]
    traced: bool = True
    """Whether writing needs example rows."""


def reason(error: BaseException) -> str:
    """The first line that says something, in a message that may be pages long."""
    lines = [" ".join(line.split()).lstrip("- ") for line in str(error).splitlines() if "TORCH_LOGS" not in line]
    first = next((line for line in lines if any(letter.isalpha() for letter in line)), type(error).__name__)
    return first.split(". ")[0][:200].rstrip(" .:;")


@contextmanager
def _quiet() -> Iterator[None]:
    """No chatter about torch's own plans: TorchScript as such is deprecated, exporters call each other's old names."""
    logs = [logging.getLogger(name) for name in ("torch.onnx", "torch.fx")]
    levels = [log.level for log in logs]
    with warnings.catch_warnings():
        for category in (DeprecationWarning, FutureWarning):
            warnings.simplefilter("ignore", category)
        for log in logs:
            log.setLevel(logging.ERROR)
        try:
            yield
        finally:
            for log, level in zip(logs, levels, strict=True):
                log.setLevel(level)


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
        raise UnderstudyError(
            f"the weights do not fit the net as it was built ({reason(error)}); was a layer replaced by hand?"
        ) from error
    for name, value in model.student.state_dict().items():
        if not torch.equal(state[name], value):
            raise UnderstudyError(f"the weights {name!r} in the file differ from the student's")
    return _positional(Probabilities(rebuilt, model.names).eval())


def _write_torchscript(model: Probabilities, inputs: Inputs, metadata: dict[str, str]) -> bytes:
    with _quiet(), torch.no_grad():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", TracerWarning)
            traced: Any = torch.jit.trace(model, inputs, check_trace=False)
        # A branch on a value is traced one way only, and the example rows need not show it.
        for warning in caught:
            if issubclass(warning.category, TracerWarning):
                raise UnderstudyError(
                    f".pt records one path through the net, and {Path(warning.filename).name} line "
                    f"{warning.lineno} chooses one by a tensor's value or shape; write .pt2 or .safetensors instead"
                )
        content = io.BytesIO()
        torch.jit.save(traced, content, _extra_files=dict(metadata))
    return content.getvalue()


def _load_torchscript(path: Path, model: Probabilities) -> Loaded:
    with _quiet():
        return _positional(torch.jit.load(str(path), map_location="cpu"))


def _program(model: Probabilities, inputs: Inputs) -> Any:
    """The student as a graph whose first axis, the batch, may have any size."""
    batch = torch.export.Dim("batch")
    axes = tuple({0: batch} for _ in inputs)
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
        return _positional(torch.export.load(path).module())


def _write_onnx(model: Probabilities, inputs: Inputs, metadata: dict[str, str]) -> bytes:
    _need_onnx()
    names = list(model.names or ("x",))
    with _quiet(), torch.no_grad():
        program = torch.onnx.export(
            _program(model, inputs), dynamo=True, verbose=False, input_names=names, output_names=["probabilities"]
        )
        assert program is not None
        program.model.metadata_props.update(metadata)
        content: bytes = program.model_proto.SerializeToString()
    return content


def _load_onnx(path: Path, model: Probabilities) -> Loaded:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 3, 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [entry.name for entry in session.get_inputs()]

    def run(inputs: Inputs) -> Tensor:
        given = dict(zip(model.names or ("x",), inputs, strict=True))
        # An input that the student ignores is not in the graph.
        outputs = session.run(["probabilities"], {name: given[name].numpy() for name in names})
        return torch.from_numpy(outputs[0])

    return run


def _need_onnx() -> None:
    try:
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
        import onnxscript  # type: ignore[import-untyped, unused-ignore]  # noqa: F401
    except ImportError as error:
        raise UnderstudyError(
            f'writing .onnx needs the package {error.name}; run pip install "understudy[onnx]"'
        ) from error


def _positional(module: Any) -> Loaded:
    def run(inputs: Inputs) -> Tensor:
        with torch.no_grad():
            probs: Tensor = module(*inputs)
        return probs

    return run


FORMATS = {
    "safetensors": Format(".safetensors", _write_safetensors, _load_safetensors, traced=False),
    "torchscript": Format(".pt", _write_torchscript, _load_torchscript),
    "pt2": Format(".pt2", _write_pt2, _load_pt2),
    "onnx": Format(".onnx", _write_onnx, _load_onnx),
}
