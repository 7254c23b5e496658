"""A run survives the disk: the same bits back, nothing pickled, damage named in one line."""

import json
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import understudy as us
from understudy.objective import Columns, Context, Step, Weight
from understudy.store import files

X = torch.randn(30, 4, generator=torch.Generator().manual_seed(2))
PROBS = torch.randn(30, 3, generator=torch.Generator().manual_seed(3)).softmax(-1)
Y = torch.arange(30) % 3


class Own(nn.Module):
    def __init__(self, hidden: int = 5) -> None:
        super().__init__()
        self.body, self.norm, self.head = nn.Linear(4, hidden), nn.BatchNorm1d(hidden), nn.Linear(hidden, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.norm(self.body(x)).relu())


def _run(student: nn.Module | None = None, **options: Any) -> us.Run:
    settings: dict[str, Any] = {"epochs": 2, "batch_size": 8, "progress": False}
    pool = us.Pool(X, PROBS, ids=options.pop("ids", None))
    objective = options.pop("objective", us.slam())
    net = student or us.models.mlp(4, hidden=(6,), classes=3)
    return us.train(net, us.Gold(X, Y, PROBS), pool, objective, **(settings | options))


def test_save_and_load_keep_every_bit(tmp_path: Path) -> None:
    run = _run(out=tmp_path / "run", ids=[f"row-{i}" for i in range(30)], test=(X, Y), select=(X, Y))
    assert run.path == tmp_path / "run"
    back = us.Run.load(tmp_path / "run")
    assert back.predict(X).equal(run.predict(X))
    assert back.history == run.history
    assert set(back.columns) == set(run.columns)
    for name, column in run.columns.items():
        assert back.columns[name].dtype == column.dtype
        torch.testing.assert_close(back.columns[name], column, rtol=0, atol=0, equal_nan=True)
    assert back.ids is not None
    assert back.ids.tolist() == [f"row-{i}" for i in range(30)]
    assert back.facts == run.facts
    assert back.selected_epoch == run.selected_epoch
    assert all(a.equal(b) for a, b in zip(back.selected().parameters(), run.selected().parameters(), strict=True))
    assert {key: back.config[key] for key in run.config} == run.config
    assert not back.student.training


def test_the_files_of_a_run(tmp_path: Path) -> None:
    _run(out=str(tmp_path / "deep" / "run"))
    folder = tmp_path / "deep" / "run"
    names = {path.name for path in folder.iterdir()}
    assert {"config.json", "metrics.jsonl", "columns.parquet", "student.safetensors"} <= names
    assert not [name for name in names if name.startswith(".") and name != ".lock"]
    config = json.loads((folder / "config.json").read_text())
    assert config["format"] == 1
    assert config["objective"] == "slam"
    assert len((folder / "metrics.jsonl").read_text().splitlines()) == 2


def test_a_loaded_run_can_be_saved_again(tmp_path: Path) -> None:
    _run(out=tmp_path / "a")
    back = us.Run.load(tmp_path / "a")
    back.save(tmp_path / "b")
    assert us.Run.load(tmp_path / "b").predict(X).equal(back.predict(X))
    assert us.Run.load(tmp_path / "b").columns["slam.alpha"].equal(back.columns["slam.alpha"])


def test_rows_without_a_label_round_trip(tmp_path: Path) -> None:
    hard = PROBS.argmax(1)
    hard[3] = -1
    run = us.train(
        us.models.linear(4, 3), us.Gold(X, Y, PROBS.argmax(1)), us.Pool(X, hard), us.slam(),
        epochs=1, progress=False, out=tmp_path / "run",
    )  # fmt: skip
    back = us.Run.load(tmp_path / "run")
    assert back.columns["slam.alpha"].isnan().nonzero().flatten().tolist() == [3]
    assert back.columns["slam.k"].tolist() == run.columns["slam.k"].tolist()


class Wide(Weight):
    name = "wide"

    def prepare(self, context: Context) -> Columns:
        rows = len(context.pool)
        return {
            "flag": torch.arange(rows) % 2 == 0,
            "vector": torch.arange(rows * 4.0).reshape(rows, 4),
            "block": torch.arange(rows * 6.0, dtype=torch.float64).reshape(rows, 2, 3),
        }

    def __call__(self, losses: Tensor, step: Step) -> Tensor:
        return torch.ones_like(losses)


def test_columns_of_any_shape_round_trip(tmp_path: Path) -> None:
    run = _run(objective=us.vanilla(weight=Wide()), out=tmp_path / "run")
    back = us.Run.load(tmp_path / "run")
    for name in ("wide.flag", "wide.vector", "wide.block"):
        assert back.columns[name].shape == run.columns[name].shape
        assert back.columns[name].equal(run.columns[name])


def test_a_student_of_ones_own(tmp_path: Path) -> None:
    run = _run(Own(), out=tmp_path / "run")
    back = us.Run.load(tmp_path / "run", student=Own())
    assert back.predict(X).equal(run.predict(X))
    with pytest.raises(us.UnderstudyError, match="student="):
        us.Run.load(tmp_path / "run")
    with pytest.raises(us.UnderstudyError, match="does not fit Own") as caught:
        us.Run.load(tmp_path / "run", student=Own(hidden=9))
    assert "\n" not in str(caught.value)


def test_tied_parameters_can_be_saved(tmp_path: Path) -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second, self.head = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 3)
            self.second.weight = self.first.weight

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.second(self.first(x).relu()).relu())

    run = _run(Tied(), out=tmp_path / "run")
    assert us.Run.load(tmp_path / "run", student=Tied()).predict(X).equal(run.predict(X))


def test_nothing_is_pickled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("pickle was used")

    for module, names in (
        (pickle, ("load", "loads", "dump", "dumps", "Unpickler", "Pickler")),
        (torch, ("load", "save")),
    ):
        for name in names:
            monkeypatch.setattr(module, name, refuse)
    run = _run(out=tmp_path / "run")
    assert us.Run.load(tmp_path / "run").predict(X).equal(run.predict(X))


@pytest.mark.parametrize("name", ["config.json", "metrics.jsonl", "columns.parquet", "student.safetensors"])
@pytest.mark.parametrize("damage", ["missing", "cut", "garbage", "empty"])
def test_damage_is_named_in_one_line(tmp_path: Path, name: str, damage: str) -> None:
    _run(out=tmp_path / "run")
    path = tmp_path / "run" / name
    whole = path.read_bytes()
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes({"cut": whole[: len(whole) * 2 // 3], "garbage": b"\x93garbage\x00{", "empty": b""}[damage])
    with pytest.raises(us.UnderstudyError) as caught:
        us.Run.load(tmp_path / "run")
    message = str(caught.value)
    assert "\n" not in message
    assert str(tmp_path / "run") in message


@pytest.mark.parametrize(
    "content", ["[]", "3", '{"format": 1}', '{"format": 99}', '{"format": 1, "student": {"name": "nope"}}']
)
def test_a_config_of_another_kind(tmp_path: Path, content: str) -> None:
    _run(out=tmp_path / "run")
    (tmp_path / "run" / "config.json").write_text(content)
    with pytest.raises(us.UnderstudyError), warnings.catch_warnings():
        warnings.simplefilter("ignore", us.UnderstudyWarning)
        us.Run.load(tmp_path / "run")


def test_a_folder_that_is_no_run(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(us.UnderstudyError, match=r"not a finished run.*out="):
            us.Run.load(folder)


def test_no_epoch_was_selected() -> None:
    with pytest.raises(us.UnderstudyError, match="select="):
        _run().selected()


def test_metrics_of_last_and_selected_epoch() -> None:
    run = _run(test=(X, Y), select=(X[:9], Y[:9]))
    found = run.metrics()
    assert set(found) == {"last", "selected"}
    assert found["last"]["accuracy"] == run.history[-1]["test_accuracy"]


def test_a_write_that_fails_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file.txt"
    files.write_text(path, "old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(us.UnderstudyError, match=r"cannot write .*file\.txt: No space"):
        files.write_text(path, "new")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["file.txt"]


def test_predict_takes_arrays_and_batches() -> None:
    run = _run()
    torch.testing.assert_close(run.predict(X.numpy(), batch_size=7), run.predict(X))
    assert run.predict(np.zeros((0, 4), dtype=np.float32)).shape[0] == 0
    torch.testing.assert_close(run.predict(X).sum(1), torch.ones(30))
