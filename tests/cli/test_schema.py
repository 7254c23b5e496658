"""What training found in the columns is required of every later file: right, or refused in one line."""

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from understudy import cli
from understudy.store.checked_folder import listed_files, read_checked, write_checked

FIXED = "--method vanilla --student linear --optimizer lbfgs --weight-decay 0 --epochs 2 --quiet --out run"
ZIPS = ["01", "02", "a1", "1"]


def call(line: str, code: int = 0) -> Any:
    result = CliRunner().invoke(cli.app, line.split())
    assert result.exit_code == code, result.output
    return result


def write(name: str, *lines: str) -> None:
    Path(name).write_text("\n".join(lines) + "\n")


@pytest.fixture
def trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run whose class follows from ``zip``: 7 from 01 and a1, 007 from 02 and 1; ids 100 … 139."""
    monkeypatch.chdir(tmp_path)
    rows = [(f"{100 + row}", ZIPS[row % 4], f"{row / 40}", ("7", "007")[row % 2]) for row in range(40)]
    write("pool.csv", "id,zip,f,teacher_label", *(",".join(row) for row in rows))
    write("gold.csv", "id,label", *(f"{row[0]},{row[3]}" for row in rows[:12]))
    assert "'007' and '7' are two classes" in call(f"train --gold gold.csv --pool pool.csv {FIXED}").stderr
    return tmp_path


def predictions(path: str) -> list[str]:
    with Path(path).open(newline="") as file:
        return [line["label"] for line in csv.DictReader(file)]


def test_digits_are_text_where_training_had_text(trained: Path) -> None:
    assert json.loads(Path("run/features.json").read_text())["types"] == {"zip": "texts", "f": "numbers"}
    write("new.csv", "f,zip,label", "0.5,01,7", "0.5,02,007", "0.5,1,007")
    shown = call("predict run new.csv --out p.csv")
    assert predictions("p.csv") == ["7", "007", "007"] and "accuracy 100.0%" in shown.stdout and not shown.stderr
    pq.write_table(pa.table({"f": [0.5], "zip": [1]}), "typed.parquet")
    error = call("predict run typed.parquet --out q.csv", code=2).stderr
    assert "column 'zip' holds whole numbers; it must hold one text per row" in error
    write("words.csv", "f,zip", "0.5,01", "half,01")
    error = call("predict run words.csv --out q.csv", code=2).stderr
    assert "column 'f' row 1 is 'half', where training or the other file has numbers" in error


def test_labels_that_are_none_of_the_classes(trained: Path) -> None:
    pq.write_table(pa.table({"f": [0.5, 0.5], "zip": ["01", "02"], "label": [0, 1]}), "numbers.parquet")
    error = call("predict run numbers.parquet --out p.csv", code=2).stderr
    assert "column 'label' row 0 is 0, which is not one of the classes (007, 7)" in error
    write("other.csv", "f,zip,label", "0.5,01,bird")
    shown = call("predict run other.csv --out p.csv")
    assert "warning: no accuracy: other.csv line 2: column 'label' row 0 is 'bird'" in shown.stderr and predictions(
        "p.csv"
    ) == ["7"]


def test_ids_of_labelled_rows_are_matched_or_reported(trained: Path) -> None:
    write("labelled.csv", "id,label", *(f"{name},7" for name in range(100, 132)))
    call("select run pool.csv -n 8 --labelled labelled.csv --out batch.csv")
    with Path("batch.csv").open(newline="") as file:
        assert {line["id"] for line in csv.DictReader(file)} == {str(name) for name in range(132, 140)}
    write("frame.csv", "id,label", *(f"{name}.0,7" for name in range(100, 132)))
    error = call("select run pool.csv -n 8 --labelled frame.csv --out again.csv", code=2).stderr
    assert "'100.0', where there is '100' (data frames with gaps write whole numbers so; 32 such ids)" in error
    write("elsewhere.csv", "id,label", "100,7", "g1,7")
    shown = call("select run pool.csv -n 8 --labelled elsewhere.csv --out again.csv").stderr
    assert "1 of 2 ids of elsewhere.csv are not in pool.csv ('g1' …)" in shown


@pytest.mark.parametrize(("names", "message"), [(["a"], "names 1 of 2 classes"), ("ab", "is no list of names")])
def test_edited_class_names(names: Any, message: str, trained: Path) -> None:
    """Even where the checksums fit."""
    config = Path("run/config.json")
    files = {name: (Path("run") / name).read_bytes() for name in listed_files(config)}
    write_checked(config, read_checked(config) | {"class_names": names}, files)
    write("new.csv", "f,zip", "0.5,01")
    assert message in call("predict run new.csv --out p.csv", code=2).stderr


def test_a_label_that_would_make_a_million_classes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    topk = {"teacher_topk_index": [[0, 1], [1, 0]] * 4, "teacher_topk_prob": [[0.7, 0.2]] * 8}
    pq.write_table(pa.table({"f": [float(row) for row in range(8)], **topk}), "pool.parquet")
    write("gold.csv", "f,label", "0.5,0", "1.5,900000")
    error = call(f"train --gold gold.csv --pool pool.parquet {FIXED}", code=2).stderr
    assert "the largest label makes 900,001 classes; correct it, or confirm the number: --classes 900001" in error


def test_types_as_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write("pool.csv", "code,f,teacher_label", *(f"{('1', '01')[row % 2]},{row},{row % 2}" for row in range(12)))
    call(f"train --pool pool.csv --types code=text {FIXED}")
    assert json.loads(Path("run/features.json").read_text())["types"]["code"] == "declared texts"
    write("new.csv", "code,f", "01,3", "1,3")
    call("predict run new.csv --out p.csv")
    assert predictions("p.csv") == ["1", "0"]
    error = call(f"train --pool pool.csv --types code=words {FIXED}x", code=2).stderr
    assert "type 'words' of column 'code' is unknown; use one of text, number, date" in error
