"""``understudy campaign``: rounds from files, waiting and going on, kills, the page of its rounds."""

import csv
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from typer.testing import CliRunner

from understudy import cli
from understudy.active import campaign as campaign_rounds

from . import kill_campaign
from .kill_campaign import NAMES, Paid, truth, write_files

pytestmark = pytest.mark.pictures

SIZES = ["--start", "20", "--batch", "10", "--epochs", "3", "--batch-size", "16", "--student", "mlp:8"]


def campaign(folder: Path, *more: str, budget: int = 40) -> Any:
    files = ["--pool", str(folder / "pool.csv"), "--out", str(folder / "camp"), "--budget", str(budget)]
    return CliRunner().invoke(cli.app, ["campaign", *files, *SIZES, *more])


@pytest.fixture
def files(tmp_path: Path) -> Path:
    write_files(tmp_path)
    return tmp_path


def test_rounds_from_a_file_of_answers(files: Path) -> None:
    given = ["--answers", str(files / "truth.csv"), "--test", str(files / "test.csv"), "--price", "0.5"]
    found = campaign(files, *given)
    assert found.exit_code == 0, found.output
    lines = [line for line in found.output.splitlines() if line.startswith("round ")]
    assert len(lines) == 3 and re.match(r"round 0: 20 labels, accuracy [\d.]+% \(95% CI [\d.]+–[\d.]+\)$", lines[0])
    assert re.search(r"[+−]?[\d.]+ points \(.* to .*\) at a cost of 5, ", lines[1])
    page = (files / "camp" / "report.html").read_text()
    assert "Accuracy gained per label" in page and "The budget is spent after 40 labels" in page and "<svg" in page
    # Finished: nothing is done again; a larger budget goes on.
    assert "round " not in campaign(files, *given).output.replace("rounds", "")
    more = campaign(files, *given, budget=50)
    assert [line[:8] for line in more.output.splitlines() if line.startswith("round ")] == ["round 3:"]
    with (files / "camp" / "labelled.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len({row["id"] for row in rows}) == 50 and [row["chosen"] for row in rows] == ["0"] * 20 + ["1"] * 30
    # What train takes: by the classes' names.
    assert all(row["label"] == truth(int(row["id"][1:])) for row in rows)
    history = (files / "camp" / "label_history.jsonl").read_text()
    assert '"left"' in history and '"right"' in history


def test_classes_in_another_order_are_another_campaign(files: Path) -> None:
    given = ["--answers", str(files / "truth.csv"), "--test", str(files / "test.csv")]
    assert campaign(files, *given, "--classes", "left,right", budget=20).exit_code == 0
    found = campaign(files, *given, "--classes", "right,left", budget=30)
    assert found.exit_code == 2 and "was begun with another class_names" in found.output


def test_it_stops_for_a_person_and_goes_on(files: Path) -> None:
    given = ["--classes", ",".join(NAMES), "--test", str(files / "test.csv")]
    found = campaign(files, *given, budget=30)
    batch = files / "camp" / "batch-000.csv"
    assert found.exit_code == 0 and f"waits for 20 of 20 answers: fill in the column 'label' of {batch}" in found.output
    _fill(batch, leave=3)
    assert "waits for 3 of 20 answers" in campaign(files, *given, budget=30).output
    _fill(batch)
    found = campaign(files, *given, budget=30)
    assert "round 0: 20 labels" in found.output and "round 1 waits for 10 of 10" in found.output
    # The rest may come in a file of its own.
    assert "the budget is spent" in campaign(files, *given, "--answers", str(files / "truth.csv"), budget=30).output


@pytest.mark.parametrize("lost", [Path.unlink, lambda book: book.write_bytes(b"")])
def test_a_lost_book_of_answers_is_not_begun_anew(files: Path, lost: Callable[[Path], object]) -> None:
    given = ["--label", "page", "--classes", ",".join(NAMES), "--test", str(files / "test.csv")]
    with patch.object(campaign_rounds, "LabelPage", Paid):
        assert campaign(files, *given, budget=20).exit_code == 0
        lost(book := files / "camp" / "answers.book")
        for _ in range(2):  # nothing of the first takes its place
            found = campaign(files, *given, budget=30)
            assert found.exit_code == 2 and "or lost it; restore it" in found.stderr and found.stderr.count("\n") == 1
    assert not (book.exists() and book.stat().st_size)


def test_without_test_rows_the_random_start_judges(files: Path) -> None:
    found = campaign(files, "--answers", str(files / "truth.csv"), budget=30)
    assert found.exit_code == 0, found.output
    assert re.search(r"round 0: 20 labels, accuracy [\d.]+% \(95% CI", found.output)
    assert "round 1: 30 labels, accuracy unknown (give --test, or --start 100)" in found.output
    assert "Accuracy is unknown: give test rows, or a first round of 100 rows" in (
        (files / "camp" / "report.html").read_text()
    )


def test_the_pools_own_labels_train_where_a_method_is_named(files: Path) -> None:
    rows = list(csv.DictReader((files / "pool.csv").read_text().splitlines()))
    lines = [f"{row['id']},{row['a']},{row['b']},{truth(int(row['id'][1:]))}" for row in rows]
    (files / "pool.csv").write_text("\n".join(["id,a,b,teacher_label", *lines]) + "\n")
    found = campaign(files, "--answers", str(files / "truth.csv"), "--method", "vanilla", budget=20)
    assert found.exit_code == 0 and "round 0: 20 labels" in found.output, found.output


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--label", "page", "--answers", "truth.csv"], "give one of them"),
        (["--method", "vanilla", "--classes", "left,right"], "trains on the pool's labels, and"),
        (["--method", "nothing", "--classes", "left,right"], "there is no method 'nothing'"),
        (["--option", "a=1", "--classes", "left,right"], "name it by --method"),
        ([], "--classes neg,pos"),
    ],
)
def test_mistakes_are_one_line(files: Path, more: list[str], message: str) -> None:
    found = campaign(files, *more)
    assert found.exit_code == 2 and message in found.stderr and found.stderr.count("\n") == 1
    assert not (files / "camp").exists()


def test_an_answer_that_is_no_class_is_pointed_at(files: Path) -> None:
    (files / "truth.csv").write_text((files / "truth.csv").read_text().replace(NAMES[0], "lft"))
    found = campaign(
        files, "--answers", str(files / "truth.csv"), "--test", str(files / "test.csv"), "--classes", "left,right"
    )
    assert found.exit_code == 2 and "the answer to r" in found.stderr and "'lft'" in found.stderr


@pytest.mark.slow
def test_killed_campaigns_ask_no_row_twice(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """More moments: python tests/cli/kill_campaign.py FOLDER 40."""
    kill_campaign.main(tmp_path, 2)
    assert capfd.readouterr().out.count("killed-") == 2


def _fill(batch: Path, leave: int = 0) -> None:
    with batch.open(newline="") as file:
        rows = list(csv.DictReader(file))
    for number, row in enumerate(rows):
        row["label"] = truth(int(row["id"][1:])) if number >= leave else ""
    with batch.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
