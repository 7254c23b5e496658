"""Exported files say what the student says, at any batch size, carry the names of the classes, or do not appear."""

import copy
import dataclasses
import json
import resource
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors
import torch
from torch import Tensor, nn

import understudy as us
from understudy.inference.export import export
from understudy.inference.export_formats import FORMATS, Probabilities, difference, reason
from understudy.inference.passes import predict
from understudy.maths.proportions import Share, exact
from understudy.training.evaluation import Evaluation, StudentCalibration

SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("pt2", "onnx")]
EVERY = ["safetensors", "torchscript", *SLOW]
TRACED = ["torchscript", *SLOW]


class Own(nn.Module):
    """A net of the user's: normalisation, dropout and a branch on the mode, none of which may show."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(5, 7), nn.BatchNorm1d(7), nn.Dropout(0.5))
        self.head = nn.Linear(7, 3)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.body(x)
        return self.head(hidden if not self.training else hidden * 2)


class Tokens(nn.Module):
    """Takes a mapping and returns an object with .logits, as Hugging Face models do."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(9, 4), nn.Linear(4, 2)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Any:
        kept = attention_mask.unsqueeze(-1).float()
        logits = self.head((self.words(input_ids) * kept).sum(1) / kept.sum(1))
        return type("Output", (), {"logits": logits})()


class Branching(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x) if x.sum() > 0 else -self.head(x)


class FixedBatch(Branching):
    def forward(self, x: Tensor) -> Tensor:
        return self.head(x).reshape(8, 3)


def warmed(student: nn.Module, x: Tensor) -> nn.Module:
    """With batch statistics that are not the initial ones, and in training mode, where an export must not leave it."""
    with torch.no_grad():
        student.train()(x * 1.7 + 0.3)
    return student


def nets() -> dict[str, tuple[nn.Module, Tensor]]:
    torch.manual_seed(0)
    images = torch.randn(6, 3, 32, 32)
    return {
        "mlp": (us.models.mlp(inputs=5, classes=3, hidden=(8,), dropout=0.2), torch.randn(6, 5)),
        "lenet": (us.models.lenet(), torch.randn(6, 28, 28)),
        "resnet": (warmed(us.models.cifar_resnet(inputs=(3, 32, 32), classes=4), images), images),
        "own": (warmed(Own(), torch.randn(6, 5)), torch.randn(6, 5)),
    }


def read(path: Path, student: nn.Module, x: Tensor) -> Tensor:
    """What the file says, by the plain calls that a user would make."""
    if path.suffix == ".safetensors":
        twin = copy.deepcopy(student)
        twin.load_state_dict(safetensors.torch.load_file(path))
        return predict(twin, x)
    if path.suffix == ".onnx":
        import onnxruntime

        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        return torch.from_numpy(session.run(None, {"x": x.numpy()})[0])
    with torch.no_grad():
        if path.suffix == ".pt2":
            return torch.export.load(path).module()(x)
        return torch.jit.load(path)(x)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize(
    ("format", "net"),
    [
        pytest.param(
            format, net,
            marks=pytest.mark.torture if net == "resnet" and format in ("pt2", "onnx") else [],
        )
        for format in ("safetensors", "torchscript", "pt2", "onnx")
        for net in ("mlp", "lenet", "resnet", "own")
    ],
)  # fmt: skip
def test_the_file_predicts_what_the_student_predicts(format: str, net: str, tmp_path: Path) -> None:
    student, x = nets()[net]
    modes = [module.training for module in student.modules()]
    path = export(student, tmp_path / f"student{FORMATS[format].suffix}", example=x.numpy())
    assert [module.training for module in student.modules()] == modes
    for size in (1, 4, 6):
        torch.testing.assert_close(read(path, student, x[:size]), predict(student, x[:size]), rtol=0, atol=1e-5)
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]
    assert path.stat().st_mode & 0o777 == 0o644


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("format", EVERY)
def test_the_file_predicts_at_the_temperature_of_the_run(format: str, tmp_path: Path) -> None:
    student, x = nets()["mlp"]
    gap = Share(0.0, -0.1, 0.1, 40)
    evaluation = Evaluation(exact(30, 40), "gold", 1, 0.5, calibration=StudentCalibration(2.5, gap, gap))
    run = us.Run(student, history=[], columns={}, evaluation=evaluation)
    path = export(run, tmp_path / f"student{FORMATS[format].suffix}")
    if format == "safetensors":  # weights alone: the metadata says what to divide the logits by
        with safetensors.safe_open(path, "pt") as file:
            assert json.loads(file.metadata()["temperature"]) == 2.5
        return
    torch.testing.assert_close(read(path, student, x), run.predict(x), rtol=0, atol=1e-6)
    assert float((run.predict(x) - predict(student, x)).abs().max()) > 0.01


@pytest.mark.parametrize("format", EVERY)
def test_a_changed_weight_is_noticed_and_leaves_no_file(
    format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = FORMATS[format]

    def write_wrongly(model: Probabilities, *rest: Any) -> bytes:
        other = copy.deepcopy(model)
        with torch.no_grad():
            next(other.parameters())[0, 0] += 0.01
        return real.write(other, *rest)

    monkeypatch.setitem(FORMATS, format, dataclasses.replace(real, write=write_wrongly))
    student, _ = nets()["mlp"]
    path = tmp_path / f"student{real.suffix}"
    with pytest.raises(us.UnderstudyError, match=r"was not written: .* differ from the student's"):
        export(student, path)
    assert not list(tmp_path.iterdir())


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("format", EVERY)
def test_names_travel_with_the_file(format: str, tmp_path: Path) -> None:
    student = us.models.linear(inputs=2, classes=2)
    run = us.Run(student, history=[], columns={}, config={"class_names": ["né", "b\n"], "features": ["age", "x"]})
    path = export(run, tmp_path / f"file{FORMATS[format].suffix}")
    wanted = ("class_names", "features", "student", "inputs", "temperature")
    found: dict[str, str] = dict.fromkeys(wanted, "")
    if format == "safetensors":
        with safetensors.safe_open(path, "pt") as file:
            found = file.metadata()
    elif format == "torchscript":
        torch.jit.load(path, _extra_files=found)
    elif format == "pt2":
        torch.export.load(path, extra_files=found)
    else:
        import onnx

        found = {entry.key: entry.value for entry in onnx.load(path).metadata_props}
    said = {name: json.loads(found[name]) for name in wanted}
    assert said == {**run.config, "student": us.models.spec_of(student), "inputs": ["x"], "temperature": 1.0}


@pytest.mark.parametrize("format", EVERY)
def test_students_that_take_mappings(format: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    batch = {"input_ids": torch.randint(9, (3, 5)), "attention_mask": torch.ones(3, 5, dtype=torch.long)}
    batch["attention_mask"][1, 2:] = 0
    path = export(Tokens(), tmp_path / f"tokens{FORMATS[format].suffix}", example=batch)
    assert path.exists()
    if format == "onnx":
        import onnxruntime

        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        assert [entry.name for entry in session.get_inputs()] == list(batch)
        assert [entry.name for entry in session.get_outputs()] == ["probabilities"]


@pytest.mark.parametrize("net", [Branching, FixedBatch])
@pytest.mark.parametrize("format", TRACED)
def test_what_cannot_be_exported_is_one_line(
    format: str, net: type[nn.Module], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(us.UnderstudyError) as error:
        export(net(), tmp_path / f"student{FORMATS[format].suffix}", example=torch.randn(8, 5))
    said = str(error.value)
    assert "\n" not in said and len(said) < 400 and ("cannot be exported" in said or "records one path" in said
                                                     or "was not written" in said)  # fmt: skip
    assert not list(tmp_path.iterdir()) and not "".join(capfd.readouterr())


def test_an_existing_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "student.pt"
    path.write_text("precious")
    with pytest.raises(us.UnderstudyError, match="already exists"):
        export(us.models.linear(inputs=2, classes=2), path)
    assert path.read_text() == "precious"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"path": "student.bin"}, r"end it in one of \.safetensors"),
        ({"example": np.zeros((0, 5))}, "holds no rows"),
        ({"example": np.zeros((2, 4))}, r"cannot take the example rows of shape \(4,\)"),
        ({"example": {"x": np.zeros((2, 4)), "y": np.zeros((3, 4))}}, "one row per example"),
        ({"example": {}}, "none given"),
        ({}, "pass some: example=x"),
    ],
)
def test_mistakes_are_explained(arguments: dict[str, Any], said: str, tmp_path: Path) -> None:
    path = tmp_path / arguments.pop("path", "student.pt")
    with pytest.raises(us.UnderstudyError, match=said):
        export(Own(), path, **arguments)
    assert not list(tmp_path.iterdir())


def test_a_student_with_broken_weights_is_refused(tmp_path: Path) -> None:
    student = us.models.linear(inputs=2, classes=2)
    nn.init.constant_(student.head.weight, float("nan"))  # type: ignore[arg-type, union-attr]
    with pytest.raises(us.UnderstudyError, match="no finite"):
        export(student, tmp_path / "student.pt")


def test_a_layer_replaced_by_hand_does_not_pass_as_the_net_that_was_built(tmp_path: Path) -> None:
    student = us.models.mlp(inputs=5, classes=3, hidden=(8,))
    student.body[0] = nn.Linear(5, 8, bias=False)  # type: ignore[index, operator]
    with pytest.raises(us.UnderstudyError, match="replaced by hand"):
        export(student, tmp_path / "student.safetensors")


def test_weights_of_any_net_need_no_rows(tmp_path: Path) -> None:
    student = Own()
    path = export(student, tmp_path / "own.safetensors")
    for name, value in safetensors.torch.load_file(path).items():
        assert torch.equal(value, student.state_dict()[name])


def test_a_missing_package_is_named_with_its_cure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(us.UnderstudyError, match=r'needs the package onnx: pip install .*\[onnx\]"'):
        export(us.models.linear(inputs=2, classes=2), tmp_path / "student.onnx")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("format", EVERY)
def test_a_full_disk_is_one_line(format: str, tmp_path: Path) -> None:
    """Files may have 100 bytes: PyTorch's own writers would abort the process and leave a piece."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    net, path = us.models.linear(inputs=2, classes=2), tmp_path / f"student{FORMATS[format].suffix}"
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        with pytest.raises(us.UnderstudyError, match=r"cannot write .*: File too large; check the folder"):
            export(net, path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not list(tmp_path.iterdir())


def test_near_ties_may_fall_either_way_and_clear_ones_may_not() -> None:
    tie = torch.tensor([[0.5, 0.5]])
    assert not difference(tie + torch.tensor([[4e-7, -4e-7]]), tie - torch.tensor([[2e-7, -2e-7]]))
    clear = torch.tensor([[0.500004, 0.499996]])
    assert "other classes" in difference(clear.flip(1), clear)
    assert "differ" in difference(torch.full((1, 2), float("nan")), tie)


def test_reasons_are_short() -> None:
    assert reason(ValueError("\n\n***\n  - it is\n broken")) == "it is"
    assert reason(KeyError()) == "KeyError" and len(reason(ValueError("x" * 999))) == 200
