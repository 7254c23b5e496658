"""Trackers: what they were sent is what the run says, read back from their own files."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

import understudy as us
from understudy import cli
from understudy.training.callbacks import TrainingView

from ..three_blobs import FAST, student, world

SHOWN = ("loss", "lr", "seconds", "test_accuracy")


def train(*callbacks: Any, **options: Any) -> us.Run:
    gold, pool, truth = world("soft")
    given: dict[str, Any] = FAST | {"seed": 4, "test": us.Gold(pool.rows, truth)} | options
    return us.train(student, gold, pool, us.slam(), callbacks=callbacks, **given)


def events(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """What TensorBoard itself reads of a folder's event files."""
    reading = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    found = reading.EventAccumulator(str(folder))
    found.Reload()
    return {tag: [(one.step, one.value) for one in found.Scalars(tag)] for tag in found.Tags()["scalars"]}


def told(run: us.Run, name: str) -> list[tuple[int, float]]:
    return [(int(record["epoch"]), pytest.approx(record[name], rel=1e-6)) for record in run.history]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
class TestTensorBoard:
    @pytest.fixture(autouse=True)
    def _installed(self) -> None:
        pytest.importorskip("tensorboard")

    def test_event_files_hold_the_history(self, tmp_path: Path) -> None:
        run = train(us.TensorBoard(tmp_path))
        found = events(tmp_path / "slam-seed4")
        for name in SHOWN:
            assert found[name] == told(run, name)
        assert found["facts/slam.mean_alpha"] == [(3, pytest.approx(run.facts["slam.mean_alpha"], rel=1e-6))]
        assert_same_history(run, train())

    def test_what_was_written_after_the_last_checkpoint_is_told_once(self, tmp_path: Path) -> None:
        class Cut(us.Callback):
            def on_epoch(self, view: TrainingView) -> None:
                if view.epoch == 2:
                    raise RuntimeError("a power cut")

        with pytest.raises(RuntimeError):
            train(us.TensorBoard(), Cut(), out=tmp_path / "run")
        run = train(us.TensorBoard(), out=tmp_path / "run", resume=True)
        assert events(tmp_path / "run" / "tensorboard" / "slam-seed4")["loss"] == told(run, "loss")

    def test_a_cut_before_the_first_checkpoint_can_be_resumed(self, tmp_path: Path) -> None:
        (tmp_path / "run" / "tensorboard").mkdir(parents=True)
        assert len(train(us.TensorBoard(), out=tmp_path / "run", resume=True).history) == 3
        (tmp_path / "other" / "tensorboard").mkdir(parents=True)
        with pytest.raises(us.UnderstudyError, match="already exists and is not empty"):
            train(out=tmp_path / "other")

    def test_every_cell_of_a_comparison_has_a_folder(self, tmp_path: Path) -> None:
        gold, pool, _ = world("soft")
        us.compare(student, gold, pool, ["slam"], seeds=1, workers=1, callbacks=[us.TensorBoard(tmp_path)], **FAST)
        names = {path.name for path in tmp_path.iterdir()}
        assert {"slam-seed0", "vanilla-seed0", "gold_only-seed0"} <= names
        for name in names:
            assert [step for step, _ in events(tmp_path / name)["loss"]] == [1, 2, 3]

    def test_the_command_line_writes_them_beside_the_run(self, tmp_path: Path) -> None:
        lines = ["a,b,teacher_label,label"]
        lines += [f"{i % 7},{i % 3},{('no', 'yes')[i % 2]},{('no', 'yes')[i % 2]}" for i in range(40)]
        for name in ("gold.csv", "pool.csv"):
            (tmp_path / name).write_text("\n".join(lines) + "\n")
        line = ["train", "--gold", "gold.csv", "--pool", "pool.csv", "--method", "vanilla", "--student", "mlp:8"]
        files = [str(tmp_path / word) if word.endswith(".csv") else word for word in line]
        out = tmp_path / "run"
        more = ["--epochs", "2", "--quiet", "--track", "tensorboard", "--out", str(out)]
        result = CliRunner().invoke(cli.app, [*files, *more])
        assert result.exit_code == 0, result.output
        assert events(out / "tensorboard" / "vanilla-seed0")["loss"] == told(us.Run.load(out), "loss")


def assert_same_history(ours: us.Run, theirs: us.Run) -> None:
    assert [record["loss"] for record in ours.history] == [record["loss"] for record in theirs.history]


class Recorder:
    """As Weights & Biases' runs are."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, dict[str, float]]] = []
        self.finished = False

    def log(self, values: dict[str, float], step: int) -> None:
        self.rows.append((step, values))

    def finish(self) -> None:
        self.finished = True


def test_anything_with_log_is_a_tracker() -> None:
    logger = Recorder()
    run = train(us.LogTo(logger))
    assert [step for step, _ in logger.rows] == [1, 2, 3, 3]
    for record, (_, values) in zip(run.history, logger.rows, strict=False):
        assert values == {name: value for name, value in record.items() if name != "epoch"}
    assert logger.rows[-1][1]["facts/gold_rows"] == 60


def test_wandb_gets_a_run_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    logger, asked = Recorder(), {}

    def init(**options: Any) -> Recorder:
        asked.update(options)
        return logger

    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=init))
    train(us.WandB("labels"))
    assert (asked["project"], asked["name"], asked["config"]["lr"]) == ("labels", "slam-seed4", 0.02)
    assert len(logger.rows) == 4 and logger.finished


def test_mlflow_holds_settings_and_history(tmp_path: Path) -> None:
    mlflow = pytest.importorskip("mlflow", exc_type=ImportError)
    mlflow.set_tracking_uri((tmp_path / "mlruns").as_uri())
    run = train(us.MLflow("labels"))
    client = mlflow.tracking.MlflowClient()
    (found,) = client.search_runs([client.get_experiment_by_name("labels").experiment_id])
    assert found.data.params["lr"] == "0.02" and found.info.status == "FINISHED"
    stored = client.get_metric_history(found.info.run_id, "test_accuracy")
    assert [(one.step, one.value) for one in stored] == told(run, "test_accuracy")


@pytest.mark.parametrize(
    ("name", "package"), [("TensorBoard", "tensorboard"), ("MLflow", "mlflow"), ("WandB", "wandb")]
)
def test_an_extra_that_is_missing_is_named(name: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(us.UnderstudyError, match=rf"us\.{name} needs {package}: pip install"):
        getattr(us, name)()


def test_what_is_no_tracker_is_refused(tmp_path: Path) -> None:
    with pytest.raises(us.UnderstudyError, match=r"a dict has no log\(values, step=…\)"):
        us.LogTo({})
    words = ["train", "--gold", "g.csv", "--track", "paper", "--out", str(tmp_path / "run")]
    result = CliRunner().invoke(cli.app, words)
    assert (
        result.exit_code == 2 and "--track 'paper' is unknown; use one of tensorboard, mlflow, wandb" in result.output
    )
