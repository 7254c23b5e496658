"""``understudy history``: the way of a label, from the question to the run it trained."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import understudy as us
from understudy import cli


def understudy(line: str, *, code: int = 0) -> Result:
    sys.argv[:] = ["understudy", *line.split()]
    result = CliRunner().invoke(cli.app, line.split())
    assert result.exit_code == code, result.output
    return result


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["understudy"])
    monkeypatch.setenv("UNDERSTUDY_USER", "anna")
    rng = np.random.default_rng(0)
    rows = [f"r{k},{rng.normal() + k % 2:.3f},{rng.normal():.3f},{k % 2}" for k in range(40)]
    Path("pool.csv").write_text("id,a,b,teacher_label\n" + "\n".join(rows) + "\n")
    Path("gold.csv").write_text("id,label\n" + "".join(f"r{k},{k % 2}\n" for k in range(20)))
    return tmp_path


def test_from_the_question_to_the_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train = "train --method vanilla --student linear --epochs 1 --quiet --pool pool.csv --gold gold.csv"
    understudy(f"{train} --out first")
    assert (
        "anna  gold  " in understudy("history first").stdout
        and "r3: 1  by " in understudy("history first --id r3").stdout
    )
    select = "select first pool.csv --strategy random -n 3 --labelled gold.csv --out batch.csv"
    understudy(select)
    said = understudy("history batch.csv").stdout
    assert "anna  selected  random on first, seed 0  3 rows" in said and select in said
    lines = [line.split(",") for line in Path("batch.csv").read_text().splitlines()]
    place = lines[0].index("label")
    filled = [",".join([*line[:place], line[place] or "1", *line[place + 1 :]]) for line in lines]
    Path("batch.csv").write_text("\n".join(filled) + "\n")
    monkeypatch.setenv("UNDERSTUDY_USER", "bert")
    understudy(f"{train} --gold +batch.csv --out second")
    asked, answered = understudy(f"history second --id {lines[1][0]}").stdout.splitlines()
    assert "anna  selected" in asked and "no label" in asked
    assert "bert  answered" in answered and f"{lines[1][0]}: 1  by understudy train" in answered
    assert "gold.csv" in understudy("history second --id r3").stdout
    assert "about r99; check the id" in understudy("history second --id r99", code=2).stderr
    understudy("verify second")
    path = Path("second/label_history.jsonl")
    path.write_text(path.read_text().replace("bert", "carl"))
    assert "label_history.jsonl" in understudy("verify second", code=2).stdout
    assert "label_history.jsonl" in understudy("predict second pool.csv --out p.csv", code=2).stderr


def test_imported_answers(folder: Path) -> None:
    Path("said.jsonl").write_text("".join(json.dumps({"id": f"r{k}", "answer": "neg"}) + "\n" for k in range(3)))
    understudy("import said.jsonl --classes neg,pos --out labels.parquet")
    assert "said.jsonl  r1: neg  by understudy import" in understudy("history labels.parquet --id r1").stdout
    assert "pool.csv has no label history" in understudy("history pool.csv", code=2).stderr


def test_a_label_store_tells_of_corrections(folder: Path) -> None:
    with us.LabelStore("labels", ["neg", "pos"], "hard") as store:
        store.append(["a", "b"], ["neg", "pos"], source="gpt")
        store.append(["a"], ["pos"], source="anna", replace=True)
        store.append(["b"], ["pos"], source="again")  # says nothing new
        us.label_missing(store, ["b", "c"], lambda ids: [-1] * len(ids))
        store.compact()
    lines = understudy("history labels --id a --id c").stdout.splitlines()
    assert [line.split("  ")[3:5] for line in lines[:2]] == [["gpt", "a: neg"], ["anna", "a: pos"]]
    assert "lambda" in lines[2] and "c: no label" in lines[2]
    understudy("verify labels")
    path = Path("labels/label_history.jsonl")
    whole = path.read_bytes()
    path.write_bytes(b"".join(whole.splitlines(keepends=True)[:-1]))
    assert "lacks its last lines" in understudy("history labels", code=2).stderr
    assert "lacks its last lines" in understudy("verify labels", code=2).stdout
    with pytest.raises(us.UnderstudyError, match="lacks its last lines"):
        us.LabelStore("labels").append(["d"], [0])
    assert len(us.LabelStore("labels")) == 3  # reading needs no history


def test_a_loop_tells_of_every_round(folder: Path) -> None:
    x = np.random.default_rng(0).normal(size=(30, 2)).astype(np.float32)
    y = (x[:, 0] > 0).astype(np.int64)
    us.active.Loop(
        lambda: us.models.linear(2, 2), x, lambda rows: y[rows], "entropy", out="loop", start=10, batch=5, budget=15,
        ids=[f"r{k}" for k in range(30)], epochs=1, progress=False,
    ).run()  # fmt: skip
    lines = understudy("history loop").stdout.splitlines()
    assert ["10 rows" in lines[0], "5 rows" in lines[1], len(lines)] == [True, True, 2]
    entries = [json.loads(line) for line in Path("loop/label_history.jsonl").read_text().splitlines()]
    assert [entry["round"] for entry in entries] == [0, 1]
    assert {name: label for entry in entries for name, label in entry["answers"].items()} == {
        f"r{row}": int(y[row]) for row in json.loads(Path("loop/state.json").read_text())["rows"]
    }
