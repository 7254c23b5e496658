"""``understudy compare`` end to end: files in, table, words and report out."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from understudy import cli
from understudy.io.write import write_table

pytestmark = pytest.mark.pictures


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    rng = np.random.default_rng(0)
    y = np.arange(150) % 3
    x = (rng.normal(size=(150, 4)) + 3 * np.eye(3, 4)[y]).astype(np.float32)
    sure = rng.uniform(0.5, 0.9, (150, 1))
    probs = np.eye(3)[y] * sure + (1 - sure) / 3
    write_table(tmp_path / "pool.parquet", {"id": np.arange(120), "x": x[:120], "teacher_probs": probs[:120]})
    write_table(tmp_path / "gold.parquet", {"id": np.arange(30), "label": y[:30]})
    write_table(tmp_path / "test.npz", {"x": x[120:], "label": y[120:]})
    monkeypatch.chdir(tmp_path)
    return tmp_path


def call(*more: str, code: int = 0) -> Any:
    fixed = "compare --gold gold.parquet --pool pool.parquet --student mlp:8 --lr 0.01 --quiet --workers 1 --out cmp"
    result = CliRunner().invoke(cli.app, [*fixed.split(), *more])
    assert result.exit_code == code, result.output
    return result


def test_compare(folder: Path) -> None:
    options = ("--test", "test.npz", "--methods", "slam,gce:g=0.5", "--epochs", "1", "--seeds", "2", "--pretrain", "1")
    shown = call(*options).stdout
    assert all(name in shown for name in ("teacher", "gold only", "vanilla", "confident", "slam", "gce:g=0.5"))
    saved = json.loads((folder / "cmp" / "comparison.json").read_text())
    page = (folder / "cmp" / "report.html").read_text()
    assert saved["sentences"][0] in " ".join(shown.split())
    assert "Recommended method" in page and "minus vanilla, points" in page and "<script" not in page
    # Nothing to do the second time; other settings are one line.
    assert call(*options).stdout == shown
    error = call(*options, "--lr", "0.02", code=2).stderr
    assert error.count("\n") == 1 and "cmp was begun with another lr" in error


def test_texts(folder: Path) -> None:
    rows = [f"{word} film {number % 7}" for number in range(60) for word in ("good", "bad")]
    lines = [f"{number},{text},{'pos' if 'good' in text else 'neg'}" for number, text in enumerate(rows)]
    (folder / "pool.csv").write_text("\n".join(["id,review,llm", *lines]))
    (folder / "gold.csv").write_text(
        "\n".join(["id,label", *(f"{n},{line[-3:]}" for n, line in enumerate(lines[:40]))])
    )
    line = (
        "compare --gold gold.csv --pool pool.csv --text review --column teacher_label=llm --methods slam --seeds 1 "
        "--epochs 2 --student linear --lr 0.1 --quiet --workers 1 --out texts"
    )
    result = CliRunner().invoke(cli.app, line.split())
    assert result.exit_code == 0, result.output
    assert json.loads((folder / "texts" / "comparison.json").read_text())["methods"]


def test_mistakes_are_one_line(folder: Path) -> None:
    error = call("--epochs", "1", "--methods", "slim", code=2).stderr
    assert error.startswith("error: there is no method 'slim'; use one of ") and error.count("\n") == 1
    assert "no.npz" in call("--epochs", "1", "--test", "no.npz", code=2).stderr
    assert not (folder / "cmp").exists()
