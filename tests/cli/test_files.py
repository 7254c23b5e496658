"""Raw files through the commands: texts, numbers, images and class names in, names out again."""

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from typer.testing import CliRunner

import understudy as us
from understudy import cli
from understudy.cli.shared import typed_fields
from understudy.features.featuriser import Featuriser
from understudy.io.table import read_table
from understudy.io.write import write_table
from understudy.store.checked_folder import read_checked, write_checked
from understudy.training.job import TrainRequest, run_training
from understudy.training.options import TrainingOptions

WORDS = {"neg": ["bad", "dull", "awful"], "pos": ["good", "fine", "great"]}


def call(line: str, *more: str, code: int = 0) -> Any:
    result = CliRunner().invoke(cli.app, [*line.split(), *more])
    assert result.exit_code == code, result.output
    return result


def review(row: int) -> tuple[str, str]:
    label = ("neg", "pos")[row % 2]
    return " ".join(WORDS[label][(row // 2 + step) % 3] for step in (0, 1)) + f" film {row % 5}", label


@pytest.fixture
def reviews(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """pool.jsonl (60 rows, the LLM wrong on every tenth and silent on one), gold.csv (24 of them), test.csv."""
    monkeypatch.chdir(tmp_path)
    other = {"neg": "pos", "pos": "neg"}
    rows = []
    for row in range(60):
        text, label = review(row)
        rows.append(
            {"key": f"r{row:03}", "review": text, "llm": None if row == 59 else label if row % 10 else other[label]}
        )
    Path("pool.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with Path("gold.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("key", "label"), *((f"r{row:03}", review(row)[1]) for row in range(24))])
    with Path("test.csv").open("w", newline="") as file:
        lines = [(f"t{row}", *review(row + 1)) for row in range(20)]
        csv.writer(file).writerows([("key", "review", "label"), *lines])
    return tmp_path


TRAIN = (
    "train --pool pool.jsonl --test test.csv --text review --column id=key --column teacher_label=llm --method slam "
    "--student linear --epochs 20 --lr 0.05 --quiet"
)


@pytest.mark.filterwarnings("ignore::understudy.UnderstudyWarning")
def test_names_go_all_the_way_round(reviews: Path) -> None:
    """train → predict → select → answers → train: ids and class names come back as they were."""
    shown = call(f"{TRAIN} --gold gold.csv --out run").stdout
    assert "test accuracy 100.0%" in shown
    config = json.loads(Path("run/config.json").read_text())
    assert config["class_names"] == ["neg", "pos"] and config["columns"] == {"id": "key", "teacher_label": "llm"}
    assert us.Run.load("run").facts["pool_rows_without_label"] == 1

    # Thirty texts in all, so that a text does not tell which row it is.
    marked = "(20 rows; 20 of them equal rows that trained the student: too high if they are the same rows)"
    shown = call("predict run test.csv --out p.csv").stdout
    assert f"accuracy 100.0% against the file's label column {marked}" in shown
    predictions = list(csv.DictReader(Path("p.csv").read_text().splitlines()))
    assert [line["id"] for line in predictions] == [f"t{row}" for row in range(20)]
    assert [line["label"] for line in predictions] == [review(row + 1)[1] for row in range(20)]
    for line in predictions:
        assert float(line["confidence"]) == float(line[f"probabilities_{line['label']}"])

    missing = call("predict run test.csv --column id=nokey", code=2).stderr
    assert missing.startswith("error: test.csv has no column 'nokey' (to serve as 'id'); did you mean 'key'?")

    call("select run pool.jsonl -n 4 --labelled gold.csv --out batch.csv")
    batch = list(csv.DictReader(Path("batch.csv").read_text().splitlines()))
    assert all(line["predicted"] in WORDS and int(line["id"][1:]) >= 24 for line in batch)
    truth = [review(int(line["id"][1:]))[1] for line in batch]
    answers = [(line["id"], label) for line, label in zip(batch, [*truth[:3], "skip"], strict=True)]
    Path("batch.csv").write_text("\n".join(["id,label", *(",".join(pair) for pair in answers)]))
    call(f"{TRAIN} --gold gold.csv --gold +batch.csv --out second")
    assert us.Run.load("second").facts["gold_rows"] == 27
    further = call("select second pool.jsonl -n 4 --labelled gold.csv --labelled batch.csv --out next.csv")
    assert "4 rows to label" in further.stdout
    picked = {line["id"] for line in csv.DictReader(Path("next.csv").read_text().splitlines())}
    assert not picked & {name for name, _ in answers}


@pytest.mark.filterwarnings("ignore::understudy.UnderstudyWarning")
def test_predictions_in_every_kind_of_file(reviews: Path) -> None:
    call(f"{TRAIN} --gold gold.csv --out run --epochs 2".replace("--epochs 20 ", ""))
    run, featuriser = us.Run.load("run"), Featuriser.load("run")
    raw = {"review": np.array([review(row + 1)[0] for row in range(20)], dtype=object)}
    expected = run.predict(featuriser(raw, where="here")).numpy()
    for suffix in (".parquet", ".csv", ".jsonl", ".npz"):
        call(f"predict run test.csv --out predictions{suffix}")
        predictions = read_table(f"predictions{suffix}").columns
        assert predictions["id"].tolist() == [f"t{row}" for row in range(20)]
        assert predictions["label"].tolist() == [("neg", "pos")[place] for place in expected.argmax(1)]
        for place, name in enumerate(("neg", "pos")):
            found = predictions[f"probabilities_{name}"] if suffix == ".csv" else predictions["probabilities"][name]
            np.testing.assert_allclose(found, expected[:, place], rtol=1e-6)
        before = Path(f"predictions{suffix}").read_bytes()
        assert "already exists" in call(f"predict run test.csv --out predictions{suffix}", code=2).stderr
        assert Path(f"predictions{suffix}").read_bytes() == before


def test_categories_numbers_and_gaps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [f"{row},{['red', 'blue'][row % 2]},{'' if row == 5 else row * 10},{row % 2}" for row in range(20)]
    Path("pool.csv").write_text("\n".join(["id,colour,size,teacher_label", *lines]))
    fixed = "train --pool pool.csv --method vanilla --student linear --epochs 2 --quiet --out run"
    error = call(f"{fixed} --missing error", code=2).stderr
    assert "pool.csv line 7: column 'size' row 5 holds no number" in error and not Path("run").exists()
    assert "empty cells become the training median ('size' 100)" in call(fixed).stdout
    assert Featuriser.load("run").names == ("size", "colour")
    call("predict run pool.csv --out predictions.parquet")
    call("train --pool pool.csv --method vanilla --student linear --epochs 1 --quiet --out other --use colour")
    assert Featuriser.load("other").names == ("colour",)


def test_images_by_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image = pytest.importorskip("PIL.Image")
    monkeypatch.chdir(tmp_path)
    for row in range(12):
        for name, shade in (("dark", 20), ("light", 230)):
            Path(f"gold/{name}").mkdir(parents=True, exist_ok=True)
            image.new("L", (6, 6), shade + row).save(f"gold/{name}/{row}.png")
    Path("new").mkdir()
    image.new("L", (6, 6), 10).save("new/a.png")
    image.new("L", (6, 6), 250).save("new/b.png")
    call("train --gold gold --image image --method vanilla --student linear --epochs 40 --lr 0.05 --quiet --out run")
    call("predict run new --out predictions.jsonl")
    predictions = [json.loads(line) for line in Path("predictions.jsonl").read_text().splitlines()]
    assert [(row["id"], row["label"]) for row in predictions] == [("a.png", "dark"), ("b.png", "light")]
    assert set(predictions[0]["probabilities"]) == {"dark", "light"}


@pytest.fixture
def blobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    x = (rng.normal(size=(60, 4)) + 3 * np.eye(3, 4)[y]).astype(np.float32)
    columns = {"id": np.arange(60), "x": x, "teacher_label": y, "label": y}
    write_table("all.npz", columns)
    write_table("gold.npz", {"id": np.arange(30), "label": y[:30]})
    write_table("select.npz", {"x": x[30:], "label": y[30:]})
    return tmp_path


def test_ema_serves_s_badge(blobs: Path) -> None:
    fixed = "train --gold gold.npz --pool all.npz --method vanilla --student mlp:8 --epochs 3 --quiet"
    call(f"{fixed} --ema --out run")
    call("select run all.npz --strategy s_badge -n 3 --labelled gold.npz")
    call(f"{fixed} --out plain")
    # Keeping an average changes nothing of the training itself.
    for name, value in us.Run.load("plain").student.state_dict().items():
        torch.testing.assert_close(value, us.Run.load("run").student.state_dict()[name], rtol=0, atol=0)


def test_patience_and_finetuning(blobs: Path) -> None:
    shown = call(
        "train --gold gold.npz --pool all.npz --test select.npz --method vanilla --student linear --epochs 60 --lr 0.1 "
        "--patience 2 --select select.npz --finetune 1 --quiet --out run",
        code=0,
    ).stdout
    run = us.Run.load("run")
    assert len(run.history) < 60 and run.config["patience"] == 2 and run.config["finetune_epochs"] == 1
    assert "after fine-tuning" in shown


def test_the_request_is_kept_and_can_be_replayed(blobs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line = "train --gold gold.npz --pool all.npz --method slam --option lower_bound=0.6 --student linear --epochs 2"
    call(f"{line} --classes a,b,c --lr 0.02 --quiet --out run")
    request = TrainRequest.load(Path("run"))
    assert request.files == {"pool": str(blobs / "all.npz")} and request.gold == [str(blobs / "gold.npz")]
    assert request.data.classes == ["a", "b", "c"] and request.method_options == ["lower_bound=0.6"]
    assert request.training["lr"] == 0.02 and request.training["pretrain_epochs"] == 0
    (blobs / "elsewhere").mkdir()
    monkeypatch.chdir(blobs / "elsewhere")
    run_training(replace(request, out=Path("again")), lambda job: None, progress=False)
    for name, value in us.Run.load("again").student.state_dict().items():
        torch.testing.assert_close(value, us.Run.load(blobs / "run").student.state_dict()[name], rtol=0, atol=0)


def test_a_request_has_every_option_and_no_other(blobs: Path) -> None:
    call("train --gold gold.npz --pool all.npz --method vanilla --student linear --epochs 1 --quiet --out run")
    path = Path("run/request.json")
    stored = read_checked(path)
    assert set(stored["training"]) == {each.name for each in typed_fields(TrainingOptions).values()}
    assert {"columns", "use"} <= set(stored["data"])
    for changed, reason in (
        ({**stored, "later": 1}, "unexpected keyword argument 'later'"),
        ({name: value for name, value in stored.items() if name != "student"}, "missing 1 .* 'student'"),
        ({**stored, "format": 2}, "is of format 2, this version reads 1"),
    ):
        write_checked(path, changed)
        with pytest.raises(us.UnderstudyError, match=reason):
            TrainRequest.load(Path("run"))
    path.write_text(json.dumps({**stored, "format": 1}))
    with pytest.raises(us.UnderstudyError, match="has no checksum"):
        TrainRequest.load(Path("run"))


def test_runs_without_stored_features_still_predict(blobs: Path) -> None:
    call("train --gold gold.npz --pool all.npz --method vanilla --student linear --epochs 1 --quiet --out run")
    call("predict run all.npz --out new.npz")
    for path in Path("run").glob("features.*"):
        path.unlink()
    assert "features.json cannot be read" in call("predict run all.npz --out old.npz", code=2).stderr
    config = json.loads(Path("run/config.json").read_text())
    files = {name: Path("run", name).read_bytes() for name in config["sha256"] if not name.startswith("features.")}
    content = {name: value for name, value in config.items() if name not in ("sha256", "manifest_sha256")}
    write_checked(Path("run/config.json"), content, files)
    call("predict run all.npz --out old.npz")
    np.testing.assert_array_equal(
        read_table("new.npz").columns["probabilities"], read_table("old.npz").columns["probabilities"]
    )


def test_a_pool_of_shards(blobs: Path) -> None:
    table = read_table("all.npz").columns
    Path("shards").mkdir()
    for number, start in enumerate(range(0, 60, 20)):
        part = {name: table[name][start : start + 20] for name in ("id", "x", "teacher_label")}
        write_table(f"shards/{number}.parquet", part)
    fixed = "train --gold gold.npz --method vanilla --student linear --epochs 2 --quiet"
    call(f"{fixed} --pool shards --out a")
    call(f"{fixed} --pool all.npz --out b")
    for name, value in us.Run.load("a").student.state_dict().items():
        torch.testing.assert_close(value, us.Run.load("b").student.state_dict()[name], rtol=0, atol=0)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("--column label", "--column 'label' is not like NAME=THEIRS"),
        ("--column label=a --column label=b", "--column names 'label' twice"),
        ("--column label=truth", "no column 'truth' (to serve as 'label')"),
        ("--column label=x --column id=x", "column 'x' is given two names"),
        ("--classes one", "write how many there are (2 or more), or their names"),
        ("--classes 1", "write how many there are (2 or more), or their names"),
        ("--text review", "all.npz has no column 'review'"),
        ("--image a --text b", "not from both"),
        ("--votes mean", "majority, dawid_skene, gold"),
        ("--patience 2", "patience stops on the select rows"),
        ("--missing zero", "missing is 'zero'; choose one of median, error"),
    ],
)
def test_mistakes_are_one_line_and_leave_nothing(more: str, message: str, blobs: Path) -> None:
    columns = read_table("all.npz").columns
    votes = {"id": columns["id"], "x": columns["x"], "teacher_votes": np.stack([columns["label"]] * 2, axis=1)}
    write_table("votes.npz", votes)
    pool = "votes.npz" if "--votes" in more else "all.npz"
    fixed = f"train --gold gold.npz --pool {pool} --method vanilla --student linear --epochs 1 --quiet --out run"
    result = call(f"{fixed} {more}", code=2)
    assert message in result.stderr and result.stderr.count("\n") == 1 and not Path("run").exists()


def test_a_strange_answer_file_names_the_row(reviews: Path) -> None:
    Path("batch.csv").write_text("id,label\nr030,neg\nr031,postive\n")
    error = call(f"{TRAIN} --gold gold.csv --gold +batch.csv --out run", code=2).stderr
    assert "batch.csv line 3: column 'label' row 1 has label 'postive'; write one of the classes (neg, pos)" in error


@pytest.mark.torture
@pytest.mark.filterwarnings("ignore::understudy.UnderstudyWarning")
def test_reviews_labelled_by_a_language_model(
    shared_data: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """200 gold rows, the model's labels as the pool, 2,000 test rows; one command each."""
    monkeypatch.chdir(tmp_path)
    table = pq.read_table(shared_data("text/mr_chatgpt.parquet")).to_pydict()
    names, rows = np.array(["neg", "pos", None], dtype=object), range(len(table["text"]))
    ids = [f"mr{row}" for row in rows]
    pool = [row for row in rows if table["split"][row] == "train" and table["chatgpt_label"][row] != -9]
    test = [row for row in rows if table["split"][row] == "test"]
    gold = np.random.default_rng(0).permutation(pool)[:200]

    def texts(values: Any) -> Any:
        return pa.array(values, pa.string())

    pq.write_table(
        pa.table(
            {
                "id": texts([ids[row] for row in pool]),
                "text": texts([table["text"][row] for row in pool]),
                "teacher_label": texts([names[table["chatgpt_label"][row]] for row in pool]),
            }
        ),
        "pool.parquet",
    )
    lines = [
        json.dumps({"id": ids[row], "text": table["text"][row], "label": names[table["label"][row]]}) for row in test
    ]
    Path("test.jsonl").write_text("\n".join(lines))
    Path("gold.csv").write_text("\n".join(["id,label", *(f"{ids[row]},{names[table['label'][row]]}" for row in gold)]))
    call(
        "train --gold gold.csv --pool pool.parquet --text text --method slam --student linear --epochs 5 --lr 0.005 "
        "--quiet --out run"
    )
    shown = call("predict run test.jsonl --out predictions.jsonl").stdout
    assert 0.74 < float(shown.split("accuracy ")[1].split("%")[0]) / 100 < 0.85
    predictions = [json.loads(line) for line in Path("predictions.jsonl").read_text().splitlines()]
    assert [row["id"] for row in predictions] == [ids[row] for row in test]
    assert {row["label"] for row in predictions} == {"neg", "pos"}
