"""understudy import: answers in, labels out, the table in between; then a training with them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import understudy as us
from understudy import cli
from understudy.io.read import read_examples
from understudy.io.table import read_table
from understudy.io.write import write_table

ROWS = 40


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """features.parquet (numbered ids), gold.parquet, and answers to all rows but the last two."""
    monkeypatch.chdir(tmp_path)
    y = np.arange(ROWS) % 2
    x = (np.random.default_rng(0).normal(size=(ROWS, 3)) + 3 * y[:, None]).astype(np.float32)
    write_table("features.parquet", {"id": np.arange(ROWS), "x": x})
    write_table("gold.parquet", {"id": np.arange(10), "label": np.array(["neg", "pos"])[y[:10]]})
    with open("answers.jsonl", "w") as file:
        for i in range(ROWS - 2):
            file.write(
                json.dumps({"id": str(i), "answer": ["Neg.", "It is pos"][y[i]] if i else "banana\x1b[2J"}) + "\n"
            )
    with open("soft.jsonl", "w") as file:
        for i in range(ROWS - 2):
            name, other = ("pos", "neg") if y[i] else ("neg", "pos")
            top = [{"token": name, "logprob": -0.2}, {"token": other, "logprob": -2.0}]
            tokens = [{"token": name, "logprob": -0.2, "top_logprobs": top}]
            file.write(json.dumps({"id": str(i), "answer": name, "logprobs": tokens}) + "\n")
    return tmp_path


def call(line: str, code: int = 0) -> Any:
    result = CliRunner().invoke(cli.app, line.split())
    assert result.exit_code == code, result.output
    return result


def test_labels_by_id(folder: Path) -> None:
    shown = call("import answers.jsonl --classes neg,pos --out labels.parquet").stdout
    assert "37 labels (hard): labels.parquet" in shown and "\x1b" not in shown
    assert 'answers.jsonl:1: unknown answer: "banana\\x1b[2J"' in shown
    lines = [line.rsplit(maxsplit=1) for line in shown.split("not used, for")[0].strip().split("\n")]
    counts = {name.strip(): int(number) for name, number in lines}
    assert counts["used"] + counts["not used"] == counts["lines"] == 38
    labels = read_table("labels.parquet").columns
    assert labels["id"].tolist()[:3] == ["1", "2", "3"] and labels["teacher_label"].tolist()[:3] == [
        "pos",
        "neg",
        "pos",
    ]
    error = call("import answers.jsonl --classes neg,pos --out labels.parquet", code=2).stderr
    assert "already exists" in error


@pytest.mark.parametrize(
    ("file", "form", "column"),
    [
        ("answers.jsonl", "auto", "teacher_label"),
        ("soft.jsonl", "auto", "teacher_topk_index"),
        ("soft.jsonl", "hard", "teacher_confidence"),
    ],
)
def test_joined_with_the_pool_it_trains(folder: Path, file: str, form: str, column: str) -> None:
    shown = call(f"import {file} --classes neg,pos --form {form} --pool features.parquet --out pool.parquet").stdout
    assert f"of {ROWS} rows of features.parquet have a label" in shown
    assert column in read_table("pool.parquet").names
    examples = read_examples(gold="gold.parquet", pool="pool.parquet")
    assert examples.class_names == ("neg", "pos") and examples.pool is not None
    teacher = examples.pool.teacher
    assert teacher is not None
    expected = [i % 2 for i in range(10, ROWS - 2)] + [-1, -1]
    assert teacher.top1().tolist() == expected
    call("train --gold gold.parquet --pool pool.parquet --method vanilla --student linear --epochs 1 --quiet --out run")
    assert len(us.Run.load("run").history) == 1


def test_dense_labels_are_read_by_class_name(folder: Path) -> None:
    write_table("few.parquet", {name: column[:38] for name, column in read_table("features.parquet").columns.items()})
    call("import soft.jsonl --classes pos,neg --form probs --pool few.parquet --out pool.parquet")
    examples = read_examples(gold="gold.parquet", pool="pool.parquet")
    assert examples.pool is not None and isinstance(examples.pool.teacher, us.Soft)
    p = np.exp([-0.2, -2.0]) / np.exp([-0.2, -2.0]).sum()
    np.testing.assert_allclose(examples.pool.teacher.probs[:2], [p, p[::-1]], rtol=1e-6)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("none.jsonl --classes neg,pos", "cannot read none.jsonl"),
        ("answers.jsonl --classes neg", "two classes or more"),
        ("answers.jsonl --classes yes,no", "no answer could be used"),
        ("answers.jsonl --classes neg,pos --alias good", "WORD=CLASS"),
        ("answers.jsonl --classes neg,pos --alias good=fine", "not among the classes"),
        ("answers.jsonl --classes neg,pos --out labels.csv", ".parquet, .jsonl or .npz"),
        ("answers.jsonl --classes neg,pos --form soft", "unknown"),
        ("soft.jsonl --classes neg,pos --form probs --pool features.parquet", "topk"),
        ("answers.jsonl --classes neg,pos --pool other.parquet", "no id of the answers"),
        ("answers.jsonl --classes neg,pos --pool labelled.parquet", "holds labels already"),
        ("answers.jsonl --classes neg,pos --pool nameless.parquet", "no column 'id'"),
    ],
)
def test_mistakes_are_one_line(folder: Path, line: str, message: str) -> None:
    write_table("other.parquet", {"id": np.array(["x", "y"]), "x": np.zeros((2, 1))})
    write_table("labelled.parquet", {"id": np.arange(2), "teacher_label": np.arange(2)})
    write_table("nameless.parquet", {"x": np.zeros((2, 1))})
    error = call(f"import {line}", code=2).stderr
    assert message in error and error.count("\n") == 1
    assert not Path("labels.parquet").exists()


def test_aliases_and_fields(folder: Path) -> None:
    answers = ['{"reason": "x", "verdict": "not spam"}', '{"reason": "y", "verdict": "SPAM"}']
    with open("more.jsonl", "w") as file:
        file.writelines(json.dumps({"id": i, "answer": answer}) + "\n" for i, answer in enumerate(answers))
    command = ["import", "more.jsonl", "--classes", "spam,ham", "--alias", "not spam=ham", "--field", "verdict"]
    result = CliRunner().invoke(cli.app, command)
    assert result.exit_code == 0, result.output
    assert read_table("labels.parquet").columns["teacher_label"].tolist() == ["ham", "spam"]
