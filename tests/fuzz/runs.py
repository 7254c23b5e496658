"""Folders of finished runs after an accident: every file of them damaged, missing, empty or another's."""

import functools
import json
import random
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from typer.testing import CliRunner

import understudy as us
from fuzz.damage import damaged
from fuzz.good import write_cells
from understudy import cli
from understudy.io.gold_pool import features_of, load_featuriser
from understudy.io.table import read_table
from understudy.store.checked_folder import listed_files

TRAIN = "--method vanilla --epochs 1 --lr 0.05 --quiet --seed 3"


@functools.cache
def finished(kind: str) -> Path:
    """A run, its pool (rows.jsonl), and what the undamaged student says of it (said.npy)."""
    home = Path(tempfile.mkdtemp(prefix="understudy-fuzz-"))
    words = ["good film", "bad film", "fine plot", "dull plot"]
    draw = random.Random(kind)
    cells: dict[str, list[Any]] = {"id": [f"r{row}" for row in range(12)]}
    if kind == "numbers":
        cells |= {name: [round(draw.gauss(0, 1), 3) for _ in range(12)] for name in ("width", "height")}
        cells |= {"colour": ["red", "blue"] * 6, "teacher_label": [0, 1, 2] * 4}
    else:
        cells |= {"text": [draw.choice(words) for _ in range(12)], "teacher_label": ["neg", "pos"] * 6}
    write_cells(home / "rows.jsonl", cells)
    asked = "--student mlp:4" if kind == "numbers" else "--student linear --text text --ema"
    line = f"train --pool {home / 'rows.jsonl'} --out {home / 'run'} {asked} {TRAIN}"
    result = CliRunner().invoke(cli.app, line.split())
    assert result.exit_code == 0, result.output
    (home / "run" / "report.html").unlink()
    np.save(home / "said.npy", predictions(home / "run", home / "rows.jsonl").numpy())
    return home


def predictions(folder: Path, file: Path) -> torch.Tensor:
    run = us.Run.load(folder)
    table = read_table(file, columns=run.config.get("columns"))
    return run.predict(features_of(table, load_featuriser(folder, run.config, table)))


def spoiled_run(draw: random.Random, given: Path) -> tuple[Path, Path, str]:
    """A copy of a run with one file spoiled; its pool; and the name of that file."""
    home = finished(draw.choice(["numbers", "text"]))
    folder = given / "run"
    shutil.copytree(home / "run", folder)
    names = sorted(
        path.name for path in folder.iterdir() if path.is_file() and path.name not in (".lock", "request.json")
    )
    victim = folder / draw.choice(names)
    content = victim.read_bytes()
    what = draw.choice(["damaged", "damaged", "damaged", "damaged", "empty", "missing", "other", "value"])
    if what == "missing":
        victim.unlink()
    elif what == "empty":
        victim.write_bytes(b"")
    elif what == "other":
        victim.write_bytes((folder / draw.choice(names)).read_bytes())
    elif what == "value" and victim.suffix == ".json":
        victim.write_text(json.dumps(_other_value(json.loads(content), draw)))
    else:
        victim.write_bytes(damaged(content, draw))
    return folder, home, victim.name


def _other_value(content: dict[str, Any], draw: random.Random) -> Any:
    key = draw.choice(sorted(content))
    odd: list[Any] = [
        None,
        0,
        -1,
        10**9,
        "x",
        [],
        {},
        [None],
        {"name": "mlp"},
        {"name": "mlp", "args": {"inputs": 10**12}},
    ]
    odd += [
        {"name": "mlp", "args": {"inputs": 3, "hidden": [10**9, 10**9], "classes": 3}},
        {"name": "os.system"},
        True,
        "\0",
    ]
    return draw.choice([{**content, key: draw.choice(odd)}, {k: v for k, v in content.items() if k != key}, [content]])


def damaged_run(draw: random.Random, given: Path, made: Path) -> None:
    folder, home, name = spoiled_run(draw, given)
    run = us.Run.load(folder)
    vouched = bool(listed_files(folder / "config.json"))
    assert all(isinstance(record, dict) for record in run.history)
    assert all(isinstance(column, torch.Tensor) for column in run.columns.values())
    said = predictions(folder, home / "rows.jsonl")
    assert bool(((said.sum(1) - 1).abs() < 1e-4).all()), "probabilities that do not sum to 1"
    if not vouched:
        return
    torch.testing.assert_close(said, torch.from_numpy(np.load(home / "said.npy")), msg=lambda text: f"{name}: {text}")
