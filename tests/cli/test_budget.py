"""``understudy budget`` on files: who is asked what, and what the plan's files hold."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from understudy import cli
from understudy.active.plan_files import file_names

NAMES = ("neg", "pos")


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def lines(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """100 rows, 40 of them gold; a small source has said something of all gold rows and of 20 others."""
    pool = [
        {
            "id": f"r{row}", "text": f"text {row}",
            "teacher_vote_small": NAMES[(row + (row % 5 == 0)) % 2] if row < 60 else "",
            "teacher_vote_big": NAMES[(row + (row % 20 == 0)) % 2] if row < 40 else "",
        }
        for row in range(100)
    ]  # fmt: skip
    write(tmp_path / "pool.csv", pool)
    write(tmp_path / "gold.csv", [{"id": f"r{row}", "label": NAMES[row % 2]} for row in range(40)])
    return tmp_path


def run(folder: Path, *more: str, budget: str = "60", **others: str) -> Any:
    given = {"gold": str(folder / "gold.csv"), "pool": str(folder / "pool.csv"), "out": str(folder / "plan")} | others
    files = [word for name, value in given.items() for word in (f"--{name}", value)]
    prices = ["--price", "small=1", "--price", "big=4", "--price", "human=10", "--trusted", "human"]
    return CliRunner().invoke(cli.app, ["budget", *files, *prices, "--budget", budget, *more])


def test_a_plan_and_its_files(files: Path) -> None:
    found = run(files)
    assert found.exit_code == 0, found.output
    plan = json.loads((files / "plan" / "plan.json").read_text())
    assert plan["cost"] <= 60 and found.output.startswith(plan["sentences"][0])
    asked = {one["name"]: one for one in plan["sources"]}
    assert asked["small"]["gold_rows"] == 40 and asked["small"]["accuracy"] == pytest.approx(0.8)
    for name, price in (("small", 1), ("big", 4), ("human", 10)):
        count = asked[name]["rows"] + asked[name]["beside_new_gold"]
        if count:
            rows = lines(files / "plan" / f"{name}.csv")
            assert len(rows) == count and price
            assert {row["label"] for row in rows} == {""} and all(row["why"] and row["gain"] for row in rows)
            gold = {f"r{row}" for row in range(40)}
            assert not {row["id"] for row in rows} & gold
    # Of the rows that small has answered it is not asked again.
    if asked["small"]["rows"]:
        again = {f"r{row}" for row in range(60)}
        assert not {row["id"] for row in lines(files / "plan" / "small.csv")} & again


def test_new_gold_is_marked_as_drawn(files: Path) -> None:
    found = run(files, budget="2000")
    assert found.exit_code == 0, found.output
    plan = json.loads((files / "plan" / "plan.json").read_text())
    rows = lines(files / "plan" / "gold.csv") if plan["new_gold"] else []
    assert len(rows) == plan["new_gold"] and {row["chosen"] for row in rows} <= {"0"}


def test_what_reconcile_or_predict_wrote_says_what_is_known(files: Path) -> None:
    known = [
        {"id": f"r{row}", "teacher_prob_neg": sure, "teacher_prob_pos": round(1 - sure, 2)}
        for row, sure in ((row, 0.5 if row in (70, 71) else 0.99) for row in range(100))
    ]
    found = run(files, "--known", str(write(files / "known.csv", known)), budget="20")
    assert found.exit_code == 0, found.output
    asked = {row["id"] for path in (files / "plan").glob("*.csv") for row in lines(path)}
    assert {"r70", "r71"} <= asked
    first = lines(next(iter(sorted((files / "plan").glob("[!g]*.csv")))))[0]
    assert first["id"] in ("r70", "r71") and first["confidence"] == "0.5"


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--price", "human"], "--price 'human' is not like NAME=PRICE"),
        (["--price", "human=2"], "--price names 'human' twice"),
        (["--known", "nowhere.csv"], "nowhere.csv"),
        (["--trusted", "nobody"], "trusted='nobody' has no price"),
    ],
)
def test_mistakes_are_one_line(files: Path, more: list[str], message: str) -> None:
    found = run(files, *more)
    assert found.exit_code == 2 and message in found.stderr and found.stderr.count("\n") == 1
    assert not (files / "plan").exists()


def test_an_existing_folder_and_too_small_a_budget_are_refused(files: Path) -> None:
    found = run(files, budget="0.5")
    assert found.exit_code == 2 and "is too small for one label" in found.stderr
    (files / "plan").mkdir()
    assert "already exists" in run(files).stderr


def test_sources_of_any_name_stay_in_the_folder(tmp_path: Path) -> None:
    """LLMs are called maker/model; a person may be called as one of the plan's own files."""
    pool = [
        {"id": f"r{row}", "teacher_vote_maker/model": NAMES[(row + (row % 10 == 0)) % 2] if row < 40 else ""}
        for row in range(90)
    ]
    write(tmp_path / "pool.csv", pool)
    write(tmp_path / "gold.csv", [{"id": f"r{row}", "label": NAMES[row % 2]} for row in range(40)])
    files = ["--gold", str(tmp_path / "gold.csv"), "--pool", str(tmp_path / "pool.csv")]
    prices = ["--price", "maker/model=1", "--price", "../outside=1", "--price", "gold=30", "--trusted", "gold"]
    out = tmp_path / "a" / "plan"
    found = CliRunner().invoke(cli.app, ["budget", *files, *prices, "--budget", "200", "--out", str(out)])
    assert found.exit_code == 0, found.output
    names = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file())
    assert {"a/plan/maker_model.csv", "a/plan/_outside.csv", "a/plan/plan.json"} <= {*names}
    assert all(name.startswith("a/plan/") or name in ("pool.csv", "gold.csv") for name in names)
    assert file_names(["a/b", "a b", "A_b", "gold", ".."]) == {
        "a/b": "a_b.csv", "a b": "a_b-2.csv", "A_b": "A_b-3.csv", "gold": "gold-2.csv", "..": "_.csv",
    }  # fmt: skip


def test_one_file_is_gold_and_pool(files: Path) -> None:
    two = run(files)
    truth = {row["id"]: row["label"] for row in lines(files / "gold.csv")}
    mine = write(files / "mine.csv", [row | {"label": truth.get(row["id"], "")} for row in lines(files / "pool.csv")])
    one = run(files, gold=str(mine), pool=str(mine), out=str(files / "other"))
    assert one.exit_code == two.exit_code == 0 and one.stdout.replace("other", "plan") == two.stdout
    for path in (files / "plan").glob("*.csv"):
        assert (files / "other" / path.name).read_text() == path.read_text()
