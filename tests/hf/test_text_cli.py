"""``--student hf:FOLDER``: from files of texts to a folder for transformers, predictions, a choice and a comparison."""

import json
from pathlib import Path
from typing import Any

import pyarrow.csv
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from tiny_bert import some_texts, write_tiny_bert
from understudy.cli import app

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.slow
NAMES = ["neg", "pos"]
FILES = (("gold", 40, "label"), ("pool", 90, "teacher_label"), ("test", 40, "label"))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("UNDERSTUDY_CACHE", str(tmp_path / "cache"))
    write_tiny_bert(Path("bert"))
    for seed, (name, rows, column) in enumerate(FILES):
        texts, labels = some_texts(rows, seed=seed)
        rows_of = enumerate(zip(texts, labels.tolist(), strict=True))
        lines = [f"{name}-{row},{text},{NAMES[label]}" for row, (text, label) in rows_of]
        Path(f"{name}.csv").write_text("\n".join([f"id,review,{column}", *lines]) + "\n")
    return tmp_path


def _run(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == code, result.output
    return " ".join(result.output.split())


TRAIN = ["train", "--gold", "gold.csv", "--pool", "pool.csv", "--text", "review", "--quiet", "--lr", "0.005"]


def test_from_files_to_predictions_and_the_next_labels(folder: Path) -> None:
    student = "hf:bert,max_tokens=16"
    told = ["--epochs", "10", "--batch-size", "16", "--group-by-length", "--out", "run"]
    _run(*TRAIN, "--test", "test.csv", "--student", student, *told)
    request = json.loads(Path("run/request.json").read_text())
    # A pilot of some thirty such students is only for those who ask for it.
    assert (
        request["method"] == "vanilla"
        and request["student"] == student
        and request["training"]["optimizer"] == "adamw"
        and request["training"]["warmup"] == 0.1
    )
    model = transformers.AutoModelForSequenceClassification.from_pretrained("run/model")
    assert model.config.id2label == {0: "neg", 1: "pos"}
    _run("predict", "run", "test.csv", "--out", "said.csv")
    said, truth = (pyarrow.csv.read_csv(name)["label"].to_pylist() for name in ("said.csv", "test.csv"))
    assert sum(a == b for a, b in zip(said, truth, strict=True)) >= 34
    classify = transformers.pipeline("text-classification", model="run/model")
    texts = pyarrow.csv.read_csv("test.csv")["review"].to_pylist()
    assert [answer["label"] for answer in classify(texts)] == said
    _run("select", "run", "pool.csv", "-n", "5", "--out", "batch.csv")
    assert len(Path("batch.csv").read_text().splitlines()) == 6
    _run("train", "--resume", "--out", "run")


def test_methods_are_compared_and_chosen(folder: Path) -> None:
    told = ["--student", "hf:bert", "--epochs", "1"]
    compare = ["compare", *TRAIN[1:], *told, "--methods", "gce", "--seeds", "1", "--workers", "1", "--out", "table"]
    assert "gce" in _run(*compare)
    _run(*TRAIN, *told, "--method", "auto", "--option", "folds=2", "--out", "chosen")
    assert Path("chosen/model/README.md").exists()


def test_two_kinds_of_features(folder: Path) -> None:
    told = ["--encoder", "bert", "--epochs", "1", "--option", "folds=2", "--option", "workers=1"]
    printed = _run(*TRAIN, *told, "--out", "run")
    assert "features: TF-IDF (accuracy on gold: encoder" in printed, "a random net knows less than the words"
    kinds = {name: json.loads(Path(name, "features.json").read_text())["parts"][0]["kind"] for name in ["run"]}
    assert kinds == {"run": "tfidf"}
    assert json.loads(Path("run/request.json").read_text())["data"]["encoder"] == str(folder / "bert")
    _run("predict", "run", "test.csv", "--out", "labels.csv")
    _run("train", "--resume", "--out", "run")
    _run(*TRAIN, *told, "--small", "--out", "small")
    config = json.loads(Path("small/config.json").read_text())["auto"]
    assert config["features"] == "TF-IDF" and any(one["name"] == "gce (encoder)" for one in config["sources"])
    _run("verify", "run")
    assert "for --method auto" in _run(*TRAIN, *told[:2], "--small", "--method", "vanilla", "--out", "no", code=2)
    _run("reconcile", *TRAIN[1:7], *told[:2], "--quiet", "--folds", "2", "--out", "labels.parquet")
    assert "source_gce_TF_IDF__label" in pyarrow.parquet.read_schema("labels.parquet").names


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--student", "hf:bert", "--encoder", "bert"], "reads the texts itself"),
        (["--student", "hf:"], "names no net"),
        (["--student", "hf:nowhere/at/all"], "no such folder"),
        (["--student", "hf:bert,frozen=2"], "unknown option 'frozen' of hf; did you mean 'freeze'?"),
        (["--student", "hf:bert", "--use", "id"], "takes a text and nothing else"),
    ],
)
def test_mistakes_are_one_line(folder: Path, arguments: list[str], message: str) -> None:
    shown: Any = _run(*TRAIN, "--method", "vanilla", "--out", "run", *arguments, code=2)
    assert message in shown
    assert not Path("run").exists()
