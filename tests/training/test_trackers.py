"""Trackers: what they were sent is what the run says, read back from their own files."""

import json
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

import understudy as us
from understudy import cli
from understudy.training.callbacks import TrainingView
from understudy.training.fit import Training

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


def settings(run: us.Run, name: str) -> list[tuple[int, float]]:
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
            assert found[name] == settings(run, name)
        assert found["facts/slam.mean_alpha"] == [(3, pytest.approx(run.facts["slam.mean_alpha"], rel=1e-6))]
        assert_same_history(run, train())

    def test_what_was_written_after_the_last_checkpoint_is_logged_once(self, tmp_path: Path) -> None:
        with pytest.raises(RuntimeError):
            train(us.TensorBoard(), Stumble(), out=tmp_path / "run")
        run = train(us.TensorBoard(), out=tmp_path / "run", resume=True)
        assert events(tmp_path / "run" / "tensorboard" / "slam-seed4")["loss"] == settings(run, "loss")

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
        assert events(out / "tensorboard" / "vanilla-seed0")["loss"] == settings(us.Run.load(out), "loss")


def assert_same_history(ours: us.Run, theirs: us.Run) -> None:
    assert [record["loss"] for record in ours.history] == [record["loss"] for record in theirs.history]


class Recorder:
    """As Weights & Biases' runs are."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, dict[str, float]]] = []
        self.finished = False

    def log(self, values: dict[str, float], step: int) -> None:
        self.rows.append((step, values))

    def finish(self, exit_code: int) -> None:
        self.finished = exit_code == 0


def test_anything_with_log_is_a_tracker() -> None:
    logger = Recorder()
    run = train(us.LogTo(logger))
    assert [step for step, _ in logger.rows] == [1, 2, 3, 3]
    for record, (_, values) in zip(run.history, logger.rows, strict=False):
        assert values == {name: value for name, value in record.items() if name != "epoch"}
    assert logger.rows[-1][1]["facts/gold_rows"] == 60


def test_wandb_gets_a_run_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    logger, init_options = Recorder(), {}

    def init(**options: Any) -> Recorder:
        init_options.update(options)
        return logger

    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=init))
    train(us.WandB("labels"))
    assert (init_options["project"], init_options["name"], init_options["config"]["lr"]) == (
        "labels",
        "slam-seed4",
        0.02,
    )
    assert init_options["reinit"] == "create_new"
    assert len(logger.rows) == 4 and logger.finished


class Stumble(us.Callback):
    """Fails after the second epoch."""

    def on_epoch(self, view: TrainingView) -> None:
        if view.epoch == 2:
            raise RuntimeError("a power cut")


def test_callbacks_that_saw_the_start_see_a_failure() -> None:
    calls: list[str] = []

    class Recording(us.Callback):
        def on_start(self, view: TrainingView) -> None:
            calls.append("start")

        def on_failure(self, view: TrainingView) -> None:
            calls.append(f"failure at {view.epoch}")
            raise ValueError("not what the user must read")

    with pytest.raises(RuntimeError, match="a power cut"):
        train(Recording(), Stumble())
    assert calls == ["start", "failure at 2"]


def test_a_training_resumed_in_fine_tuning_is_logged_in_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    how: dict[str, Any] = {"out": tmp_path / "run", "finetune_epochs": 2}

    def cut(self: Training, phase: str, *rest: Any) -> None:
        original(self, phase, *rest)
        if phase == "finetune":
            raise RuntimeError("a power cut")

    original = Training._epochs
    with monkeypatch.context() as patched, pytest.raises(RuntimeError):
        patched.setattr(Training, "_epochs", cut)
        train(**how)
    logger = Recorder()
    run = train(us.LogTo(logger), **how, resume=True)
    assert [(step, "loss" in values) for step, values in logger.rows] == [
        (1, True),
        (2, True),
        (3, True),
        (3, False),
    ] and len(run.history) == 3


@pytest.mark.filterwarnings("ignore")
class TestMLflow:
    """Against the package itself, in a database of its own."""

    @pytest.fixture
    def client(self, tmp_path: Path) -> Iterator[Any]:
        mlflow = pytest.importorskip("mlflow", exc_type=ImportError)
        before = mlflow.get_tracking_uri()
        mlflow.set_tracking_uri(f"sqlite:///{tmp_path / 'mlflow.db'}")
        yield mlflow.tracking.MlflowClient()
        mlflow.set_tracking_uri(before)

    def runs(self, client: Any) -> list[Any]:
        found: list[Any] = client.search_runs([client.get_experiment_by_name("labels").experiment_id])
        return found

    def test_it_holds_settings_and_history(self, client: Any) -> None:
        run = train(us.MLflow("labels"))
        (found,) = self.runs(client)
        assert found.data.params["lr"] == "0.02" and found.info.status == "FINISHED"
        for name in set(run.history[0]) - {"epoch"}:
            stored = client.get_metric_history(found.info.run_id, name)
            assert [(one.step, one.value) for one in stored] == settings(run, name)
        assert found.data.metrics["facts/slam.mean_alpha"] == run.facts["slam.mean_alpha"]

    def test_a_failed_training_ends_its_run_and_a_run_of_the_user_stays_open(self, client: Any) -> None:
        import mlflow

        with pytest.raises(RuntimeError):
            train(us.MLflow("labels"), Stumble())
        assert mlflow.active_run() is None
        mlflow.set_experiment("labels")
        with mlflow.start_run(run_name="mine") as mine:
            train(us.MLflow("labels"))
            assert mlflow.active_run().info.run_id == mine.info.run_id
        states = {one.info.run_name: one for one in self.runs(client) if one.info.status == "FINISHED"}
        assert [one.info.status for one in self.runs(client)].count("FAILED") == 1
        assert set(states) == {"mine", "slam-seed4"}
        assert states["slam-seed4"].data.tags["mlflow.parentRunId"] == mine.info.run_id


@pytest.mark.filterwarnings("ignore")
class TestWandB:
    """Against the package itself, offline: what it would send stands in a file."""

    @pytest.fixture(autouse=True)
    def _offline(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        wandb = pytest.importorskip("wandb", exc_type=ImportError)
        for name, value in {"MODE": "offline", "DIR": str(tmp_path), "SILENT": "true"}.items():
            monkeypatch.setenv(f"WANDB_{name}", value)
        yield
        wandb.teardown()  # else the next test's files would go where these went

    def runs(self, folder: Path) -> dict[str, tuple[int, list[dict[str, float]]]]:
        """By project: exit code and rows."""
        import wandb
        from wandb.proto import wandb_internal_pb2 as messages

        wandb.teardown()  # the process that writes the files has ended
        found = {}
        for path in (folder / "wandb").glob("offline-run-*/*.wandb"):
            project, code, rows = "", -1, []
            for content in stored_records(path.read_bytes()):
                record = messages.Record()
                record.ParseFromString(content)
                if record.WhichOneof("record_type") == "run":
                    project = record.run.project
                elif record.WhichOneof("record_type") == "exit":
                    code = record.exit.exit_code
                elif record.WhichOneof("record_type") == "history":
                    items = {one.key or "/".join(one.nested_key): one.value_json for one in record.history.item}
                    rows.append({name: json.loads(value) for name, value in items.items()})
            found[project] = (code, rows)
        return found

    def test_its_file_holds_the_history(self, tmp_path: Path) -> None:
        run = train(us.WandB("labels"))
        code, rows = self.runs(tmp_path)["labels"]
        assert code == 0 and [row["_step"] for row in rows] == [1, 2, 3]
        for name in set(run.history[0]) - {"epoch"}:
            assert [(row["_step"], row[name]) for row in rows] == settings(run, name)
        assert rows[-1]["facts/slam.mean_alpha"] == run.facts["slam.mean_alpha"]

    def test_a_run_of_the_user_stays_theirs_and_a_failure_is_one(self, tmp_path: Path) -> None:
        import wandb

        mine = wandb.init(project="mine")
        train(us.WandB("labels"))
        mine.log({"own": 1.0})
        with pytest.raises(RuntimeError):
            train(us.WandB("failed"), Stumble())
        mine.finish()
        found = self.runs(tmp_path)
        assert {project: code for project, (code, _) in found.items()} == {"mine": 0, "labels": 0, "failed": 1}
        assert len(found["labels"][1]) == 3 and len(found["failed"][1]) == 2
        assert ["own" in row and "loss" not in row for row in found["mine"][1]] == [True]


def stored_records(content: bytes) -> Iterator[bytes]:
    """Of LevelDB's log format: blocks of 32 KB, each record in one piece or in several."""
    at, pieces = 7, b""
    assert content.startswith(b":W&B")
    while at + 7 <= len(content):
        left = 32768 - at % 32768
        if left < 7:
            at += left
            continue
        size, kind = struct.unpack("<HB", content[at + 4 : at + 7])
        pieces += content[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (1, 4):  # whole, or the last piece
            yield pieces
            pieces = b""


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
