"""understudy select: a batch with reasons out, answers back in."""

import csv
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from typer.testing import CliRunner

import understudy as us
from understudy import active, cli
from understudy.acquisition.select import select
from understudy.acquisition.strategies import STRATEGIES
from understudy.active import score
from understudy.io.read import read_examples
from understudy.io.write import write_table

ROWS = 90


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """pool.parquet, gold.parquet (its first 30 rows) and a run trained on them."""
    tmp_path = tmp_path_factory.mktemp("made")
    rng = np.random.default_rng(0)
    y = np.arange(ROWS) % 3
    x = (rng.normal(size=(ROWS, 4)) + 3 * np.eye(3, 4)[y]).astype(np.float32)
    ids = np.array([f"row{i}" for i in range(ROWS)])
    write_table(tmp_path / "pool.parquet", {"id": ids, "x": x, "teacher_probs": 0.7 * np.eye(3)[y] + 0.1, "label": y})
    write_table(tmp_path / "gold.parquet", {"id": ids[:30], "label": y[:30]})
    examples = read_examples(gold=tmp_path / "gold.parquet", pool=tmp_path / "pool.parquet")
    us.train(
        lambda: us.models.mlp(4, 3, hidden=(8,)), examples.gold, examples.pool, us.vanilla(), epochs=3,
        out=tmp_path / "run", progress=False,
    )  # fmt: skip
    return tmp_path


@pytest.fixture
def folder(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it as the current folder."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def call(line: str, *more: str, code: int = 0) -> Any:
    result = CliRunner().invoke(cli.app, [*line.split(), *more])
    assert result.exit_code == code, result.output
    return result


def train(out: str, *more: str, code: int = 0) -> Any:
    fixed = "train --gold gold.parquet --pool pool.parquet --method vanilla --student mlp:8 --epochs 3 --quiet --out"
    return call(fixed, out, *more, code=code)


def lines(path: str) -> list[dict[str, str]]:
    return list(csv.DictReader(Path(path).read_text().splitlines()))


@pytest.mark.parametrize("strategy", [name for name in STRATEGIES if name not in ("s_badge", "lhd")])
def test_the_batch_is_that_of_us_select(folder: Path, strategy: str) -> None:
    call(f"select run pool.parquet --strategy {strategy} -n 7 --labelled gold.parquet --out batch.csv --seed 3")
    batch = lines("batch.csv")
    x = np.stack(pq.read_table("pool.parquet")["x"].to_pylist()).astype(np.float32)
    scores = score(us.Run.load("run").student, x)
    picks = select(strategy, 7, **scores.arrays(), labelled=torch.arange(30), seed=3)
    assert [line["id"] for line in batch] == [f"row{row}" for row in picks.tolist()]
    known = ["probability"] if strategy in ("random", "proportional") else []
    assert list(batch[0]) == ["id", "score", "why", "predicted", "confidence", "label", *known]
    assert all(line["why"] and line["label"] == "" for line in batch)
    for line, row in zip(batch, picks.tolist(), strict=True):
        assert int(line["predicted"]) == int(scores.probs[row].argmax())
        assert float(line["confidence"]) == pytest.approx(float(scores.probs[row].max()))


def test_answers_train_as_chosen_gold(folder: Path) -> None:
    result = call("select run pool.parquet -n 5 --labelled gold.parquet --out batch.csv")
    assert "of the batch comes from regions where labels look random" in result.output
    batch = lines("batch.csv")
    truth = {f"row{row}": row % 3 for row in range(ROWS)}
    answers = [("skip" if place == 2 else str(truth[line["id"]])) for place, line in enumerate(batch)]
    text = ["id,why,label", *(f"{line['id']},because,{label}" for line, label in zip(batch, answers, strict=True))]
    Path("batch.csv").write_text("\n".join(text))
    examples = read_examples(gold="gold.parquet", pool="pool.parquet", chosen=["batch.csv"])
    assert examples.gold is not None and examples.pool is not None
    assert len(examples.gold) == 34 and examples.gold.chosen.tolist() == [False] * 30 + [True] * 4
    assert len(examples.gold.calibration_rows()) == 30
    assert [truth[name] for name in examples.gold.ids[30:]] == examples.gold.y[30:].tolist()
    # A skipped row stays in the pool, with the teacher's word.
    assert len(examples.pool) == ROWS - 34 and batch[2]["id"] in examples.pool.ids
    train("second", "--gold", "+batch.csv")
    assert us.Run.load("second").facts["gold_rows"] == 34 and us.Run.load("second").facts["calibration_rows"] == 30
    further = call("select second pool.parquet -n 5 --labelled gold.parquet --labelled batch.csv --out next.csv")
    assert "5 rows to label" in further.output
    assert not {line["id"] for line in lines("next.csv")} & {line["id"] for line in batch}


def test_a_batch_of_a_run_has_none_of_its_gold_test_or_select_rows(folder: Path) -> None:
    rows = pq.read_table("pool.parquet", columns=["id", "label"])
    for name, start in (("test", 30), ("select", 40)):
        pq.write_table(rows.slice(start, 10), f"{name}.parquet")
    sets = ("--test", "test.parquet", "--select", "select.parquet")
    train("first", *sets)
    result = call("select first pool.parquet -n 40 --out batch.csv")
    assert "50 rows left out: they are gold, test or select rows of first" in result.output
    assert {line["id"] for line in lines("batch.csv")} == {f"row{row}" for row in range(50, ROWS)}
    Path("batch.csv").write_text("id,label\n" + "".join(f"{line['id']},1\n" for line in lines("batch.csv")[:20]))
    train("second", "--gold", "+batch.csv", *sets)
    result = call("select second pool.parquet -n 20 --labelled batch.csv --out next.csv")
    assert "50 rows left out" in result.output  # the batch is named by --labelled
    assert "n = 21, but 20 of 90" in call("select second pool.parquet -n 21 --out more.csv", code=2).output
    # A run made in Python knows its gold too; another pool's rows are not among them.
    assert "30 rows left out" in call("select run pool.parquet -n 60 --out python.csv").output
    write_table("other.parquet", {"id": np.arange(9), "x": np.zeros((9, 4), dtype=np.float32)})
    assert "left out" not in call("select run other.parquet -n 9 --out other.csv").output


def test_parquet_and_number_ids(folder: Path) -> None:
    table = pq.read_table("pool.parquet")
    x = np.stack(table["x"].to_pylist()).astype(np.float32)
    write_table("numbers.parquet", {"id": np.arange(ROWS) + 100, "x": x, "teacher_label": np.arange(ROWS) % 3})
    call("select run numbers.parquet -n 3 --out batch.parquet")
    batch = pq.read_table("batch.parquet").to_pydict()
    assert batch["label"] == [None] * 3 and min(batch["id"]) >= 100
    Path("a.csv").write_text("id,label,chosen\n105,2,0\n107,1.0,1\n")
    gold = read_examples(pool="numbers.parquet", chosen=["a.csv"]).gold
    assert gold is not None and gold.y.tolist() == [2, 1] and gold.chosen.tolist() == [False, True]
    assert gold.ids is not None and gold.ids.tolist() == [105, 107]


def test_a_loops_round_serves_s_badge(folder: Path) -> None:
    table = pq.read_table("pool.parquet")
    x, y = np.stack(table["x"].to_pylist()).astype(np.float32), np.arange(ROWS) % 3
    ids = table["id"].to_pylist()

    def loop(budget: int) -> active.Result:
        return active.Loop(
            lambda: us.models.mlp(4, 3, hidden=(8,)), x, y, "s_badge", out="loop", start=30, batch=5, budget=budget,
            epochs=3, ids=ids, progress=False,
        ).run()  # fmt: skip

    loop(30)
    call("select loop/round-000 pool.parquet --strategy s_badge -n 5 --labelled loop/labelled.csv --seed 1")
    expected = loop(35).rows[30:]
    assert [line["id"] for line in lines("batch.csv")] == [ids[row] for row in expected.tolist()]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("select run pool.parquet --strategy s_badge", "run has no ema.safetensors; use --strategy badge"),
        ("select run pool.parquet --strategy best", "unknown strategy 'best'"),
        ("select run pool.parquet --out batch.txt", "end the name in one of them"),
        ("select run pool.parquet --out gold.parquet", "already exists"),
        ("select run pool.parquet -n 91", "ask for 0 to 60"),
        ("select nothing pool.parquet", "is not a finished run"),
        ("select run pool.parquet --labelled none.csv", "none.csv is not there"),
        ("select run pool.parquet --labelled bad.csv", "has no column 'id'"),
    ],
)
def test_mistakes_are_one_line(folder: Path, line: str, message: str) -> None:
    Path("bad.csv").write_text("name,label\nrow1,2\n")
    result = call(line, code=2)
    assert message in result.stderr and len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("id,label\nrow40,\n", "column 'label' row 0 is empty"),
        ("id,label\nrow40,cat\n", "has label 'cat'"),
        ("id,label\nrow40,skip\n", "every row is skipped"),
        ("id,label\nrow999,1\n", "'row999' is not among the ids"),
        ("id,label\nrow3,1\n", "share 1 ids"),
        ("label\n1\n", "has no column 'id'"),
    ],
)
def test_bad_answers_are_one_line(folder: Path, content: str, message: str) -> None:
    Path("batch.csv").write_text(content)
    result = train("second", "--gold", "+batch.csv", code=2)
    assert message in result.stderr and len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("ids", [False, True])
def test_of_one_file_for_gold_and_pool_labelled_rows_are_left_out(
    ids: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    names = ["ham", "skip"]
    rows = [
        f"{f'r{i},' if ids else ''}{rng.normal() + 3 * (i % 2):.3f},{names[i % 2]},{names[i % 2] if i < 20 else ''}"
        for i in range(60)
    ]
    Path("one.csv").write_text("\n".join([f"{'id,' if ids else ''}a,teacher_label,checked", *rows]) + "\n")
    train = "train --pool one.csv --column label=checked --method vanilla --student linear --epochs 1 --quiet"
    call(f"{train} --gold one.csv --out run")
    known = {f"r{i}" if ids else str(i) for i in range(20)}
    asked = "id" if ids else "row"

    result = call("select run one.csv -n 40 --out new.csv")
    assert not known & {line[asked] for line in lines("new.csv")} and "'skip' is a class of this run" in result.stderr
    assert "20 rows left out: they are gold, test or select rows of run" in result.stdout
    # A label that was written since.
    Path("one.csv").write_text(Path("one.csv").read_text().removesuffix("skip,\n") + "skip,skip\n")
    result = call("select run one.csv -n 39 --out newer.csv")
    assert "1 rows left out: one.csv: column 'checked' has a label of them" in result.stdout
    assert not {"r59", "59"} & {line[asked] for line in lines("newer.csv")}
    assert call("select run one.csv -n 39 --labelled ./one.csv --out same.csv").exit_code == 0


def test_row_numbers_lead_answers_back_to_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without ids, too: as long as the rows are those that were selected."""
    monkeypatch.chdir(tmp_path)
    rows = [f"word{i % 2} other{i % 5} {i},{i % 2},{i % 2 if i < 30 else ''}" for i in range(60)]
    Path("one.csv").write_text("\n".join(["note,teacher_label,label", *rows]) + "\n")
    train = "train --gold one.csv --text note --encoder none --method vanilla --student linear --quiet --epochs 1"
    call(f"{train} --out run")
    call("select run one.csv -n 4 --out batch.csv")
    batch = lines("batch.csv")
    assert list(batch[0])[:2] == ["row", "note"] and all(line["note"].endswith(line["row"]) for line in batch)
    answers = "row,note,label\n" + "".join(f"{line['row']},{line['note']},1\n" for line in batch)
    Path("answers.csv").write_text(answers)
    call(f"{train} --gold +answers.csv --out second")
    assert len(us.load("second").run.held_ids) == 34
    Path("one.csv").write_text("\n".join(["note,teacher_label,label", *rows[1:]]) + "\n")
    error = call(f"{train} --gold +answers.csv --out third", code=2).stderr
    assert f"answers.csv line 2: column 'row' row 0: 'note' of row {batch[0]['row']} is another in one.csv" in error


def test_drawn_rows_reach_estimates_with_their_probability(folder: Path) -> None:
    """select, label by hand, estimate: the labels of rows drawn by uncertainty count by their probabilities."""
    call("select run pool.parquet --strategy proportional -n 40 --labelled gold.parquet --out batch.csv --seed 3")
    batch = lines("batch.csv")
    assert {float(line["probability"]) for line in batch} > {1.0} or min(
        float(b["probability"]) for b in batch
    ) >= 1 / 3
    answers = [f"{line['id']},{int(line['id'][3:]) % 3},{line['probability']}" for line in batch]
    Path("answers.csv").write_text("\n".join(["id,label,probability", *answers]) + "\n")
    examples = read_examples(gold="gold.parquet", pool="pool.parquet", chosen=["answers.csv"])
    assert examples.gold is not None and examples.gold.probability is not None
    assert examples.gold.chosen.tolist() == [False] * 30 + [True] * 40
    drawn = examples.gold.probability
    assert bool(drawn[:30].isnan().all()) and drawn[30:].tolist() == [float(line["probability"]) for line in batch]
    assert us.estimate(examples.gold, examples.pool)[0].value.rows == 70
    call("estimate --gold answers.csv --pool pool.parquet --out shares.json")
