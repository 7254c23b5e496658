"""``understudy reconcile``: what it writes, that it can be trained on, what it prints, and mistakes in one line."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from three_blobs import labels, points
from understudy import cli
from understudy.io.read import read_examples
from understudy.io.table import read_table
from understudy.io.write import write_table

NAMES = np.array(["ape", "bee", "cat"], dtype=object)


def call(*arguments: Any) -> Any:
    return CliRunner().invoke(cli.app, [str(each) for each in arguments])


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """A pool file of 360 rows; 60 of them are gold by id and label."""
    x, y = points()
    said = labels(y).top1().numpy()
    ids = np.array([f"r{row}" for row in range(360)], dtype=object)
    pool = {"id": ids, **{f"x{k}": x[:, k].numpy() for k in range(4)}, "teacher_label": NAMES[said]}
    found = {name: tmp_path / f"{name}.parquet" for name in ("gold", "pool", "out")}
    write_table(found["pool"], pool)
    write_table(found["gold"], {"id": ids[:60], "label": NAMES[y[:60].numpy()]})
    return found


QUICK = ("--student", "linear", "--epochs", 2, "--workers", 1, "--folds", 2, "--quiet", "--methods", "gce")


def test_what_is_written_is_a_pool_with_better_labels_that_trains(files: dict[str, Path], tmp_path: Path) -> None:
    done = call("reconcile", "--gold", files["gold"], "--pool", files["pool"], "--out", files["out"], *QUICK)
    assert done.exit_code == 0, done.output
    assert "300 pool rows with reconciled labels" in done.output and "Reconciled labels: accuracy" in done.output
    assert "your student, trained on gold only" in done.output and "weight" in done.output
    table = read_table(files["out"])
    assert len(table) == 360 and "teacher_label" not in table.names
    assert {"id", "x0", "teacher_probs", "reconciled_label", "reconciled_probability", "source_gce_label"} <= set(
        table.names
    )
    assert {"source_teacher_confusion_probability", "source_gold_only_label"} <= set(table.names)
    truth, label = NAMES[np.arange(360) % 3], table.columns["reconciled_label"]
    said = read_table(files["pool"]).columns["teacher_label"]
    right = [float((each == truth)[60:].mean()) for each in (label, said)]
    assert right[0] > right[1] + 0.05
    probs = np.stack([table.columns["teacher_probs"][name] for name in NAMES], axis=1)
    np.testing.assert_allclose(probs.sum(1), 1, atol=1e-5)
    assert (NAMES[probs.argmax(1)] == label).all()
    np.testing.assert_allclose(table.columns["reconciled_probability"], probs.max(1), atol=1e-6)
    # Gold rows have a label too, made without their own truth: it is not always right.
    assert 0.4 < float((label == truth)[:60].mean()) < 1
    assert set(table.columns["source_gce_label"][:60]) == {""}
    examples = read_examples(gold=str(files["gold"]), pool=str(files["out"]))
    assert (
        examples.pool is not None
        and len(examples.pool) == 300
        and examples.featuriser.names == ("x0", "x1", "x2", "x3")
    )
    run = call("train", "--gold", files["gold"], "--pool", files["out"], "--method", "vanilla", "--epochs", 1,
               "--out", tmp_path / "run", "--quiet")  # fmt: skip
    assert run.exit_code == 0, run.output


def test_classes_that_are_numbers_and_a_file_without_ids(tmp_path: Path) -> None:
    x, y = points()
    said = labels(y, "soft").dense(torch.arange(360), 3).numpy()
    write_table(tmp_path / "gold.npz", {"x": x[:60].numpy(), "label": y[:60].numpy(), "teacher_probs": said[:60]})
    write_table(tmp_path / "pool.npz", {"x": x[60:].numpy(), "teacher_probs": said[60:]})
    out = tmp_path / "labels.npz"
    done = call("reconcile", "--gold", tmp_path / "gold.npz", "--pool", tmp_path / "pool.npz", "--out", out, *QUICK,
                "--parts", tmp_path / "parts")  # fmt: skip
    assert done.exit_code == 0, done.output
    table = read_table(out)
    assert table.columns["teacher_probs"].shape == (300, 3) and len(table) == 300
    assert table.columns["reconciled_label"].tolist() == table.columns["teacher_probs"].argmax(1).tolist()
    assert (tmp_path / "parts" / "settings.json").exists()


def test_mistakes_are_one_line(files: dict[str, Path], tmp_path: Path) -> None:
    files["out"].write_text("mine")
    told = ("reconcile", "--gold", files["gold"], "--pool", files["pool"], *QUICK)
    for more, message in (
        (("--out", files["out"]), "already exists and is not overwritten"),
        (("--out", tmp_path / "labels.csv"), "labels are written as .parquet, .jsonl or .npz"),
        (("--out", tmp_path / "a.npz", "--methods", "nobody"), "there is no method 'nobody'"),
        (("--out", tmp_path / "a.npz", "--folds", 61), "60 gold rows are too few to weight label sources on"),
    ):
        done = call(*told, *more)
        assert done.exit_code == 2 and message in done.output.replace("\n", " "), done.output
    assert files["out"].read_text() == "mine"
