"""``understudy estimate`` on files."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from understudy.cli import app

pytestmark = pytest.mark.pictures


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


def estimated(files: Path, *more: str) -> str:
    given = ["--gold", str(files / "gold.csv"), "--pool", str(files / "pool.csv")]
    result = CliRunner().invoke(app, ["estimate", *given, *more])
    assert result.exit_code == 0, result.output
    return result.output


def test_a_page_of_other_labels_by_week(files: Path) -> None:
    """A second column of labels that agrees with the teacher's; 2024 began on a Monday."""
    lines = (files / "pool.csv").read_text(encoding="utf-8").splitlines()
    days = [f"2024-01-{1 + row % 14:02}" for row in range(600)]
    told = [f"{line},{line.split(',')[2]},{day}" for line, day in zip(lines[1:], days, strict=True)]
    (files / "pool.csv").write_text("\n".join([lines[0] + ",other,day", *told]) + "\n", encoding="utf-8")
    page = files / "shares.html"
    text = ["--text", "message", "--what", "precision,f1", "--labels", "other", "--by", "week:day", "--width", "4"]
    output = estimated(files, *text, "--out", str(page))
    assert "2024-01-08" in output and "2024-01-15" not in output and "gold rows for 4 points" in output
    html = page.read_text(encoding="utf-8")
    assert "<svg" in html and "Precision" in html and "gold alone" in html and "2024-01-01" in html
    refused = CliRunner().invoke(app, ["estimate", "--gold", str(files / "gold.csv"), "--pool", str(files / "pool.csv"),
                                       "--text", "message", "--by", "week:message"])  # fmt: skip
    assert refused.exit_code == 2 and "no date; write dates like 2024-03-07" in refused.output


def test_a_run_is_measured_on_rows_that_did_not_train_it(files: Path) -> None:
    rng = np.random.default_rng(0)
    truth, x = rng.random(600) < 0.5, rng.normal(size=600)
    x = x + 3 * truth
    rows = [f"{row},{x[row]:.9f},{'no' if rng.random() < 0.1 else 'yes' if truth[row] else 'no'}" for row in range(600)]
    for name, part in (("pool", rows), ("old", rows[:200])):
        (files / f"{name}.csv").write_text("\n".join(["id,x1,teacher_label", *part]) + "\n", encoding="utf-8")
    for name, ids in (("gold", range(100, 300)), ("old_gold", range(50))):
        lines = [f"{row},{'yes' if truth[row] else 'no'}" for row in ids]
        (files / f"{name}.csv").write_text("\n".join(["id,label", *lines]) + "\n", encoding="utf-8")
    run, old = files / "run", ["--gold", str(files / "old_gold.csv"), "--pool", str(files / "old.csv")]
    options = ["--student", "linear", "--epochs", "2", "--method", "vanilla", "--out", str(run), "--quiet"]
    trained = CliRunner().invoke(app, ["train", *old, *options])
    assert trained.exit_code == 0, trained.output
    out = files / "run.json"
    output = estimated(files, "--run", str(run), "--what", "accuracy", "--out", str(out))
    # Gold 100 to 199 and the other 100 of the first 200 rows trained it.
    assert "100 of 200 gold rows trained" in output and "100 of 400 pool rows trained" in output
    (record,) = json.loads(out.read_text(encoding="utf-8"))
    assert record["value"]["rows"] == 100
    refused = CliRunner().invoke(app, ["estimate", *old, "--run", str(run)])
    assert refused.exit_code == 2 and "every gold row trained" in refused.output


def test_a_column_that_no_file_has_is_refused(files: Path) -> None:
    given = ["--gold", str(files / "gold.csv"), "--pool", str(files / "pool.csv"), "--text", "message"]
    result = CliRunner().invoke(app, ["estimate", *given, "--by", "month"])
    assert result.exit_code == 2 and "no column 'month' beside ids" in result.output


def test_the_pools_probabilities_are_read_where_all_are_known(files: Path) -> None:
    """Three of four gold rows are drawn from the half with 0.3: the pool's column tells how large both halves are."""
    widths = []
    for blank in (False, True):
        odds = [0.3 if row % 2 else 0.1 for row in range(600)]
        lines = (files / "pool.csv").read_text(encoding="utf-8").splitlines()
        told = [f"{line},{each}" for line, each in zip(lines[1:], ["", *odds[1:]] if blank else odds, strict=True)]
        (files / "drawn.csv").write_text("\n".join([lines[0] + ",probability", *told]) + "\n", encoding="utf-8")
        labels = (files / "gold.csv").read_text(encoding="utf-8").splitlines()
        kept = [f"{line},{odds[row]}" for row, line in enumerate(labels[1:]) if row and (row % 2 or row % 3 == 0)]
        (files / "gold_drawn.csv").write_text("\n".join(["id,label,probability", *kept]) + "\n", encoding="utf-8")
        given = ["--gold", str(files / "gold_drawn.csv"), "--pool", str(files / "drawn.csv"), "--text", "message"]
        out = files / f"{blank}.json"
        result = CliRunner().invoke(app, ["estimate", *given, "--out", str(out)])
        assert result.exit_code == 0, result.output
        found = json.loads(out.read_text(encoding="utf-8"))[0]["value"]
        widths.append(found["high"] - found["low"])
    assert widths[0] < widths[1]
