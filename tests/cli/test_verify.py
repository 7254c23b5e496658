"""``understudy verify``; runs that are not as they were written; two trainings in one folder."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import understudy as us
from understudy import cli
from understudy.store.files import locked

TRAIN = "train --gold gold.csv --method vanilla --student linear --epochs 2 --ema --quiet"


def understudy(line: str, *, code: int = 0) -> Result:
    result = CliRunner().invoke(cli.app, line.split())
    assert result.exit_code == code, result.output
    return result


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("trained")
    rng = np.random.default_rng(0)
    rows = [f"{k},{rng.normal(500, 200):.3f},{rng.normal():.3f},{k % 2}" for k in range(40)]
    (home / "gold.csv").write_text("id,weight,age,label\n" + "\n".join(rows) + "\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        understudy(f"{TRAIN} --out run")
        understudy(f"{TRAIN} --seed 1 --no-scale --out other")
    return home


@pytest.fixture
def folder(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(trained, tmp_path / "home")
    monkeypatch.chdir(tmp_path / "home")
    return tmp_path / "home"


def test_an_unchanged_run(folder: Path) -> None:
    said = understudy("verify run").stdout
    assert "the run in run is unchanged: " in said and "CHANGED" not in said
    for name in ("config.json", "features.json", "features.safetensors", "request.json", "ema.safetensors"):
        assert f"unchanged  run/{name}\n" in said
    assert "holds no finished run" in understudy("verify .", code=2).stderr


@pytest.mark.parametrize("change", ["deleted", "exchanged", "edited"])
@pytest.mark.parametrize("name", ["features.json", "request.json", "ema.safetensors", "metrics.jsonl"])
def test_what_does_not_fit_is_refused(folder: Path, name: str, change: str) -> None:
    path = folder / "run" / name
    if change == "deleted":
        path.unlink()
    elif change == "exchanged":
        shutil.copy(folder / "other" / name, path)
    else:
        path.write_bytes(path.read_bytes().replace(b"1", b"2", 1))
    for line in (
        "predict run gold.csv --out new.csv",
        "select run gold.csv -n 2 --out batch.csv",
        "export run --out student.safetensors",
    ):
        assert f"run/{name} " in understudy(line, code=2).stderr
    assert f"CHANGED  run/{name} " in understudy("verify run", code=2).stdout
    assert not {"new.csv", "batch.csv", "student.safetensors"} & {path.name for path in folder.iterdir()}


def test_a_file_that_came_later_is_refused(folder: Path) -> None:
    shutil.copy(folder / "run" / "student.safetensors", folder / "run" / "selected.safetensors")
    said = understudy("predict run gold.csv --selected --out new.csv", code=2).stderr
    assert "selected.safetensors was added after the run was written; remove it" in said


def test_a_run_without_checksums_is_refused(folder: Path) -> None:
    config = json.loads(Path("run/config.json").read_text())
    del config["sha256"], config["manifest_sha256"]
    Path("run/config.json").write_text(json.dumps(config))
    assert "config.json has no checksum" in understudy("predict run gold.csv --out old.csv", code=2).stderr
    understudy("verify run", code=2)


def test_a_saved_copy_takes_its_features_along(folder: Path) -> None:
    us.Run.load("run").save("copy")
    for name in ("run", "copy"):
        understudy(f"predict {name} gold.csv --out {name}.csv")
    assert Path("copy.csv").read_bytes() == Path("run.csv").read_bytes()
    us.Run.load("other").save("copy")
    understudy("verify copy")


def test_a_second_training_writes_nothing(folder: Path) -> None:
    """Not even before it has read its files."""
    shutil.rmtree(folder / "run")
    Path("run").mkdir()
    for name in ("request.json", "features.json", "features.safetensors"):
        shutil.copy(f"other/{name}", f"run/{name}")
    with locked(Path("run")):
        before = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in Path("run").iterdir()}
        line = f"{TRAIN} --out run"
        done = subprocess.run([sys.executable, "-m", "understudy", *line.split()], capture_output=True, text=True)
        after = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in Path("run").iterdir()}
    assert done.returncode == 2 and "being written by another process" in done.stderr
    assert after == before


def test_a_training_whose_features_are_exchanged_meanwhile_does_not_end_well(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = us.Run.save

    def save(self: us.Run, out: str | Path) -> None:
        shutil.copy("other/features.json", Path(out) / "features.json")
        real(self, out)

    monkeypatch.setattr(us.Run, "save", save)
    assert "features.json is damaged" in understudy(f"{TRAIN} --out new", code=2).stderr
    assert not Path("new/config.json").exists()
