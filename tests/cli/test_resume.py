"""``understudy train --resume``, and what is warned of before training."""

import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from understudy import cli
from understudy.parallel import executors
from understudy.reconciling.cross_fitting import CrossFit
from understudy.store.files import locked
from understudy.training.checkpoint import Checkpoints


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(130, 9)).astype(np.float32)
    y = rng.integers(0, 2, 130)
    np.savez("gold.npz", id=np.arange(40), x=x[:40], label=y[:40], teacher_label=y[:40])
    np.savez("pool.npz", id=np.arange(40, 100), x=x[40:100], teacher_label=y[40:100])
    np.savez("test.npz", id=np.arange(100, 130), x=x[100:], label=y[100:])
    np.savez("copied.npz", id=np.arange(200, 230), x=np.concatenate([x[:3], x[103:]]), label=y[100:])
    return tmp_path


def understudy(line: str, *, code: int = 0) -> Result:
    result = CliRunner().invoke(cli.app, line.split())
    assert result.exit_code == code, result.output
    return result


TRAIN = "train --gold gold.npz --pool pool.npz --test {test} --epochs 4 --student mlp:8 --batch-size 16 --ema"
SLAM = f"{TRAIN} --method slam"


def test_a_stopped_command_goes_on(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line = SLAM.format(test="test.npz") + " --checkpoint-every 2"
    understudy(f"{line} --out whole")
    real, calls = Checkpoints.save, 0

    def stop(self: Checkpoints, *rest: object) -> None:
        nonlocal calls
        calls += 1
        if calls == 6:
            raise KeyboardInterrupt
        real(self, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(Checkpoints, "save", stop)
    understudy(f"{line} --out stopped", code=130)
    monkeypatch.setattr(Checkpoints, "save", real)
    understudy("predict stopped test.npz --out early.csv", code=2)
    understudy("train --resume --out stopped")
    for name in ("student.safetensors", "columns.parquet", "ema.safetensors"):
        assert (folder / "stopped" / name).read_bytes() == (folder / "whole" / name).read_bytes(), name
    understudy("predict stopped test.npz --out late.csv")
    assert (folder / "stopped" / "report.html").exists()


def test_ids_may_be_words(folder: Path) -> None:
    """Arrays of texts lie elsewhere in memory in every process; what they say is the same."""
    rng = np.random.default_rng(0)
    for name, kinds in (("gold", "label,teacher_label"), ("pool", "other,teacher_label")):
        lines = [f"{name}{row},{rng.normal():.3f},{row % 2},{row % 2}" for row in range(40)]
        (folder / f"{name}.csv").write_text("\n".join([f"id,a,{kinds}", *lines]))
    files = "--gold gold.csv --pool pool.csv --use a --student linear --quiet"
    understudy(f"train {files} --epochs 2 --out run")
    understudy("train --resume --out run")
    line = f"compare {files} --epochs 1 --seeds 1 --workers 1 --out cmp"
    assert understudy(line).stdout == understudy(line).stdout


def test_a_pilot_decides_and_both_halves_go_on(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "usable_cores", lambda: 1)
    line = TRAIN.format(test="test.npz") + " --method auto --option pilot_rows=40 --option folds=2"
    output = understudy(f"{line} --out whole").stdout
    assert "gold rows in a pilot on 40 pool rows" in " ".join(output.split()) and "\nChosen: " in output
    assert "Chosen" in (folder / "whole" / "report.html").read_text()
    real, calls = CrossFit.predict_part, 0

    def stop(self: CrossFit, part: tuple[str, int]) -> object:
        nonlocal calls
        calls += 1
        if calls == 4:
            raise KeyboardInterrupt
        return real(self, part)

    monkeypatch.setattr(CrossFit, "predict_part", stop)
    understudy(f"{line} --out stopped", code=130)
    monkeypatch.setattr(CrossFit, "predict_part", real)
    assert "go on with" in understudy(f"{line} --out stopped", code=2).stderr
    understudy("train --resume --out stopped")
    assert not (folder / "stopped" / "pilot").exists()
    for name in ("student.safetensors", "ema.safetensors"):
        assert (folder / "stopped" / name).read_bytes() == (folder / "whole" / name).read_bytes(), name
    understudy("predict stopped test.npz --out late.csv")


def test_a_pilot_needs_gold_and_a_pool(folder: Path) -> None:
    error = understudy("train --gold gold.npz --epochs 1 --method auto --out run", code=2).stderr
    assert error == "error: auto needs gold and a pool: us.Gold(x, y, teacher=…) and us.Pool(x, teacher)\n"
    assert not (folder / "run").exists()
    error = understudy("train --gold gold.npz --pool pool.npz --epochs 1 --method auto --option k=2 --out run", code=2)
    assert "unknown option 'k' of auto; it takes reconcile, pilot_rows, pilot_epochs, folds, workers" in error.stderr


def test_a_command_killed_once_the_run_is_there_loses_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    rows = [f"{k},{rng.normal(50, 20)},{rng.normal()},{'cat' if k % 2 else 'dog'}" for k in range(60)]
    Path("animals.csv").write_text("id,weight,age,label\n" + "\n".join(rows) + "\n")
    others = [f"{k},{rng.normal(50, 20)},{rng.normal()}" for k in range(60, 120)]
    Path("others.csv").write_text("id,weight,age\n" + "\n".join(others) + "\n")

    def die(*rest: object, **options: object) -> None:
        raise KeyboardInterrupt

    line = "train --gold animals.csv --epochs 3 --student mlp:8 --ema --method vanilla"
    understudy(f"{line} --out whole")
    monkeypatch.setattr(sys.modules["understudy.training.train"], "drop_checkpoints", die)
    understudy(f"{line} --out killed", code=130)
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    for name in ("whole", "killed"):
        understudy(f"predict {name} animals.csv --out {name}.csv")
        understudy(f"select {name} others.csv --strategy s_badge -n 5 --out {name}.parquet")
    assert Path("killed.csv").read_text() == Path("whole.csv").read_text()
    assert "cat" in Path("killed.csv").read_text()


def test_resuming_a_run_under_way_leaves_it_alone(folder: Path) -> None:
    understudy(SLAM.format(test="test.npz") + " --out run")
    for path in list(Path("run").iterdir()):
        if path.name not in (".lock", "request.json"):
            path.unlink()
    before = {path.name for path in Path("run").iterdir()}
    with locked(Path("run")):
        assert "being written by another process" in understudy("train --resume --out run", code=2).stderr
    assert {path.name for path in Path("run").iterdir()} >= before


def test_changed_files_do_not_touch_the_run(folder: Path) -> None:
    line = "--epochs 2 --student mlp:8 --method vanilla --out run"
    Path("gold.csv").write_text("a,label\n" + "".join(f"{k},{k % 2}\n" for k in range(40)))
    understudy(f"train --gold gold.csv {line}")
    before = {path.name: path.read_bytes() for path in Path("run").iterdir()}
    Path("gold.csv").write_text("a,label\n" + "".join(f"{3 * k},{k % 2}\n" for k in range(39)))
    assert "another gold" in understudy("train --resume --out run", code=2).stderr
    assert {path.name: path.read_bytes() for path in Path("run").iterdir()} == before


def test_resume_takes_no_other_arguments(folder: Path) -> None:
    understudy(SLAM.format(test="test.npz") + " --out run")
    assert "leave out --lr" in understudy("train --resume --out run --lr 0.1", code=2).stderr
    assert "no request.json" in understudy("train --resume --out nowhere", code=2).stderr
    # A finished run has nothing to go on with, and says how it ended.
    assert "Run: run" in understudy("train --resume --out run").stdout


def test_rows_shared_by_gold_and_test_are_warned_of(folder: Path) -> None:
    output = understudy(SLAM.format(test="copied.npz") + " --out run").stderr
    assert "warning: 3 of" in output and "test" in output and "gold" in output
    assert "warning: 3 of" not in understudy(SLAM.format(test="test.npz") + " --out other").stderr
