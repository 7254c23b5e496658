"""Without --student and --epochs: defaults by the features, in the run, the request and the report."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import understudy as us
from understudy.cli import app

WORDS = {"pos": ["good", "fine", "great", "lovely", "splendid"], "neg": ["bad", "poor", "dull", "awful", "dreary"]}


def run_command(*args):
    result = CliRunner().invoke(app, list(args))
    assert result.exit_code == 0, result.output
    return result


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    draw = np.random.default_rng(0)

    def lines(rows, column):
        classes = [("pos", "neg")[k % 2] for k in range(rows)]
        texts = [" ".join(draw.choice(WORDS[word], 4)) for word in classes]
        return f"text,number,{column}\n" + "".join(
            f"{text},{draw.normal() + (word == 'pos')},{word}\n" for text, word in zip(texts, classes, strict=True)
        )

    Path("gold.csv").write_text(lines(24, "label"))
    Path("pool.csv").write_text(lines(60, "teacher_label"))
    Path("test.csv").write_text(lines(20, "label"))
    return tmp_path


FILES = ("--gold", "gold.csv", "--pool", "pool.csv", "--method", "vanilla", "--quiet", "--out", "run")


def test_text_is_for_a_linear_student(folder):
    run_command("train", *FILES, "--test", "test.csv", "--text", "text")
    run, request = us.Run.load("run"), json.loads(Path("run/request.json").read_text())
    assert request["student"] == "linear" and request["training"]["optimizer"] == "lbfgs"
    assert run.config["optimizer"] == "lbfgs" and run.metrics()["last"]["accuracy"] == 1.0
    report = Path("run/report.html").read_text()
    assert "linear" in report and f"C = {run.config['chosen_penalty']['c']:g}" in report
    run_command("train", "--resume", "--out", "run")


def test_numbers_are_for_a_net_and_steps(folder):
    run_command("train", *FILES, "--use", "number", "--epochs", "2")
    request = json.loads(Path("run/request.json").read_text())
    given = {name: request["training"][name] for name in ("epochs", "optimizer", "schedule", "lr", "weight_decay")}
    assert request["student"] == "mlp:128,128" and given == {
        "epochs": 2, "optimizer": "adam", "schedule": "cosine", "lr": 1e-3,
        "weight_decay": 0.0,
    }  # fmt: skip


def test_a_learning_rate_is_for_steps_on_batches(folder):
    run_command("train", *FILES, "--text", "text", "--lr", "0.1", "--epochs", "3")
    config = us.Run.load("run").config
    assert (config["optimizer"], config["lr"], config["epochs"]) == ("adam", 0.1, 3)


def test_compare_takes_the_same_student(folder):
    run_command(
        "compare", *FILES[:4], "--text", "text", "--methods", "vanilla", "--seeds", "1", "--workers", "1", "--quiet",
        "--out", "both",
    )  # fmt: skip
    assert "trained to convergence, student linear" in Path("both/report.html").read_text()


def test_gold_says_how_long_in_one_place_and_the_report(folder):
    Path("many.csv").write_text(Path("gold.csv").read_text() + Path("test.csv").read_text().partition("\n")[2])
    files = ("--gold", "many.csv", *FILES[2:], "--use", "number", "--student", "mlp:4", "--epochs", "auto")
    run_command("train", *files)
    run = us.Run.load("run")
    assert json.loads(Path("run/request.json").read_text())["training"]["epochs"] == "auto"
    assert run.config["chosen_epochs"]["epochs"] == run.config["epochs"] == len(run.history)
    assert "by the loss on held-out gold" in Path("run/report.html").read_text()
    run_command("train", "--resume", "--out", "run")


def test_the_only_column_of_sentences_is_the_text(folder):
    for name in ("gold", "pool"):
        rows = [line.split(",") for line in Path(f"{name}.csv").read_text().splitlines()]
        Path(f"{name}.csv").write_text("".join(f"{row[0]},{row[2]}\n" for row in rows))
    result = run_command("train", *FILES)
    assert "Text: column 'text', the only one with words in it" in result.output
    assert us.Run.load("run").config["features"] == ["text"]


def test_without_test_rows_gold_says_how_good_it_is(folder):
    result = run_command("train", *FILES, "--text", "text")
    assert "Accuracy 100.0% (95% CI 88.3–100.0), cross-validated on 24 gold rows." in result.output
    assert "Training on gold alone: " in result.output and "<dt>Accuracy" in Path("run/report.html").read_text()
    result = run_command("train", *FILES[:-1], "tested", "--text", "text", "--test", "test.csv")
    assert "on 20 test rows." in result.output and "No significant effect of the pool" in result.output
