"""``us.fit``: the training of ``understudy train`` from whatever holds the rows, and predictions by name."""

import csv
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars
import pyarrow as pa
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

import understudy as us
from understudy import cli
from understudy.samples import write_tickets

ROLES: dict[str, Any] = {"text": "message", "label": "checked", "teacher": "llm"}
QUICK: dict[str, Any] = {
    "method": "vanilla",
    "epochs": 2,
    "weight_decay": 0.01,
    "optimizer": "lbfgs",
    "progress": False,
}


@pytest.fixture(scope="module")
def tickets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """mine.csv of the samples with 16 labels (too few to cross-validate on) and 60 other rows, and test.csv."""
    folder = tmp_path_factory.mktemp("model") / "tickets"
    write_tickets(folder)
    with (folder / "mine.csv").open(newline="") as file:
        header, *rows = csv.reader(file)
    own = [row for row in rows if row[2]][:16], [row for row in rows if not row[2]][:60]
    with (folder / "mine.csv").open("w", newline="") as file:
        csv.writer(file).writerows([header, *own[0], *own[1]])
    return folder


@pytest.fixture(scope="module")
def command_run(tickets: Path) -> us.Run:
    """The run of the command line."""
    mine = str(tickets / "mine.csv")
    words = ["train", "--gold", mine, "--pool", mine, "--text", "message", "--label", "checked", "--teacher", "llm"]
    fixed = ["--weight-decay", "0.01", "--optimizer", "lbfgs"]
    done = CliRunner().invoke(
        cli.app, [*words, "--method", "vanilla", "--epochs", "2", *fixed, "--out", f"{tickets}/run"]
    )
    assert done.exit_code == 0, done.output
    return us.Run.load(tickets / "run")


@pytest.fixture(scope="module")
def model(tickets: Path) -> us.Model:
    return us.fit(tickets / "mine.csv", tickets / "mine.csv", **ROLES, **QUICK)


def as_lists(path: Path) -> list[dict[str, str | None]]:
    with path.open(newline="") as file:
        return [{name: cell or None for name, cell in row.items()} for row in csv.DictReader(file)]


def as_tabs(path: Path) -> Path:
    packed = path.with_suffix(".tsv.gz")
    pandas.read_csv(path).to_csv(packed, sep="\t", index=False)
    return packed


TABLES = {
    "path": str,
    "tabs": as_tabs,
    "pandas": pandas.read_csv,
    "polars": polars.read_csv,
    "lists": as_lists,
    "mapping": lambda path: {
        name: list(cells) for name, cells in pandas.read_csv(path).astype(object).where(pandas.notna, None).items()
    },
}


def test_one_table_alone_is_gold_and_pool(tickets: Path, model: us.Model) -> None:
    alone = us.fit(polars.read_csv(tickets / "mine.csv"), **ROLES, **QUICK)
    assert np.array_equal(alone.predict_proba(["It crashed"]), model.predict_proba(["It crashed"]))


@pytest.mark.parametrize("kind", TABLES)
def test_every_kind_of_table_gives_the_bits_of_the_command(kind: str, tickets: Path, command_run: us.Run) -> None:
    table = TABLES[kind](tickets / "mine.csv")
    fitted = us.fit(table, table, **ROLES, **QUICK)
    expected = command_run.student.state_dict()
    for name, weight in fitted.run.student.state_dict().items():
        assert torch.equal(weight, expected[name]), name
    assert fitted.run.config["class_names"] == command_run.config["class_names"]
    assert fitted.run.evaluation == command_run.evaluation


def test_predictions_by_name_of_any_raw_rows(model: us.Model, command_run: us.Run, tickets: Path) -> None:
    test = pandas.read_csv(tickets / "test.csv")[:30]
    expected = command_run.predict(test).numpy()
    names = np.array(command_run.config["class_names"])[expected.argmax(1)]
    forms = [
        test, polars.from_pandas(test), pa.Table.from_pandas(test), test.to_dict("records"), test.message,
        test.message.tolist(), test.message.to_numpy(), {"message": test.message.tolist()}, tuple(test.message),
    ]  # fmt: skip
    for rows in forms:
        assert np.array_equal(model.predict_proba(rows), expected), type(rows)
        assert model.predict(rows).tolist() == names.tolist()
        assert torch.equal(command_run.predict(rows), torch.from_numpy(expected))
    whole = model.predict(tickets / "test.csv")
    assert whole[:30].tolist() == names.tolist() and len(whole) == 500
    backwards = model.predict_proba(test.message.tolist()[::-1])
    assert np.allclose(backwards[::-1], expected, atol=1e-6)  # in the order of the rows


def test_probabilities_are_an_array_with_columns_by_class(model: us.Model) -> None:
    probs = model.predict_proba(["I was billed twice", "Where is my parcel?"])
    assert probs.shape == (2, 4) and np.allclose(probs.sum(1), 1)
    assert model.classes_.tolist() == ["billing", "cancellation", "delivery", "technical"]
    for number, name in enumerate(model.classes_):
        assert np.array_equal(probs[name], np.asarray(probs)[:, number])
        assert probs[1][name] == probs[1, number]
    with pytest.raises(us.UnderstudyError, match=r"no class 'Billing'; the classes are billing, cancel"):
        probs["Billing"]


def test_no_rows_are_no_predictions(model: us.Model) -> None:
    for none in ([], (), pandas.DataFrame({"message": []}), polars.DataFrame({"message": []})):
        assert model.predict(none).tolist() == []
        assert model.predict_proba(none).shape == (0, 4)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("How do I reset my pin?", r"'How do I reset my pin\?' is no file; pass rows in a list, also a single one"),
        ([{"text": "hello"}], r"rows has no column 'message', which is a feature; it has 'text'"),
        ([{"message": "a"}, {"other": "b"}], r"column 'message' row 1 holds nothing, not a text"),
        ([{"message": "a"}, "b"], r"rows row 1 is a str, row 0 a mapping"),
        ([{"message": "a"}, {"message": 1.5}], r"column 'message' holds values of several types \(float, str\)"),
        (["a", None], r"column 'message' row 1 holds nothing, not a text; write '' or remove the row"),
        ([1, 2], r"the rows are numbers; the model reads message: pass mappings"),
        (np.zeros((2, 3)), r"the rows are numbers; the model reads message: pass mappings"),
        (object(), r"x is a object; pass"),
    ],
)
def test_rows_that_cannot_be_read_are_one_line(model: us.Model, rows: Any, message: str) -> None:
    with pytest.raises(us.UnderstudyError, match=message) as caught:
        model.predict(rows)
    assert "\n" not in str(caught.value)


def test_the_teachers_column_is_named_again_to_predict(command_run: us.Run, tickets: Path, tmp_path: Path) -> None:
    words = ["predict", f"{tickets}/run", f"{tickets}/mine.csv", "--column", "teacher_label=llm", "--out"]
    done = CliRunner().invoke(cli.app, [*words, f"{tmp_path}/predictions.csv"])
    assert done.exit_code == 0 and "76 predictions" in done.output, done.output


@pytest.mark.filterwarnings("ignore::understudy.UnderstudyWarning")
def test_numbers_that_a_frame_holds_as_texts_are_named() -> None:
    cells = [f"{row},5" for row in range(200)]
    table = pandas.DataFrame(
        {"rent": cells, "age": range(200), "llm": ["a", "b"] * 100, "label": ["a", "b", *[None] * 198]}
    )
    with pytest.warns(us.UnderstudyWarning, match=r"'rent' holds texts like '0,5', so it is left out; if .* numbers"):
        us.fit(table, teacher="llm", student="linear", **QUICK)


def test_numbers_as_texts_are_numbers_for_a_model_of_numbers() -> None:
    gold, pool = {"x1": [1.0, 2.0, 3.0, 4.0] * 5, "label": [0, 1] * 10}, {"x1": [1.5] * 8, "llm": [0, 1] * 4}
    fitted = us.fit(gold, pool, teacher="llm", student="linear", **QUICK)
    expected = fitted.predict_proba([{"x1": 3.5}, {"x1": 3.5}])
    assert np.array_equal(fitted.predict_proba([{"x1": "3.5"}, {"x1": " 3.50 "}]), expected)
    with pytest.raises(us.UnderstudyError, match=r"column 'x1' row 1 is '3,5', where training .* numbers"):
        fitted.predict([{"x1": "3.5"}, {"x1": "3,5"}])


def test_it_exports_itself(model: us.Model, tmp_path: Path) -> None:
    model.export(tmp_path / "exported")
    done = subprocess.run(
        [sys.executable, tmp_path / "exported" / "predict.py", "/dev/stdin"], input="message\nIt crashed\n",
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.splitlines()[1].split(",")[0] == model.predict(["It crashed"])[0]


def test_saved_and_loaded_it_predicts_the_same_bits(model: us.Model, tickets: Path, tmp_path: Path) -> None:
    model.save(tmp_path / "saved")
    loaded = us.load(tmp_path / "saved")
    rows = ["I was billed twice", "Where is my parcel?"]
    assert np.array_equal(loaded.predict_proba(rows), model.predict_proba(rows))
    assert str(loaded) == str(model) and repr(loaded) == repr(model)
    assert loaded.suspects(3).equals(model.suspects(3))
    assert (tmp_path / "saved" / "report.html").exists() and loaded.report() == tmp_path / "saved" / "report.html"
    done = CliRunner().invoke(cli.app, ["verify", str(tmp_path / "saved")])
    assert done.exit_code == 0, done.output
    with pytest.raises(us.UnderstudyError, match="already exists and is not empty"):
        model.save(tmp_path / "saved")
    assert np.array_equal(us.load(tickets / "run").predict_proba(rows), model.predict_proba(rows))


def test_suspects_and_rows_to_label_are_frames(model: us.Model, tickets: Path) -> None:
    found = model.suspects(5)
    assert list(found.columns) == ["row", "line", "message", "label", "suggested", "probability"]
    table = pandas.read_csv(tickets / "mine.csv")
    assert found.message.tolist() == table.message[found.row].tolist()
    assert found.label.tolist() == table.llm[found.row].tolist()
    lines = (tickets / "mine.csv").read_text(encoding="utf-8").splitlines()
    assert all(text in lines[line - 1] for text, line in zip(found.message, found.line, strict=True))
    assert found.probability.is_monotonic_decreasing and len(found) == 5
    batch = model.next_to_label(table, 7)
    assert batch.message.tolist() == table.message[batch.row].tolist()
    assert table.checked[batch.row].isna().all() and batch.label.isna().all() and batch.row.is_unique
    assert len(model.next_to_label(["Where is my parcel?", "I quit", "It crashed"], 2)) == 2


def test_pairs_of_rows_and_labels(tickets: Path, model: us.Model) -> None:
    table = pandas.read_csv(tickets / "mine.csv")
    gold, pool = table[table.checked.notna()], table[table.checked.isna()]
    fitted = us.fit(
        (gold.message.tolist(), gold.checked.tolist(), gold.llm.tolist()), (pool.message, pool.llm), **QUICK
    )
    assert np.array_equal(fitted.predict_proba(["It crashed"]), model.predict_proba(["It crashed"]))
    with pytest.raises(us.UnderstudyError, match="the pool has no teacher labels"):
        us.fit((gold[["message"]], gold.checked), (pool[["message"]], None), text="message", **QUICK)


def test_arrays_and_sets_are_one_training(tmp_path: Path) -> None:
    x = torch.randn(60, 5, generator=torch.Generator().manual_seed(0))
    y = (x[:, 0] > 0).long()
    probs = torch.stack([1 - 0.8 * y, 0.2 + 0.8 * y - 0.2 * (1 - y) * 0], 1)
    probs = probs / probs.sum(1, keepdim=True)
    options = {"student": "linear", **QUICK}
    sets = us.fit(us.Gold(x[:15], y[:15]), us.Pool(x[15:], probs[15:]), **options)
    pairs = us.fit((x[:15].numpy(), y[:15].numpy()), (x[15:].numpy(), probs[15:].numpy()), **options)
    assert torch.equal(sets.run.predict(x), pairs.run.predict(x))
    assert sets.predict(x.numpy()).tolist() == sets.run.predict(x).argmax(1).tolist()
    sets.save(tmp_path / "run")
    assert np.array_equal(us.load(tmp_path / "run").predict_proba(x), sets.predict_proba(x))
    with pytest.raises(us.UnderstudyError, match=r"was trained on tables in memory"):
        us.load(tmp_path / "run").suspects()
    with pytest.raises(us.UnderstudyError, match=r"pool is a ndarray; beside us.Gold and us.Pool, pass a us.Pool"):
        us.fit(us.Gold(x[:15], y[:15]), x.numpy(), **options)


def test_mixed_columns_and_the_teachers_forms(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    age, job = random.normal(40, 10, 60), random.choice(["cook", "clerk"], 60)
    truth = np.where((age > 40) ^ (job == "cook"), "Yes", "No")
    gold = pandas.DataFrame({"age": age, "job": job, "truth": truth})[:15]
    rows = pandas.DataFrame({"age": age, "job": job})[15:]
    soft = [[0.8, 0.2] if one == "No" else [0.1, 0.9] for one in truth[15:]]
    options = {"label": "truth", "student": "linear", **QUICK}
    hard = us.fit(gold, rows.assign(llm=truth[15:]), teacher="llm", **options)
    lists = us.fit(gold, rows.assign(llm=soft), teacher="llm", classes=["No", "Yes"], **options)
    votes = us.fit(gold, rows.assign(ana=truth[15:], ben=truth[15:]), teacher=["ana", "ben"], **options)
    forms = [one.examples.pool.teacher.title for one in (hard, lists, votes) if one.examples.pool is not None]
    assert len(set(forms)) == 3
    assert hard.predict([{"age": 30, "job": "cook"}]).tolist()[0] in ("Yes", "No")
    assert np.allclose(hard.predict_proba(rows), hard.predict_proba(rows.to_dict("records")))
    with pytest.raises(us.UnderstudyError, match=r"the model reads age, job: pass mappings"):
        hard.predict(["cook"])
    with pytest.raises(us.UnderstudyError, match=r"the model reads age, job: pass mappings"):
        hard.predict(rows[["age", "age"]].to_numpy())


def test_images_as_paths_bytes_and_pictures(tmp_path: Path) -> None:
    random, paths = np.random.default_rng(0), [tmp_path / f"{row}.png" for row in range(30)]
    pictures = [Image.fromarray((random.random((4, 4)) * 50 + 200 * (row % 2)).astype(np.uint8)) for row in range(30)]
    for picture, path in zip(pictures, paths, strict=True):
        picture.save(path)
    names = ["Dark", "Light"] * 15
    model = us.fit((paths[:10], names[:10]), (paths[10:], names[10:]), image="photo", student="linear", **QUICK)
    expected = model.predict(paths)
    assert expected.tolist() == names
    for rows in (list(map(str, paths)), [path.read_bytes() for path in paths], pictures):
        assert model.predict(rows).tolist() == names
    with pytest.raises(us.UnderstudyError, match=r"there is no file .*none\.png"):
        model.predict([tmp_path / "none.png"])


def test_options_are_those_of_the_command(tickets: Path) -> None:
    mine = tickets / "mine.csv"
    for bad, message in {
        "lable": r"unknown option 'lable' of fit; did you mean 'label'\?",
        "epoch": r"unknown option 'epoch' of fit; did you mean 'epochs'\?",
    }.items():
        with pytest.raises(us.UnderstudyError, match=message):
            us.fit(mine, mine, **{bad: 1})
    with pytest.raises(us.UnderstudyError, match=r"no column 'checkd' \(to serve as 'label'\)"):
        us.fit(mine, mine, **(ROLES | {"label": "checkd"}), **QUICK)
    with pytest.raises(us.UnderstudyError, match=r"unknown option 'lower' of slam; did you mean 'lower_bound'"):
        us.fit(mine, mine, **ROLES, **(QUICK | {"method": "slam", "method_options": {"lower": 1}}))


def test_it_shows_itself(model: us.Model, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert repr(model) == "Model(billing, cancellation, delivery, technical: vanilla)"
    assert "Unknown: no held-out labels." in str(model)
    assert "Training with vanilla" in model._repr_html_()
    page = model.report(tmp_path / "page.html")
    assert "Pool file" in page.read_text()
