"""``understudy upgrade``: what older versions wrote is as good afterwards as what this one writes, or untouched."""

import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner, Result

import understudy as us
from understudy import cli
from understudy.store import files
from understudy.store.seal import unsealed

Y = torch.arange(40) % 2
X = torch.eye(2)[Y] + torch.arange(80).reshape(40, 2) / 100
STUDENT = partial(us.models.linear, 2, 2)


def understudy(line: str, *, code: int = 0) -> Result:
    result = CliRunner().invoke(cli.app, line.split())
    assert result.exit_code == code, result.output
    return result


def make_run() -> None:
    cells = "".join(f"{100 * X[k, 0]:.2f},{X[k, 1]:.2f},{int(Y[k])}\n" for k in range(40))
    Path("gold.csv").write_text("weight,age,label\n" + cells)
    understudy("train --gold gold.csv --method vanilla --student linear --epochs 2 --ema --quiet --out old")


def age(path: Path, format: int) -> None:
    """As it was before anything was sealed."""
    content = {name: value for name, value in unsealed(json.loads(path.read_text())).items() if name != "of"}
    path.write_text(json.dumps({**content, "format": format} if "format" in content else content))


def age_run(folder: Path = Path("old")) -> None:
    age(folder / "config.json", 1)
    if (folder / "request.json").exists():
        age(folder / "request.json", 1)


def make_store() -> None:
    with us.LabelStore("old", ["a", "b"], "hard") as store:
        store.append(range(5), [0, 1, 0, 1, 1])


def age_store() -> None:
    age(Path("old/store.json"), 1)


def make_comparison() -> None:
    us.compare(
        STUDENT, us.Gold(X[:20], Y[:20], us.Hard(Y[:20])), us.Pool(X[20:], us.Hard(Y[20:])), ["vanilla"], seeds=1,
        out="old", epochs=1, batch_size=16, pretrain_epochs=1, select=0.2, workers=1, progress=False,
    )  # fmt: skip


def age_comparison() -> None:
    for path in [*Path("old").glob("*.json"), *Path("old").glob("cells/*.json")]:
        age(path, 2)
    for path in Path("old").glob("starts/*.json"):
        path.unlink()


def make_loop() -> None:
    us.active.Loop(STUDENT, X, Y, "entropy", out="old", start=20, batch=5, budget=25, epochs=1, progress=False).run()


def age_loop() -> None:
    age(Path("old/state.json"), 1)
    age_run(Path("old/round-001"))


KINDS: dict[str, tuple[Callable[[], None], Callable[[], None], str]] = {
    "run": (make_run, age_run, "student.safetensors"),
    "label store": (make_store, age_store, "00000001-*.parquet"),
    "comparison": (make_comparison, age_comparison, "cells/vanilla-0.json"),
    "loop": (make_loop, age_loop, "round-001/student.safetensors"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_upgraded_once_and_then_left_alone(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    make, make_older, _ = KINDS[kind]
    make()
    shutil.copytree("old", "new")
    understudy("verify old")
    make_older()
    understudy("verify old", code=2)
    assert f"the {kind} in old was of format " in understudy("upgrade old").stdout
    understudy("verify old")
    before = {path: path.stat().st_mtime_ns for path in Path("old").rglob("*") if path.name != ".lock"}
    assert "nothing to do" in understudy("upgrade old").stdout
    assert before == {path: path.stat().st_mtime_ns for path in Path("old").rglob("*") if path.name != ".lock"}


@pytest.mark.parametrize("kind", KINDS)
def test_what_cannot_be_read_is_refused_and_untouched(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    make, make_older, damaged = KINDS[kind]
    make()
    make_older()
    path = next(Path("old").glob(damaged))
    path.write_bytes(path.read_bytes()[:-7])
    before = {path: path.read_bytes() for path in Path("old").rglob("*") if path.is_file() and path.name != ".lock"}
    assert path.name in understudy("upgrade old", code=2).stderr
    assert before == {one: one.read_bytes() for one in before}


def test_a_run_that_nobody_can_read_right_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    make_run()
    age_run()
    config = json.loads(Path("old/config.json").read_text())
    Path("old/features.json").rename("features.json")
    assert "has no features.json that says how to read them" in understudy("upgrade old", code=2).stderr
    Path("features.json").rename("old/features.json")
    for changed, said in (
        ({**config, "format": 9}, "is of another version of understudy (format 9"),
        ({name: value for name, value in config.items() if name != "facts"}, "lacks facts"),
        ({**config, "sha256": {"": "0"}}, "is not as it was written"),
    ):
        Path("old/config.json").write_text(json.dumps(changed))
        assert said in understudy("upgrade old", code=2).stderr


def test_killed_in_between_it_is_of_one_format_or_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After any number of files written, the same command goes on, to what nobody disturbed."""
    monkeypatch.chdir(tmp_path)
    make_comparison()
    age_comparison()
    shutil.copytree("old", "whole")
    understudy("upgrade whole")
    real, left = files.write_bytes, 0

    def write(path: Path, content: bytes) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise KeyboardInterrupt
        real(path, content)

    monkeypatch.setattr(files, "write_bytes", write)
    for number in range(3):
        left = number
        understudy("upgrade old", code=130)
        assert json.loads(Path("old/settings.json").read_text())["format"] == 2
    left = 100
    understudy("upgrade old")
    for path in Path("whole").rglob("*.json"):
        assert (Path("old") / path.relative_to("whole")).read_bytes() == path.read_bytes()


def test_a_student_of_ones_own(tmp_path: Path) -> None:
    """Only Python can build it; its files are looked at."""
    net = partial(torch.nn.Linear, 2, 2)
    us.train(net, us.Gold(X, Y), None, us.vanilla(), epochs=1, out=tmp_path / "run", progress=False)
    age_run(tmp_path / "run")
    weights = tmp_path / "run" / "student.safetensors"
    content = weights.read_bytes()
    weights.write_bytes(content[:-7])
    assert "student.safetensors" in understudy(f"upgrade {tmp_path / 'run'}", code=2).stderr
    weights.write_bytes(content)
    understudy(f"upgrade {tmp_path / 'run'}")
    us.Run.load(tmp_path / "run", student=net(), must_be_sealed=True)
