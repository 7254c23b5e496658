"""Labels remember the gold rows they were fitted to, and nothing is measured on these."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import understudy as us
from three_blobs import FAST, student, world
from understudy import cli
from understudy.data.fitted_rows import content_keys, deal_keys, mark_fitted, read_keys, row_keys
from understudy.io.read import read_examples
from understudy.io.table import read_table
from understudy.io.write import write_table

FITTED = "fitted to the true classes of"


def fitted_pool(gold: us.Gold, pool: us.Pool) -> us.Pool:
    """As ``us.reconcile`` leaves it."""
    labels = us.Soft(torch.full((len(pool), 3), 1 / 3))
    labels.fitted_to = row_keys(gold)
    return us.Pool(pool.x, labels, ids=pool.ids)


@pytest.mark.parametrize("ids", [None, np.array([f"r{row}" for row in range(60)], dtype=object)])
def test_rows_are_known_by_id_and_by_content(ids: Any) -> None:
    gold, pool, _ = world()
    gold = us.Gold(gold.x, gold.y, ids=ids)
    made = fitted_pool(gold, pool).take(torch.arange(10))
    with pytest.warns(us.UnderstudyWarning, match=rf"{FITTED} 60 of 60 gold rows .*--method auto"):
        assert mark_fitted(gold, made).chosen.all() and not gold.chosen.any()
    copied = us.Gold(gold.x.clone(), gold.y)
    with pytest.warns(us.UnderstudyWarning):
        assert mark_fitted(copied, made).chosen.all(), "without ids, by what they hold"
    fresh = torch.cat([gold.x[:20] + 1, gold.x[20:]])
    with pytest.warns(us.UnderstudyWarning, match="40 of 60"):
        assert mark_fitted(us.Gold(fresh, gold.y), made).chosen.tolist() == [False] * 20 + [True] * 40
    if ids is not None:
        other = us.Gold(gold.x, gold.y, ids=np.arange(60))
        assert mark_fitted(other, made) is other, "where both have ids, these decide"
    with pytest.raises(us.UnderstudyError, match=r"60 test rows .* cannot test"):
        mark_fitted(None, made, test=gold)
    assert mark_fitted(gold, pool) is gold


def test_rows_that_cannot_be_told_apart_all_count() -> None:
    gold, pool, _ = world()
    dataset = torch.utils.data.TensorDataset(gold.x)
    nameless = us.Gold(dataset, gold.y, collate=lambda rows: torch.stack([row[0] for row in rows]))
    assert row_keys(nameless) == {"*"}
    made = fitted_pool(nameless, pool)
    with pytest.warns(us.UnderstudyWarning, match="60 of 60"):
        assert mark_fitted(gold, made).chosen.all()
    assert made.teacher is not None
    made.teacher.fitted_to |= row_keys(us.Gold(gold.x, gold.y, ids=[f"first {row}" for row in range(60)]))
    with pytest.warns(us.UnderstudyWarning, match="60 of 60"):
        assert mark_fitted(us.Gold(gold.x, gold.y, ids=range(60)), made).chosen.all(), "also beside rows with ids"


@pytest.mark.parametrize(("keys", "rows"), [(5, 12), (12, 5), (7, 7), (1, 3)])
def test_keys_are_dealt_out_over_the_rows(keys: int, rows: int) -> None:
    every = {f"i{key:03d}" for key in range(keys)}
    column = deal_keys(every, rows)
    assert len(column) == rows and read_keys(column) == every and all(column)
    assert max(len(cell.split()) for cell in column) == -(-keys // rows)


def test_cells_of_any_kind_make_a_key() -> None:
    text, number = np.array(["a", "b", "a"], dtype=object), np.array([1, 2, 1])
    one, two, three = content_keys([text, number])
    assert one == three != two
    assert content_keys([text, number.astype(np.float64)])[0] == one, "as other files store it"
    assert content_keys([np.array([[1.0, 2.0], [1.0, 3.0]])])[0] != content_keys([np.array([[1.0, 3.0]])])[0]


def test_a_training_on_reconciled_labels_claims_nothing_about_their_gold() -> None:
    gold, pool, _ = world()
    made = fitted_pool(gold, pool)
    with pytest.warns(us.UnderstudyWarning, match=FITTED):
        run = us.train(student, gold.without_teacher(), made, us.vanilla(), evaluate=True, **FAST)
    assert run.evaluation is None
    with pytest.warns(us.UnderstudyWarning, match=FITTED), pytest.raises(us.UnderstudyError, match="too few"):
        us.compare(student, gold.without_teacher(), made, methods=["gce"], seeds=1, **FAST)
    known = us.Gold(gold.x, gold.y, teacher=us.Soft(torch.full((60, 3), 1 / 3)))
    for measure in (us.audit, us.estimate):
        with pytest.warns(us.UnderstudyWarning, match=FITTED), pytest.raises(us.UnderstudyError, match="no gold row"):
            measure(known, made)


def call(*arguments: Any) -> str:
    done = CliRunner().invoke(cli.app, [str(each) for each in arguments])
    assert done.exit_code == 0, done.output
    return " ".join(done.output.split())


def test_the_two_documented_steps_claim_no_accuracy(tmp_path: Path) -> None:
    """``reconcile`` and then ``train --method vanilla``: on a file of texts without ids, of which a part is kept."""
    draw = np.random.default_rng(0)
    y = draw.integers(0, 2, 120)
    words = np.array([[f"good{k}" for k in range(30)], [f"bad{k}" for k in range(30)]])
    texts = [" ".join([*draw.choice(words[label], 2), f"w{draw.integers(50)}"]) for label in y]
    named = np.where(draw.random(120) < 0.7, y, 1 - y)
    rows = {"text": np.array(texts, dtype=object), "teacher_label": np.array(["no", "yes"], dtype=object)[named]}
    truth = np.array(["no", "yes"], dtype=object)[y]
    write_table(tmp_path / "gold.csv", {"text": rows["text"][:40], "label": truth[:40]})
    write_table(tmp_path / "pool.csv", {name: column[40:] for name, column in rows.items()})
    quick = ("--text", "text", "--quiet")
    files = ("--gold", tmp_path / "gold.csv", "--pool")
    out = tmp_path / "labels.jsonl"
    call(
        "reconcile",
        *files,
        tmp_path / "pool.csv",
        *quick,
        "--methods",
        "gce",
        "--folds",
        2,
        "--workers",
        1,
        "--out",
        out,
    )
    table = read_table(out)
    part = tmp_path / "part.parquet"
    write_table(part, {name: table.stored(name)[10:] for name in table.names})
    printed = call("train", *files, part, *quick, "--method", "vanilla", "--out", tmp_path / "run")
    assert "Unknown: no held-out labels" in printed and "cross-validated on" not in printed
    assert f"{FITTED} 40 of 40 gold rows" in printed
    examples = read_examples(gold=str(tmp_path / "gold.csv"), pool=str(tmp_path / "pool.csv"))
    assert examples.pool is not None and examples.pool.teacher is not None and not examples.pool.teacher.fitted_to
    with warnings.catch_warnings():
        warnings.simplefilter("error", us.UnderstudyWarning)
        assert mark_fitted(examples.gold, examples.pool) is examples.gold


def test_a_store_keeps_the_keys_of_its_labels(tmp_path: Path) -> None:
    gold, _, _ = world()
    labels = us.Soft(torch.full((4, 3), 1 / 3))
    labels.fitted_to = row_keys(gold)
    with us.LabelStore(tmp_path / "labels", 3, "dense") as store:
        store.append(["a", "b"], us.Soft(torch.eye(3)[:2]))
        assert not store.labels(["a"]).fitted_to
        store.append(["c", "d", "e", "f"], labels)
        assert store.labels(["a"]).fitted_to == labels.fitted_to, "before they are written, too"
    with us.LabelStore(tmp_path / "labels") as store:
        store.append(["g"], us.Soft(torch.eye(3)[:1]))
    assert us.LabelStore(tmp_path / "labels").labels(["a"]).fitted_to == labels.fitted_to
    assert CliRunner().invoke(cli.app, ["verify", str(tmp_path / "labels")]).exit_code == 0


@pytest.mark.parametrize("named", [True, False])
def test_labels_of_a_trained_model_know_its_gold(tmp_path: Path, named: bool) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(90, 2)), rng.integers(0, 2, 90)
    columns = {"x0": x[:, 0], "x1": x[:, 1]}
    ids = {"id": np.array([f"r{row}" for row in range(90)])} if named else {}
    for name, rows, more in (("gold", slice(0, 30), {"label": y}), ("pool", slice(30, 90), {"teacher_label": y})):
        write_table(tmp_path / f"{name}.csv", {key: each[rows] for key, each in (ids | columns | more).items()})

    def call(*words: str) -> str:
        result = CliRunner().invoke(cli.app, [str(tmp_path / w[1:]) if w[0] == "@" else w for w in words])
        assert result.exit_code == 0, result.output
        return result.output

    train = ("train", "--gold", "@gold.csv", "--method", "vanilla", "--student", "linear", "--epochs", "1", "--pool")
    call(*train, "@pool.csv", "--out", "@run")
    call("teach", "@run", "@pool.csv", "--out", "@labels.parquet")
    assert "fitted to the true classes of 30 of 30 gold rows" in " ".join(
        call(*train, "@labels.parquet", "--out", "@second").split()
    )
    keys = us.Run.load(tmp_path / "second").gold_keys
    assert keys and keys == us.Run.load(tmp_path / "run").gold_keys


def test_labels_of_any_form_taken_or_joined_remember_the_gold_that_made_them() -> None:
    probs = np.full((3, 2), 0.5, dtype=np.float32)
    forms = [
        us.Soft(probs),
        us.Hard([0, 1, 0]),
        us.TopK([[0, 1]] * 3, probs, classes=2),
        us.Votes([[0]] * 3, classes=2),
    ]
    for labels in forms:
        labels.fitted_to = frozenset(["i1"])
        taken = labels.take(torch.tensor([2, 0]))
        assert taken.fitted_to == {"i1"}, labels.form
        taken.fitted_to = frozenset(["i2"])
        assert type(labels).concatenate([labels, taken]).fitted_to == {"i1", "i2"}, labels.form
        assert labels.fitted_to == {"i1"}, labels.form
