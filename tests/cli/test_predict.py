"""The accuracy that ``understudy predict`` prints, and the rows that it is measured on."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import understudy as us
from understudy import cli
from understudy.io.write import write_table

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(120, 3)), np.arange(120) % 2


def _predict(tmp_path: Path, table: dict[str, Any], name: str = "new.csv") -> str:
    write_table(tmp_path / name, table)
    out = tmp_path / f"predicted-{len(list(tmp_path.iterdir()))}.csv"
    result = CliRunner().invoke(cli.app, ["predict", str(tmp_path / "run"), str(tmp_path / name), "--out", str(out)])
    assert result.exit_code == 0, result.output
    return result.output


def _table(rows: Any, x: Any = X) -> dict[str, Any]:
    """Rows under ids of their own: what they hold tells which they are."""
    return {"id": np.arange(len(rows)) + 5000, "x": x[rows], "label": Y[rows]}


@pytest.fixture
def trained(tmp_path: Path) -> Path:
    gold, pool = us.Gold(X[:40], Y[:40]), us.Pool(X[40:80], us.Hard([-1] * 10 + [0, 1] * 15, classes=2))
    us.train(us.models.mlp(3, 2), gold, pool, us.vanilla(), epochs=30, lr=0.05, out=tmp_path / "run", progress=False)
    return tmp_path


def test_no_accuracy_is_printed_on_rows_that_trained(trained: Path) -> None:
    for rows in (np.arange(40), np.arange(79, 49, -1)):
        shown = _predict(trained, _table(rows), f"rows-{len(rows)}.csv")
        assert f"no accuracy: all {len(rows)} rows with a label trained the student" in shown
        assert "accuracy 1" not in shown and f"{len(rows)} predictions" in shown


def test_rows_that_trained_are_left_out_of_the_accuracy_and_counted(trained: Path) -> None:
    run, new = us.Run.load(trained / "run"), np.arange(80, 120)
    right = float((run.predict(X[new]).argmax(1).numpy() == Y[new]).mean())
    assert f"accuracy {100 * right:.1f}% against the file's label column (40 rows)" in _predict(trained, _table(new))
    mixed = _predict(trained, _table(np.arange(10, 120)), "mixed.csv")
    # Ten pool rows had no label and did not train.
    assert "(50 rows; 60 more trained the student and are left out)" in mixed


def test_equal_rows_of_a_coarse_table_are_counted_and_said(tmp_path: Path) -> None:
    coarse = RNG.integers(0, 2, (120, 3)).astype(float)
    gold = us.Gold(coarse[:40], Y[:40])
    us.train(us.models.mlp(3, 2), gold, None, us.vanilla(), epochs=1, out=tmp_path / "run", progress=False)
    shown = _predict(tmp_path, _table(np.arange(80, 120), coarse))
    assert "(40 rows; 40 of them equal rows that trained the student: too high if they are the same rows)" in shown
