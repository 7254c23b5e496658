"""The same kinds of bad input through the command line: exit code 2, one line of error, nothing written."""

import csv
import json
import random
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from typer.testing import CliRunner

from fuzz.content import spoil
from fuzz.damage import damaged
from fuzz.good import SUFFIXES, Sample, good_sample, must_refuse, write_cells
from fuzz.harness import check_message
from fuzz.runs import finished, spoiled_run
from understudy import cli
from understudy.errors import UnderstudyError


def call(*words: Any) -> None:
    """The command, in this process; an error it told the user is raised again for the harness to count."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = CliRunner().invoke(cli.app, [str(word) for word in words])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    lines = result.stderr.splitlines()
    errors = [line for line in lines if line.startswith("error: ")]
    strange = [line for line in lines if not line.startswith(("error: ", "warning: "))]
    assert not strange, f"on stderr: {strange[:3]}"
    if result.exit_code == 0:
        assert not errors
        return
    assert result.exit_code == 2, f"exit code {result.exit_code}"
    assert len(errors) == 1, f"{len(errors)} lines of error: {errors[:3]}"
    check_message(errors[0])
    raise UnderstudyError(errors[0])


def _bad_file(draw: random.Random, sample: Sample, path: Path) -> str | None:
    """Writes it, and says why it must be refused as a pool, if it must."""
    cells = spoil(sample.cells, draw) if draw.random() < 0.7 else sample.cells
    write_cells(path, cells)
    if cells is sample.cells:
        path.write_bytes(damaged(path.read_bytes(), draw))
        return None
    return must_refuse(cells, as_gold=False, flat=path.suffix == ".csv")


def train(draw: random.Random, given: Path, made: Path) -> None:
    suffix = draw.choice(SUFFIXES)
    sample, path = good_sample(draw, suffix), given / f"pool{suffix}"
    reason = _bad_file(draw, sample, path)
    more = ["--text", "text"] if sample.features.text else []
    more += ["--classes", ",".join(sample.classes)] if sample.classes else []
    if draw.random() < 0.3:
        more += draw.choice(
            [
                ["--column", "id=nothing"],
                ["--classes", "0"],
                ["--text", "nothing"],
                ["--lr", "nan"],
                ["--student", "tree"],
            ]
        )
    fixed = ["--method", "vanilla", "--student", "linear", "--epochs", "1", "--quiet", "--out", made / "run"]
    call("train", "--pool", path, *fixed, *more)
    assert reason is None, f"accepted: {reason}"
    assert (made / "run" / "report.html").stat().st_size > 1_000
    assert sorted(path.name for path in made.iterdir()) == ["run"]


def predict(draw: random.Random, given: Path, made: Path) -> None:
    """A sound run and a bad file, or the other way round."""
    out = made / f"said{draw.choice(SUFFIXES)}"
    if draw.random() < 0.4:
        folder, home, _ = spoiled_run(draw, given)
        call("predict", folder, home / "rows.jsonl", "--out", out)
        ids = [f"r{row}" for row in range(12)]
    else:
        home = finished(draw.choice(["numbers", "text"]))
        cells = {name: list(column) for name, column in _cells(home / "rows.jsonl").items()}
        ids = cells["id"]
        path = given / f"rows{draw.choice(SUFFIXES)}"
        if draw.random() < 0.7:
            cells = spoil(cells, draw)
            ids = cells.get("id", [])
            write_cells(path, cells)
        else:
            write_cells(path, cells)
            path.write_bytes(damaged(path.read_bytes(), draw))
            ids = []
        call("predict", home / "run", path, "--out", out)
    assert [path.name for path in made.iterdir()] == [out.name], "something beside the predictions"
    _check_predictions(out, ids)


def _cells(path: Path) -> dict[str, list[Any]]:
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return {name: [row[name] for row in rows] for name in rows[0]}


def _check_predictions(path: Path, ids: list[Any]) -> None:
    """By readers that are not the library's."""
    if path.suffix == ".jsonl":
        rows = [json.loads(line) for line in path.read_text().splitlines()]
    elif path.suffix == ".parquet":
        rows = pq.read_table(path).to_pylist()
    elif path.suffix == ".csv":
        with path.open(newline="") as file:
            rows = list(csv.DictReader(file))
    else:
        with np.load(path) as archive:
            rows = [{"confidence": float(value)} for value in archive["confidence"]]
    assert rows and all(0 < float(row["confidence"]) <= 1 + 1e-6 for row in rows)
    if path.suffix in (".jsonl", ".parquet"):
        for row in rows:
            said = row["probabilities"]
            assert abs(sum(said.values() if isinstance(said, dict) else said) - 1) < 1e-4
        if ids and all(isinstance(cell, str) and cell.isalnum() for cell in ids):
            assert [str(row["id"]) for row in rows] == ids


def select(draw: random.Random, given: Path, made: Path) -> None:
    out = made / f"batch{draw.choice(['.csv', '.parquet'])}"
    home = finished(draw.choice(["numbers", "text"]))
    folder, rows = home / "run", home / "rows.jsonl"
    answered = given / f"answers{draw.choice(SUFFIXES)}"
    cells = {"id": ["r1", "r3", "r4"], "label": ["1", "0", "skip"]}
    write_cells(answered, cells)
    what = draw.choice(["run", "rows", "answers", "answers", "arguments"])
    more: list[Any] = []
    if what == "run":
        folder, home, _ = spoiled_run(draw, given)
        rows = home / "rows.jsonl"
    elif what == "rows":
        rows = given / f"rows{draw.choice(SUFFIXES)}"
        write_cells(rows, spoil(_cells(home / "rows.jsonl"), draw))
    elif what == "answers":
        write_cells(answered, spoil(cells, draw))
        if draw.random() < 0.4:
            answered.write_bytes(damaged(answered.read_bytes(), draw))
        more = ["--labelled", answered]
    else:
        more = draw.choice(
            [["-n", "0"], ["-n", "1000"], ["--strategy", "s_badge"], ["--strategy", "x"], ["--column", "a"]]
        )
    strategy = draw.choice(["random", "margin", "entropy", "badge"])
    call("select", folder, rows, "--out", out, "-n", 3, "--strategy", strategy, *more)
    assert {path.name for path in made.iterdir()} == {out.name, f"{out.name}.history"}


def answers(draw: random.Random, given: Path, made: Path) -> None:
    """``--gold +FILE``: a batch that people filled in."""
    sample = good_sample(draw, ".jsonl")
    write_cells(given / "pool.jsonl", sample.cells)
    path = given / f"batch{draw.choice(SUFFIXES)}"
    cells = {"id": sample.cells["id"][:4], "label": sample.cells["label"][:4], "chosen": [1, 1, 0, 1]}
    write_cells(path, spoil(cells, draw))
    if draw.random() < 0.3:
        path.write_bytes(damaged(path.read_bytes(), draw))
    more = ["--text", "text"] if sample.features.text else []
    more += ["--classes", ",".join(sample.classes)] if sample.classes else []
    fixed = ["--method", "vanilla", "--student", "linear", "--epochs", "1", "--quiet", "--out", made / "run"]
    call("train", "--pool", given / "pool.jsonl", "--gold", f"+{path}", *fixed, *more)
    assert sorted(path.name for path in made.iterdir()) == ["run"]
