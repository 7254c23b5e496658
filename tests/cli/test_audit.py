"""understudy audit: files in, sentences and a page out."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from understudy import cli


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A pool of 400 rows of which the first 100 are gold; the teacher calls every tenth pos neg."""
    rng = np.random.default_rng(0)
    truth = np.where(np.arange(400) % 2, "pos", "neg")
    labels = np.where((np.arange(400) % 10 == 1), "neg", truth)
    with open(tmp_path / "pool.csv", "w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["id", "a", "b", "teacher_label"])
        for row in range(400):
            lines.writerow([f"r{row}", (truth[row] == "pos") + rng.normal(0, 0.2), rng.normal(), labels[row]])
    with open(tmp_path / "gold.csv", "w", newline="") as file:
        csv.writer(file).writerows([["id", "label"], *([f"r{row}", truth[row]] for row in range(100))])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return tmp_path


def call(line: str, code: int = 0) -> Any:
    result = CliRunner().invoke(cli.app, line.split())
    assert result.exit_code == code, result.output
    return result


def test_words_page_and_json(folder: Path) -> None:
    output = call("audit --gold gold.csv --pool pool.csv --out audit.html").output
    assert "10.0% (95% CI" in output and "pos→neg" in output and "Audit: audit.html" in output
    assert max(map(len, output.splitlines())) <= 100
    assert "<title>Label quality" in (folder / "audit.html").read_text(encoding="utf-8")
    with open(folder / "audit_scores.csv", newline="") as file:
        scores = list(csv.DictReader(file))
    assert len(scores) == 300 and list(scores[0]) == ["row", "line", "id", "label", "suggested", "p_wrong"]
    lines = (folder / "pool.csv").read_text(encoding="utf-8").splitlines()
    assert all(lines[int(one["line"]) - 1].split(",")[0] == one["id"] for one in scores)
    highest = sorted(scores, key=lambda one: -float(one["p_wrong"]))[:20]
    assert sum(int(one["id"][1:]) % 10 == 1 and one["suggested"] == "pos" for one in highest) >= 18
    call("audit --gold gold.csv --pool pool.csv --out audit.json --rows-wrong 5")
    stored = json.loads((folder / "audit.json").read_text(encoding="utf-8"))
    assert stored["class_names"] == ["neg", "pos"]
    call("audit --gold gold.csv --pool pool.csv --out CAPITALS.JSON --rows-wrong 5")
    assert json.loads((folder / "CAPITALS.JSON").read_text(encoding="utf-8"))["class_names"] == ["neg", "pos"]
    call("audit --gold gold.csv --pool pool.csv --out CAPITALS.HTML")
    assert (folder / "CAPITALS.HTML").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert stored["pool_rows"] == 300 and len(stored["suspects"]["top"]) == 5
    # The planted rows are the ones whose features speak against their label.
    assert all(int(one["id"][1:]) % 10 == 1 for one in stored["suspects"]["top"])


def test_suspects_are_shown_with_their_text(folder: Path) -> None:
    with open("texts.csv", "w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["id", "message", "teacher_label", "label"])
        for row in range(120):
            word, label = ("fine <b>", "pos") if row % 2 else ("awful", "neg")
            given = "pos" if row in (10, 70) else label
            lines.writerow([f"r{row}", f"it was {word} {row}", given, label if row < 60 else ""])
    output = call("audit --gold texts.csv --pool texts.csv --text message --out texts.html --rows-wrong 3").output
    page = (folder / "texts.html").read_text(encoding="utf-8")
    assert "Lines of texts.csv" in page and "it was awful 70" in page and "<b>" not in page
    assert "it was awful 70" in output


def test_mistakes_are_one_line(folder: Path) -> None:
    (folder / "there.html").write_text("x")
    (folder / "scored_scores.csv").write_text("x")
    for line, problem in {
        "audit --gold gold.csv --pool pool.csv --out audit.txt": "written as .html or .json",
        "audit --gold gold.csv --pool pool.csv --out there.html": "already exists",
        "audit --gold gold.csv --pool pool.csv --out scored.html": "scored_scores.csv already exists",
        "audit --gold gold.csv --pool pool.csv --target 0": "between 0 and 100",
        "audit --gold absent.csv": "is not there",
    }.items():
        output = call(line, code=2).stderr
        assert problem in output and len(output.strip().splitlines()) == 1
