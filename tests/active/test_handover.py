"""Batch files for a person: written once, read when filled in, mistakes named."""

import csv
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

import understudy as us
from understudy import active

from .conftest import blobs

MakeLoop = Callable[..., active.Loop]


def fill(path: Path, answer: Callable[[dict[str, str]], str], order: int = 1) -> None:
    with path.open() as file:
        lines = list(csv.DictReader(file))
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, lines[0].keys())
        writer.writeheader()
        writer.writerows([{**line, "label": answer(line)} for line in lines][::order])


def test_a_person_answers_in_files(make_loop: MakeLoop, tmp_path: Path) -> None:
    """Waiting, half answered, answered in another order, with a skip: in the end the same as answering at once."""
    y = blobs(300)[1]
    questions = tmp_path / "questions"
    ids = [f"r{row}" for row in range(300)]

    def run() -> active.Result:
        return make_loop(oracle=questions, ids=ids, budget=30).run()

    waiting = run()
    assert waiting.stopped == "waiting" and "waits for 20 of 20 answers" in waiting.message
    assert str(questions / "round-000.csv") in waiting.message
    first = questions / "round-000.csv"
    fill(first, lambda line: str(int(y[int(line["row"])])) if int(line["row"]) % 2 else "")
    assert "of 20 answers" in run().message and "20 of 20" not in run().message
    unknown = smallest_row(first)
    fill(first, lambda line: "skip" if line["row"] == unknown else str(int(y[int(line["row"])])), order=-1)
    second = run()
    assert second.stopped == "waiting" and second.records[0]["skipped"] == 1
    assert second.run is not None
    shown = list(csv.DictReader((questions / "round-001.csv").read_text().splitlines()))
    assert all(line["id"] == f"r{line['row']}" and "features" in line["why"] for line in shown)
    fill(questions / "round-001.csv", lambda line: str(int(y[int(line["row"])])))
    done = run()
    assert done.stopped == "budget" and len(done.rows) == 30 and int((done.labels < 0).sum()) == 1

    skipped = int(done.rows[done.labels < 0])
    answers = torch.where(torch.arange(300) == skipped, -1, y)
    at_once = make_loop(oracle=answers, ids=ids, budget=30, out=tmp_path / "at_once").run()
    assert torch.equal(at_once.rows, done.rows) and torch.equal(at_once.labels, done.labels)
    assert at_once.records[-1]["test"] == done.records[-1]["test"]
    listed = (tmp_path / "loop" / "labelled.csv").read_text().splitlines()
    assert listed[0] == "id,row,label,round,chosen" and len(listed) == 30


def smallest_row(path: Path) -> str:
    with path.open() as file:
        return min((line["row"] for line in csv.DictReader(file)), key=int)


def test_parquet_files_too(make_loop: MakeLoop, tmp_path: Path) -> None:
    import pyarrow as pa

    path = tmp_path / "ask.parquet"
    make_loop(oracle=path, budget=20).run()
    table = pq.read_table(tmp_path / "ask-000.parquet").to_pydict()
    y = blobs(300)[1]
    table["label"] = [int(y[row]) for row in table["row"]]
    pq.write_table(pa.table(table), tmp_path / "ask-000.parquet")
    result = make_loop(oracle=path, budget=20).run()
    assert result.stopped == "budget" and torch.equal(result.labels, y[result.rows])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace("\n", "\n9999,1\n", 1), "row 9999 is not part of the batch"),
        (lambda text: "\n".join(text.splitlines()[:-1]) + "\n", "is missing from the batch; answer its rows"),
        (lambda text: text.replace("row,", "number,"), "has no column 'row'"),
        (lambda text: "", "Empty CSV file"),
        (lambda text: text.replace("\n", ",x\n", 2).replace(",x\n", "\n", 1), "Expected 2 columns, got 3"),
        (lambda text: text.replace(",\n", ",7\n"), "is '7'; write a class number from 0 to 3"),
        (lambda text: text.replace(",\n", ",cat\n"), "'cat'"),
    ],
)
def test_mistakes_in_the_answers(
    make_loop: MakeLoop, tmp_path: Path, change: Callable[[str], str], message: str
) -> None:
    path = tmp_path / "ask-000.csv"
    make_loop(oracle=tmp_path / "ask.csv").run()
    path.write_text(change(path.read_text()))
    with pytest.raises(us.UnderstudyError, match=message):
        make_loop(oracle=tmp_path / "ask.csv").run()


def test_a_folder_with_another_ending_is_an_error(make_loop: MakeLoop) -> None:
    with pytest.raises(us.UnderstudyError, match=r"ending in \.csv or \.parquet"):
        make_loop(oracle="answers.xlsx")


def test_numpy_labels_with_gaps(make_loop: MakeLoop) -> None:
    y = blobs(300)[1].numpy().astype(np.float64)
    y[::2] = np.nan
    result = make_loop(oracle=y).run()
    assert torch.equal(result.labels < 0, result.rows % 2 == 0)
