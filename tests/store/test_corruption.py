"""Every file of a run, a comparison, a label store and a loop, damaged, cut, deleted, exchanged: found, or no matter.

Ten accidents a file; the slow test has a hundred.
"""

import json
import random
import shutil
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import understudy as us
from fuzz.damage import damaged
from understudy import cli
from understudy.active import Loop
from understudy.comparison.outcome import Comparison
from understudy.inference.passes import predict
from understudy.tables.read import rows_for
from understudy.tables.table import read_table

GENERATOR = torch.Generator().manual_seed(0)
Y = torch.randint(3, (90,), generator=GENERATOR)
X = 2 * torch.eye(3, 4)[Y] + torch.randn(90, 4, generator=GENERATOR)
STUDENT = partial(us.models.linear, 4, 3)
IDS = [f"row{number}" for number in range(40)]


def make_run(folder: Path, seed: int) -> None:
    gold, select = folder.with_suffix(".csv"), folder.with_name(f"{folder.name}-select.csv")
    for path, rows in ((gold, range(40)), (select, range(40, 60))):
        cells = "".join(f"{k},{100 * X[k, 0]:.3f},{X[k, 1]:.3f},{int(Y[k])}\n" for k in rows)
        path.write_text("id,weight,age,label\n" + cells)
    line = f"train --gold {gold} --select {select} --method vanilla --ema"
    line += f" --student linear --epochs 2 --quiet --seed {seed} --out {folder}"
    result = CliRunner().invoke(cli.app, line.split())
    assert result.exit_code == 0, result.output
    (folder / "report.html").unlink()


def use_run(folder: Path, whole: Path) -> Any:
    run = us.Run.load(folder, must_be_sealed=True)
    assert run.ema is not None
    rows = rows_for(folder, run.config, read_table(whole.with_suffix(".csv")))
    students = (run.student, run.ema.module, run.selected())
    said = [predict(one, rows).tolist() for one in students]
    return [run.history, run.facts, {name: one.tolist() for name, one in run.columns.items()}, said]


def compare(folder: Path) -> Comparison:
    teacher = (Y + (torch.arange(90) % 4 == 0).long()) % 3
    gold = us.Gold(X[:30], Y[:30], us.Hard(teacher[:30]))
    return us.compare(
        STUDENT, gold, us.Pool(X[30:60], us.Hard(teacher[30:60])), ["gce"], seeds=2, out=folder, epochs=1,
        batch_size=16, pretrain_epochs=1, test=us.Gold(X[60:], Y[60:]), workers=1, progress=False,
    )  # fmt: skip


def make_comparison(folder: Path, seed: int) -> None:
    compare(folder)
    if seed:  # another comparison, with the same cells
        shutil.rmtree(folder)
        us.compare(
            STUDENT, us.Gold(X[:30], Y[:30], us.Hard(Y[:30])), us.Pool(X[30:60], us.Hard(Y[30:60])), ["gce"], seeds=2,
            out=folder, epochs=1, batch_size=16, pretrain_epochs=1, workers=1, progress=False,
        )  # fmt: skip


def use_comparison(folder: Path, whole: Path) -> Any:
    # One cell is made anew, from the start that is there.
    (folder / "cells" / "gce-0.json").unlink(missing_ok=True)
    return compare(folder).as_dict()


def make_store(folder: Path, seed: int) -> None:
    with us.LabelStore(folder, ["a", "b", "c"], "hard") as store:
        for start in range(0, 40, 20):
            store.append(IDS[start : start + 20], (Y[start : start + 20].numpy() + seed) % 3)
            store.flush()


def use_store(folder: Path, whole: Path) -> Any:
    store = us.LabelStore(folder)
    return [store.classes, store.form, len(store), store.missing(IDS).tolist(), store.labels(IDS).top1().tolist()]


def run_loop(folder: Path, seed: int = 0, budget: int = 30) -> Any:
    oracle: Callable[[Any], Any] = lambda rows: Y[rows]  # noqa: E731
    student = partial(us.models.mlp, 4, 3, hidden=(6,))
    loop = Loop(
        student, X, oracle, "s_badge", out=folder, start=15, batch=5, budget=budget, epochs=3, batch_size=8,
        seed=seed, ids=np.arange(90) + seed, progress=False,
    )  # fmt: skip
    result = loop.run()
    records = [{name: value for name, value in record.items() if name != "seconds"} for record in result.records]
    assert result.run is not None
    return [result.rows.tolist(), result.labels.tolist(), json.dumps(records), result.run.predict(X).tolist()]


def make_loop(folder: Path, seed: int) -> None:
    run_loop(folder, seed, budget=25)


def use_loop(folder: Path, whole: Path) -> Any:
    return run_loop(folder)


KINDS: dict[str, tuple[Callable[[Path, int], None], Callable[[Path, Path], Any]]] = {
    "run": (make_run, use_run),
    "comparison": (make_comparison, use_comparison),
    "store": (make_store, use_store),
    "loop": (make_loop, use_loop),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    home = tmp_path_factory.mktemp("made")

    def make(kind: str) -> Path:
        if not (home / kind).exists():
            for number, name in enumerate((kind, f"{kind}-other")):
                KINDS[kind][0](home / name, number)
        return home / kind

    return make


def spoil(folder: Path, name: str, other: Path, what: str, draw: random.Random) -> None:
    path = folder / name
    content = path.read_bytes()
    if what == "deleted":
        path.unlink()
    elif what == "cut":
        path.write_bytes(content[: draw.randrange(len(content))])
    elif what == "anothers":  # of the same name where there is one, in another folder of the same kind
        same = [one for one in other.rglob("*") if one.name == path.name] or [
            one for one in sorted(other.rglob(f"*{path.suffix}")) if one.is_file()
        ]
        path.write_bytes(draw.choice(same).read_bytes())
    elif what == "exchanged":  # two files of one folder
        mates = [one for one in sorted(path.parent.iterdir()) if one.suffix == path.suffix and one != path]
        mate = draw.choice(mates) if mates else path
        path.write_bytes(mate.read_bytes())
        mate.write_bytes(content)
    else:
        path.write_bytes(damaged(content, draw))


ACCIDENTS = ("deleted", "cut", "anothers", "exchanged")


def check_accidents(kind: str, whole: Path, tmp_path: Path, count: int) -> None:
    use = KINDS[kind][1]
    shutil.copytree(whole, tmp_path / "copy")
    right = use(tmp_path / "copy", whole)
    names = sorted(path.relative_to(whole).as_posix() for path in whole.rglob("[!.]*") if path.is_file())
    found = 0
    for name in names:
        draw = random.Random(f"{kind} {name}")
        for number in range(count):
            shutil.rmtree(tmp_path / "copy")
            shutil.copytree(whole, tmp_path / "copy")
            what = ACCIDENTS[number] if number < len(ACCIDENTS) else draw.choice(["cut", *["damaged"] * 5])
            spoil(tmp_path / "copy", name, whole.with_name(f"{whole.name}-other"), what, draw)
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", us.UnderstudyWarning)
                    outcome = use(tmp_path / "copy", whole)
            except us.UnderstudyError as error:
                assert str(tmp_path) in str(error), f"{name} {what} {number}: {error} does not say where"
                found += 1
            else:
                assert outcome == right, f"{name} {what} {number} was not noticed"
    assert found > len(names) * count / 3


@pytest.mark.parametrize("kind", KINDS)
def test_ten_accidents_a_file(kind: str, made: Callable[[str], Path], tmp_path: Path) -> None:
    check_accidents(kind, made(kind), tmp_path, 10)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_hundred_accidents_a_file(kind: str, made: Callable[[str], Path], tmp_path: Path) -> None:
    check_accidents(kind, made(kind), tmp_path, 100)


@pytest.mark.parametrize("kind", KINDS)
def test_verify_finds_what_matters(kind: str, made: Callable[[str], Path], tmp_path: Path) -> None:
    """Every file, but for the report, is named: whole before, not whole with one byte more or without it."""
    folder = tmp_path / "copy"
    shutil.copytree(made(kind), folder)
    assert CliRunner().invoke(cli.app, ["verify", str(folder)]).exit_code == 0
    for path in sorted(folder.rglob("[!.]*")):
        content = path.read_bytes() if path.is_file() else b""
        if content:
            path.write_bytes(content[:-2] + b"00")
            result = CliRunner().invoke(cli.app, ["verify", str(folder)])
            assert result.exit_code == 2 and "NOT WHOLE" in result.stdout, path
            path.write_bytes(content)
