"""``understudy estimate`` on files."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from understudy.cli import app


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """600 tickets, of which 120 are gold; the share of billing in the others is kept beside them."""
    rng = np.random.default_rng(0)
    truth = rng.random(600) < 0.3
    named = np.where(rng.random(600) < 0.9, truth, ~truth)
    lines = [f"{row},ticket {row},{'billing' if named[row] else 'other'},{2024 + row % 2}" for row in range(600)]
    (tmp_path / "pool.csv").write_text("id,message,teacher_label,year\n" + "\n".join(lines) + "\n", encoding="utf-8")
    answers = [f"{row},{'billing' if truth[row] else 'other'}" for row in range(120)]
    (tmp_path / "gold.csv").write_text("id,label\n" + "\n".join(answers) + "\n", encoding="utf-8")
    (tmp_path / "share.txt").write_text(str(truth[120:].mean()), encoding="utf-8")
    return tmp_path


def test_shares_by_group_from_files(files: Path) -> None:
    given = ["--gold", str(files / "gold.csv"), "--pool", str(files / "pool.csv"), "--text", "message"]
    more = ["--what", "share,accuracy", "--by", "year", "--out", str(files / "shares.json")]
    result = CliRunner().invoke(app, ["estimate", *given, *more])
    assert result.exit_code == 0, result.output
    assert "billing" in result.output and "Each group minus all other rows" in result.output
    found = json.loads((files / "shares.json").read_text(encoding="utf-8"))
    billing = next(each for each in found if each["name"] == "billing" and each["group"] is None)
    share = float((files / "share.txt").read_text(encoding="utf-8"))
    assert billing["value"]["low"] < share < billing["value"]["high"] and billing["worth"] > 1.5
    assert {each["group"] for each in found} == {None, "2024", "2025"}
    assert sum(each["difference"] for each in found) == 6


def test_a_column_that_no_file_has_is_refused(files: Path) -> None:
    given = ["--gold", str(files / "gold.csv"), "--pool", str(files / "pool.csv"), "--text", "message"]
    result = CliRunner().invoke(app, ["estimate", *given, "--by", "month"])
    assert result.exit_code == 2 and "no column 'month' beside ids" in result.output
