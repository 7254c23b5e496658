"""``understudy export``: from a run directory to a file that predicts the same."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import understudy as us
from understudy import cli
from understudy.io.write import write_table


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    torch.manual_seed(0)
    student = us.models.mlp(inputs=4, classes=3, hidden=(8,))
    zeros = {name: torch.zeros_like(value) for name, value in student.state_dict().items()}
    config = {"features": "x", "class_names": ["a", "b", "c"]}
    us.Run(student, history=[], columns={}, config=config, selected_epoch=1, selected_state=zeros).save(
        tmp_path / "run"
    )
    rng = np.random.default_rng(0)
    write_table(tmp_path / "rows.npz", {"x": rng.normal(size=(20, 4)).astype(np.float32)})
    write_table(tmp_path / "wide.npz", {"x": np.zeros((2, 5))})
    monkeypatch.chdir(tmp_path)
    return tmp_path


def call(line: str, code: int = 0) -> Any:
    result = CliRunner().invoke(cli.app, line.split())
    assert result.exit_code == code, result.output
    return result


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_export_then_predict_elsewhere(folder: Path) -> None:
    assert call("export run --out deep/student.pt --rows rows.npz").stdout == "student: deep/student.pt\n"
    x = torch.randn(3, 4)
    found: dict[str, str] = {"class_names": ""}
    with torch.no_grad():
        predictions = torch.jit.load("deep/student.pt", _extra_files=found)(x)
    torch.testing.assert_close(predictions, us.Run.load("run").predict(x))
    assert found["class_names"] == b'["a", "b", "c"]' or found["class_names"] == '["a", "b", "c"]'


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_selected_student(folder: Path) -> None:
    call("export run --selected --out student.pt")
    torch.testing.assert_close(torch.jit.load("student.pt")(torch.randn(2, 4)), torch.full((2, 3), 1 / 3))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("export run --out student.bin", "end it in one of .safetensors"),
        ("export nowhere --out student.pt", "is not a finished run"),
        ("export run --out student.pt --rows wide.npz", "wide.npz: the student cannot take rows of shape (5,)"),
        ("export run --out student.pt --rows none.npz", "is not there"),
        ("export run", "--out"),
    ],
)
def test_mistakes_are_one_line(line: str, message: str, folder: Path) -> None:
    error = call(line, code=2).stderr
    assert message in error and error.count("\n") == 1 and not (folder / "student.pt").exists()


def test_without_its_packages_one_line_says_how_to_install_them(folder: Path) -> None:
    program = """
import sys
sys.modules |= dict.fromkeys(("onnx", "onnxruntime", "onnxscript"))
from understudy.cli import app
app(["export", "run", "--out", "model"])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert "writing .onnx needs the package onnx: pip install" in done.stderr and not (folder / "model").exists()


@pytest.mark.slow
def test_onnx(folder: Path) -> None:
    import onnxruntime

    call("export run --out student.onnx")
    x = torch.randn(3, 4)
    session = onnxruntime.InferenceSession("student.onnx", providers=["CPUExecutionProvider"])
    torch.testing.assert_close(torch.from_numpy(session.run(None, {"x": x.numpy()})[0]), us.Run.load("run").predict(x))


@pytest.mark.slow
def test_a_folder_takes_raw_rows(folder: Path) -> None:
    assert call("export run --out model --rows rows.npz").stdout == "model: model\n"
    from understudy.inference.standalone import Model

    x = torch.randn(3, 4)
    found = Model("model").predict_proba([{"x": row.tolist()} for row in x])
    torch.testing.assert_close(torch.from_numpy(found), us.Run.load("run").predict(x))
