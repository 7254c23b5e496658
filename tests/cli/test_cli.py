"""The command line end to end: files in, run and report and predictions out; one-line errors."""

import re
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import understudy as us
from understudy import cli
from understudy.cli.shared import typed_fields
from understudy.errors import UnderstudyWarning
from understudy.io.table import read_table
from understudy.io.write import write_table
from understudy.store import console
from understudy.store.option_fields import known
from understudy.training.options import TrainingOptions

from ..forked_program import UNDERSTUDY, Program

CLASSES = 3


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """gold (id, label), pool and test files of three easy blobs, with the folder as the current one."""
    rng = np.random.default_rng(0)
    y = np.arange(120) % CLASSES
    x = (rng.normal(size=(120, 4)) + 3 * np.eye(CLASSES, 4)[y]).astype(np.float32)
    probs = 0.7 * np.eye(CLASSES)[y] + 0.1
    ids = np.array([f"row{i}" for i in range(120)])
    write_table(tmp_path / "pool.parquet", {"id": ids[:90], "x": x[:90], "teacher_probs": probs[:90], "label": y[:90]})
    write_table(tmp_path / "gold.parquet", {"id": ids[:30], "label": y[:30]})
    write_table(tmp_path / "test.npz", {"id": ids[90:], "x": x[90:], "label": y[90:]})
    monkeypatch.chdir(tmp_path)
    return tmp_path


def call(line: str, *more: str, code: int = 0) -> Any:
    result = CliRunner().invoke(cli.app, [*line.split(), *more])
    assert result.exit_code == code, result.output
    return result


def train(*more: str, code: int = 0, out: str = "run", gold: str = "gold.parquet") -> Any:
    fixed = "train --pool pool.parquet --student mlp:8 --epochs 2 --lr 0.01 --quiet"
    method = () if "--method" in more else ("--method", "slam")
    return call(fixed, "--gold", gold, "--out", out, *method, *more, code=code)


def test_train_then_predict(folder: Path) -> None:
    result = train("--test", "test.npz", "--method", "slam", "--option", "lower_bound=0.6", "--batch-size", "16")
    run = us.Run.load("run")
    assert len(run.history) == 2 and run.config["features"] == "x" and run.config["options"] == {"lower_bound": 0.6}
    assert f"test accuracy {100 * run.history[-1]['test_accuracy']:.1f}% (last epoch)" in result.stdout
    assert run.facts["gold_rows"] == 30 and run.facts["pool_rows"] == 60
    page = (folder / "run" / "report.html").read_text()
    assert "slam lower_bound=0.6" in page and "Reliability of the teacher" in page
    seconds = r"[\d.]+ \(features [\d.]+, choices and label sources [\d.]+, training [\d.]+, evaluation [\d.]+\)"
    assert re.search(f"Whole run, seconds.*?{seconds}", page, re.DOTALL)

    shown = call("predict", "run", "test.npz", "--out", "predictions.parquet").stdout
    test = read_table("test.npz").columns
    predictions = read_table("predictions.parquet").columns
    expected = run.predict(torch.from_numpy(test["x"]))
    np.testing.assert_array_equal(predictions["probabilities"], expected.numpy())
    np.testing.assert_array_equal(predictions["label"], expected.argmax(1).numpy())
    np.testing.assert_array_equal(predictions["confidence"], expected.max(1).values.numpy())
    np.testing.assert_array_equal(predictions["id"], test["id"])
    assert f"accuracy {100 * np.mean(predictions['label'] == test['label']):.1f}%" in shown

    before = (folder / "predictions.parquet").read_bytes()
    error = call("predict", "run", "test.npz", "--out", "predictions.parquet", code=2).stderr
    assert "predictions.parquet already exists" in error and (folder / "predictions.parquet").read_bytes() == before


def test_same_as_calling_the_library(folder: Path) -> None:
    train("--method", "weighted", "--seed", "3", "--pretrain", "1")
    from understudy.io.read import read_examples

    examples = read_examples(gold="gold.parquet", pool="pool.parquet")
    run = us.train(
        lambda: us.models.mlp(inputs=4, classes=CLASSES, hidden=(8,)), examples.gold, examples.pool, us.weighted(),
        epochs=2, lr=0.01, schedule="cosine", seed=3, pretrain_epochs=1, progress=False,
    )  # fmt: skip
    for name, value in us.Run.load("run").student.state_dict().items():
        torch.testing.assert_close(value, run.student.state_dict()[name], rtol=0, atol=0)


def test_every_option_reaches_training(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}
    real = us.train

    def spy(*arguments: Any, **keywords: Any) -> Any:
        seen.update(keywords)
        return real(*arguments, **keywords)

    monkeypatch.setattr("understudy.training.job.train", spy)
    text = "--optimizer sgd --schedule cosine --weight-decay 0.1 --momentum 0.5 --pretrain 1 --gold-repeat 2"
    text += " --gold-weight 3 --clip 1.5 --batch-size 7 --seed 4 --device cpu --select test.npz"
    assert "epoch" not in train(*text.split(), "--classes", "3").stderr, "--quiet"
    assert seen["select"] is not None and len(seen["select"]) == 30 and seen["test"] is None
    expected = {
        "optimizer": "sgd", "schedule": "cosine", "weight_decay": 0.1, "momentum": 0.5, "pretrain_epochs": 1,
        "gold_repeat": 2, "gold_weight": 3.0, "clip": 1.5, "batch_size": 7, "seed": 4, "epochs": 2, "lr": 0.01,
        "device": torch.device("cpu"), "out": Path("run"),
    }  # fmt: skip
    assert {name: seen[name] for name in expected} == expected


def test_numeric_columns_are_predicted_by_name(folder: Path) -> None:
    pool = {"a": np.linspace(0, 1, 40), "b": np.linspace(1, 0, 40), "teacher_label": np.arange(40) % 2}
    write_table("p.npz", pool)
    write_table("new.npz", {"b": np.array([0.1, 0.2]), "extra": np.zeros(2), "a": np.array([0.8, 0.9])})
    call("train --pool p.npz --method vanilla --student linear --epochs 1 --quiet --out run")
    call("predict run new.npz --out predictions.npz")
    predictions = read_table("predictions.npz").columns
    # Scaled by the training rows: a grid of 40 points from 0 to 1.
    raw = torch.tensor([[0.8, 0.1], [0.9, 0.2]], dtype=torch.float64)
    expected = us.Run.load("run").predict(((raw - 0.5) / np.linspace(0, 1, 40).std()).float())
    np.testing.assert_allclose(predictions["probabilities"], expected.numpy(), rtol=1e-6)
    assert predictions["row"].tolist() == [0, 1] and "id" not in predictions


@pytest.mark.parametrize("label", [["cat", "dog"], [-1, 99], [-1, -1]])
def test_a_strange_label_column_does_not_stop_predictions(label: list[Any], folder: Path) -> None:
    train()
    write_table("new.npz", {"x": np.zeros((2, 4)), "label": np.array(label)})
    shown = call("predict run new.npz").stdout
    assert "2 predictions: predictions.parquet" in shown and ("accuracy 0.0%" in shown) == (label == [-1, 99])


def test_selected_epoch_can_be_predicted_with(folder: Path) -> None:
    train("--select", "test.npz")
    run = us.Run.load("run")
    assert run.selected_state is not None
    # A selected student that differs from the last one: all zeros says 1/3 for every class.
    run.selected_state = {name: torch.zeros_like(value) for name, value in run.selected_state.items()}
    run.save("other")
    call("predict other test.npz --selected --out predictions.npz")
    np.testing.assert_allclose(read_table("predictions.npz").columns["probabilities"], 1 / 3, rtol=1e-6)
    call("predict other test.npz --out last.npz")
    assert not np.allclose(read_table("last.npz").columns["probabilities"], 1 / 3)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--option", "lower=0.6"], "unknown option 'lower' of slam; did you mean 'lower_bound'?"),
        (["--option", "lower_bound=high"], "it must be a number"),
        (["--option", "lower_bound=0.2"], "use normalise=True below 0.5"),
        (["--method", "magic"], "there is no method 'magic'; use one of"),
        (["--student", "mpl:8"], "there is no model 'mpl'"),
        (["--gold", "nowhere.parquet"], "--gold names 2 files"),
        (["--test", "nowhere.parquet"], "nowhere.parquet is not there"),
        (["--test", "gold.docx"], "files ending in '.docx' are not read"),
        (["--schedule", "zigzag"], "schedule='zigzag' is unknown"),
        (["--optimizer", "newton"], "optimizer='newton' is unknown"),
        (["--device", "abacus"], "device 'abacus' is unknown"),
        (["--device", "cuda:99"], "device 'cuda:99' cannot be used here"),
        (["--classes", "5"], "they must be equal"),
        (["--test", "pool.parquet"], "share 30 ids"),
        (["--epochs", "0"], "--epochs"),
        (["--bogus"], "No such option: --bogus"),
    ],
)
def test_mistakes_are_one_line_and_exit_2(more: list[str], message: str, folder: Path) -> None:
    result = train(*more, code=2)
    assert message in result.stderr and result.stderr.startswith("error: ") and result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert not (folder / "run").exists(), "nothing is half written"


def test_predict_mistakes(folder: Path) -> None:
    train()
    write_table("wide.npz", {"x": np.zeros((2, 7))})
    write_table("other.npz", {"y": np.zeros(2)})
    for arguments, message in [
        ("predict nowhere test.npz", "nowhere is not a finished run"),
        ("predict run wide.npz", "wide.npz: column 'x' has rows of shape (7,), but (4,) in training"),
        ("predict run other.npz", "other.npz has no column 'x'"),
        (
            "predict run test.npz --out predictions.txt",
            "predictions.txt: tables are written as .parquet, .csv, .jsonl or .npz",
        ),
        ("predict run test.npz --selected", "no epoch was selected"),
        ("predict run", "Missing argument"),
    ]:
        result = call(arguments, code=2)
        assert message in result.stderr and result.stderr.count("\n") == 1
    assert not Path("predictions.parquet").exists()


def test_an_existing_run_is_left_alone(folder: Path) -> None:
    train()
    before = {path.name: path.read_bytes() for path in (folder / "run").iterdir()}
    assert "already exists" in train(code=2).stderr
    assert {path.name: path.read_bytes() for path in (folder / "run").iterdir()} == before


def test_warnings_are_one_line_each_and_kept_in_the_report(folder: Path) -> None:
    pool = read_table("pool.parquet").columns
    write_table("few.npz", {"id": pool["id"][[0, 1, 3, 4]], "label": pool["label"][[0, 1, 3, 4]]})
    result = train(gold="few.npz")
    lines = [line for line in result.stderr.splitlines() if line.startswith("warning: ")]
    assert lines == result.stderr.splitlines()
    report = (folder / "run" / "report.html").read_text()
    # The teacher has all four right, so that SLaM has nothing to mix.
    expected = ["no example of class 2", "4 gold rows calibrate the teacher", "is 1, so it changes nothing here"]
    for line, message in zip(lines, expected, strict=True):
        assert message in line and message in report


def test_other_warnings_pass_as_usual(capsys: pytest.CaptureFixture[str]) -> None:
    with console.collected_warnings(console.complain):
        warnings.warn("mine", UnderstudyWarning, stacklevel=1)
        warnings.warn("mine", UnderstudyWarning, stacklevel=1)
        with pytest.raises(RuntimeWarning, match="theirs"):
            warnings.warn("theirs", RuntimeWarning, stacklevel=1)
    assert capsys.readouterr().err == "mine\n"


def test_interrupt_is_one_line_and_130(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*arguments: Any, **keywords: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("understudy.training.job.train", interrupted)
    assert train(code=130).stderr == "stopped; a training that has begun continues with understudy train --resume\n"


def test_a_bug_is_not_hidden(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: Any, **keywords: Any) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("understudy.training.job.train", broken)
    arguments = ["train", "--gold", "gold.parquet", "--epochs", "1", "--out", "run"]
    pool = ["--pool", "pool.parquet", "--method", "slam"]
    assert isinstance(CliRunner().invoke(cli.app, [*arguments, *pool]).exception, ZeroDivisionError)


def test_help_teaches() -> None:
    for command in ("demo", "train", "predict"):
        assert command in call("--help").stdout
        assert f"understudy {command}" in call(command, "--help").stdout
    text = " ".join(call("train", "--help").stdout.split())
    for word in ("teacher_probs", "teacher_label", "teacher_confidence", "lower_bound=0.6", *us.METHODS):
        assert word in text
    for name, option in typed_fields(TrainingOptions).items():
        assert f"--{name.replace('_', '-')}" in text and known(option).help[:20] in text
    assert "demo" in call("", code=2).output
    assert call("--version").stdout.strip() == f"understudy {us.__version__}"


def test_demo_prints_progress_table_verdict_and_place(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from understudy.comparison import digits_demo as demo

    tiny = demo.DemoSetting(seeds=2, teacher_rows=60, gold_rows=40, pool_rows=100)
    monkeypatch.setattr(demo, "DemoSetting", lambda seeds: tiny)
    # One training in place of the pilot's many.
    monkeypatch.setattr(demo, "auto", lambda student, gold, pool, *, test, seed, workers, progress: us.train(
        student, gold, pool, us.vanilla(), test=test, epochs=1, progress=False))  # fmt: skip
    result = call("demo", "--seeds", "2")
    assert "seed 1/2  teacher" in result.stderr and "seed 2/2" in result.stderr
    for message in ("regression on gold", "minus", "auto vs its teacher", "Report: understudy-demo/report.html"):
        assert message in result.stdout
    assert (folder / "understudy-demo" / "report.html").exists()


@pytest.mark.slow
def test_as_a_program(folder: Path) -> None:
    program = [sys.executable, "-m", "understudy"]
    good = ["train", "--gold", "gold.parquet", "--pool", "pool.parquet", "--epochs", "2", "--out", "run"]
    good += ["--method", "slam"]
    done = subprocess.run([*program, *good], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "slam  epoch 2/2  loss" in done.stderr and "Report: run/report.html" in done.stdout
    again = Program(UNDERSTUDY, *good, errors=folder / "errors")
    assert again.rest() == "" and again.wait() == 2
    errors = (folder / "errors").read_text()
    assert errors.startswith("error: ") and errors.count("\n") == 1


def test_an_option_whose_last_value_alone_would_count_is_given_once(folder: Path) -> None:
    error = call("train --gold gold.csv --teacher ana --teacher ben --out run", code=2).stderr
    assert "'--teacher': given twice; give it once, a list as a,b" in error
    assert "'--gold': given twice" in call("audit --gold gold.csv --gold more.csv", code=2).stderr
    error = call(
        "train --gold no.csv --gold +more.csv --quiet --quiet --lr 1 --lr 2 --column a=b --column c=d --out run", code=2
    ).stderr
    assert "times" not in error and "no.csv" in error


def test_options_have_one_name_in_every_command() -> None:
    """Those that read texts or images show bars, and --quiet hides them; columns are named alike everywhere."""
    import typer.main

    commands = typer.main.get_command(cli.app).commands  # type: ignore[attr-defined]
    flags = {name: {flag for each in command.params for flag in each.opts} for name, command in commands.items()}
    bars = "train audit estimate reconcile compare predict select encode teach export ask campaign"
    assert [name for name in bars.split() if "--quiet" not in flags[name]] == []
    named = "train audit estimate reconcile compare predict select encode teach ask campaign budget label tasks watch"
    lacking = [name for name in named.split() if not {"--column", "--label", "--id"} <= flags[name]]
    assert lacking == []
    assert {name for name in flags if "--teacher" in flags[name]} >= {*named.split()} - {
        "predict", "select", "encode", "teach",
    }  # fmt: skip
