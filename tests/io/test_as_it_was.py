"""Columns that are written again are what they were; and what a file cannot hold is said in one line."""

import datetime
import json
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from typer.testing import CliRunner

import understudy as us
from understudy import cli
from understudy.errors import UnderstudyError
from understudy.inference.passes import predict
from understudy.io.read import read_examples
from understudy.io.table import read_table
from understudy.io.write import write_table


@pytest.fixture
def answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("answers.jsonl").write_text('{"id": "1", "answer": "pos"}\n{"id": "2", "answer": "neg"}\n')
    return tmp_path


def join(pool: str, out: str, code: int = 0) -> str:
    line = f"import answers.jsonl --classes neg,pos --pool {pool} --out {out}"
    result = CliRunner().invoke(cli.app, line.split())
    assert result.exit_code == code, result.output
    return result.stderr


def test_parquet_columns_keep_their_types(answers: Path) -> None:
    day, moment = datetime.date(2024, 2, 29), datetime.datetime(2024, 2, 29, 12, 30, 1)
    columns = {
        "id": [1, 2], "day": [day, None], "at": [moment, moment], "count": pa.array([7, None], pa.int16()),
        "price": [Decimal("1.10"), None], "flag": [True, None], "tags": [["a"], []], "f": [1.5, float("nan")],
    }  # fmt: skip
    before = pa.table(columns)
    pq.write_table(before, "pool.parquet")
    join("pool.parquet", "out.parquet")
    after = pq.read_table("out.parquet")
    assert after.select(before.column_names).schema.types == before.schema.types
    assert str(after.select(before.column_names).to_pylist()) == str(before.to_pylist())
    join("pool.parquet", "out.jsonl")
    first, second = map(json.loads, Path("out.jsonl").read_text().splitlines())
    assert first["day"] == "2024-02-29" and first["at"] == "2024-02-29T12:30:01" and first["count"] == 7
    assert second["day"] is second["count"] is second["f"] is second["flag"] is None and second["tags"] == []
    assert "cannot hold bytes" in _bytes_as_json()


def _bytes_as_json() -> str:
    pq.write_table(pa.table({"id": [1, 2], "image": [b"a", b"b"]}), "bytes.parquet")
    return join("bytes.parquet", "bytes.jsonl", code=2)


def test_csv_columns_keep_their_letters(answers: Path) -> None:
    Path("pool.csv").write_text(
        "id,zip,long,day,n,f,t\n1,007,1234567890123456789,2024-02-29,3,1.5,true\n2,7,2,x,,2,false\n"
    )
    join("pool.csv", "out.parquet")
    written = pq.read_table("out.parquet")
    assert written["zip"].to_pylist() == ["007", "7"] and written["long"].to_pylist() == ["1234567890123456789", "2"]
    assert written["day"].to_pylist() == ["2024-02-29", "x"] and written["n"].to_pylist() == [3, None]
    assert written["f"].to_pylist() == [1.5, 2.0] and written["t"].to_pylist() == ["true", "false"]
    assert written["teacher_label"].to_pylist() == ["pos", "neg"]


def test_lines_keep_their_cells(answers: Path) -> None:
    lines = [{"id": 1, "n": 3, "made": {"a": 1}, "text": "2024-01-01"}, {"id": 2, "n": None, "text": "é"}]
    Path("pool.jsonl").write_text("\n".join(map(json.dumps, lines)))
    join("pool.jsonl", "out.jsonl")
    written = [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]
    assert [line["n"] for line in written] == [3, None] and written[0]["made"] == {"a": 1}
    assert [line["text"] for line in written] == ["2024-01-01", "é"]
    assert "none in a row; write .parquet" in _gaps_as_npz()


def _gaps_as_npz() -> str:
    pq.write_table(pa.table({"id": [1, 2], "word": ["a", None]}), "gaps.parquet")
    return join("gaps.parquet", "gaps.npz", code=2)


def test_ids_of_answers_that_differ_in_spelling(answers: Path) -> None:
    Path("pool.csv").write_text("id,f\n01,1\n02,2\n")
    assert "'1', where there is '01' (leading zeros; 2 such ids)" in join("pool.csv", "out.parquet", code=2)


def test_infinity_is_not_written_as_json(tmp_path: Path) -> None:
    with pytest.raises(UnderstudyError, match=r"column .f. holds infinity, which .jsonl cannot"):
        write_table(tmp_path / "t.jsonl", {"f": np.array([1.0, np.inf])})
    assert not list(tmp_path.iterdir())


def test_nan_is_refused_where_a_student_is_asked(tmp_path: Path) -> None:
    x = np.ones((6, 2), dtype=np.float32)
    x[4, 1] = np.nan
    np.save(tmp_path / "x.npy", x)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    with pytest.raises(UnderstudyError, match="answer to row 4 is NaN"):
        predict(us.models.linear(2, 2), mapped)


def test_nan_in_a_mapped_file_is_found_before_training(tmp_path: Path) -> None:
    rows = np.arange(12, dtype=np.float32).reshape(6, 2)
    bad = rows.copy()
    bad[5, 0] = np.nan
    for name, x in (("gold", rows), ("test", bad)):
        (tmp_path / name).mkdir()
        np.save(tmp_path / name / "x.npy", x)
        np.save(tmp_path / name / "label.npy", np.arange(6) % 2)
    with pytest.raises(UnderstudyError, match=r"test: column 'x' row 5 holds NaN or infinity"):
        read_examples(gold=tmp_path / "gold", test=tmp_path / "test")


def test_big_endian_arrays_are_taken(tmp_path: Path) -> None:
    x = np.arange(8).reshape(4, 2)
    np.savez(tmp_path / "g.npz", id=np.arange(4, dtype=">i8"), x=x.astype(">f4"), label=np.array([0, 1, 0, 1], ">i2"))
    gold = read_examples(gold=tmp_path / "g.npz").gold
    assert gold is not None and gold.y.tolist() == [0, 1, 0, 1] and gold.ids is not None
    assert gold.ids.tolist() == [0, 1, 2, 3] and gold.rows.take(torch.arange(4)).tolist() == x.tolist()
    assert us.Pool(x.astype(">f8"), np.array([0, 1, 0, 1], ">i4")).teacher.top1().tolist() == [0, 1, 0, 1]  # type: ignore


def test_whole_fractions_are_indices_of_classes(tmp_path: Path) -> None:
    columns = {"f": [1.0, 2.0], "teacher_topk_index": [[2.0, 0.0], [1.0, 2.0]], "teacher_topk_prob": [[0.7, 0.2]] * 2}
    pq.write_table(pa.table(columns), tmp_path / "p.parquet")
    teacher = read_examples(pool=tmp_path / "p.parquet").pool.teacher  # type: ignore[union-attr]
    assert teacher is not None and teacher.top1().tolist() == [2, 1]


def test_a_class_folder_that_is_a_link_is_named(tmp_path: Path) -> None:
    (tmp_path / "dogs").mkdir()
    (tmp_path / "animals" / "cat").mkdir(parents=True)
    (tmp_path / "animals" / "cat" / "1.png").write_bytes(b"")
    (tmp_path / "animals" / "dog").symlink_to(tmp_path / "dogs")
    with pytest.raises(UnderstudyError, match="folder 'dog' is a link, which is not followed; copy or remove it"):
        read_table(tmp_path / "animals")
