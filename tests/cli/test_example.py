"""The tutorials' files: the same each time, joined by id, and as wrong as they say."""

import csv
import json
from pathlib import Path
from random import Random

import pytest
from typer.testing import CliRunner

from understudy import cli
from understudy.errors import UnderstudyError
from understudy.samples import CLASSES, CROWD, GOLD, POOL, TEST, make_tickets, write_tickets


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_the_files_are_what_the_help_says(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli.app, ["example", "--out", str(tmp_path / "tickets")])
    paths, _, following = result.output.partition("\nnext: ")
    assert result.exit_code == 0 and len(paths.split()) == 6
    assert following.startswith("understudy train --gold ") and following.endswith("--out first\n")
    folder = tmp_path / "tickets"
    messages, gold, test = (rows(folder / f"{name}.csv") for name in ("messages", "gold", "test"))
    assert (len(messages), len(gold), len(test)) == (POOL, GOLD, TEST) == (1500, 120, 500)
    ids = [row["id"] for row in messages]
    assert {row["id"] for row in gold} <= set(ids) and not {row["id"] for row in test} & set(ids)
    assert {row["label"] for row in gold} == {row["label"] for row in test} == set(CLASSES)
    answers = [json.loads(line) for line in (folder / "answers.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [answer["id"] for answer in answers] == ids == [row["id"] for row in rows(folder / "crowd.csv")]


def test_the_single_file_says_what_the_others_say(tmp_path: Path) -> None:
    write_tickets(tmp_path)
    mine, messages = rows(tmp_path / "mine.csv"), rows(tmp_path / "messages.csv")
    checked = {row["id"]: row["label"] for row in rows(tmp_path / "gold.csv")}
    answers = [json.loads(line)["answer"] for line in (tmp_path / "answers.jsonl").read_text("utf-8").splitlines()]
    for own, message, answer in zip(mine, messages, answers, strict=True):
        assert own["message"] == message["message"] and own["checked"] == checked.get(message["id"], "")
        assert own["llm"] in answer and (own["llm"] in CLASSES) == (answer.split()[-1].strip(".") == own["llm"])


def test_the_llm_is_right_three_times_in_four_and_errs_where_something_else_is_mentioned(tmp_path: Path) -> None:
    write_tickets(tmp_path)
    tickets, _ = make_tickets(Random(0))
    lines = (tmp_path / "answers.jsonl").read_text(encoding="utf-8").splitlines()
    right: dict[bool, list[bool]] = {True: [], False: []}
    for ticket, answer in zip(tickets, map(json.loads, lines), strict=True):
        assert ticket.id == answer["id"]
        right[ticket.mentions is not None].append(ticket.label in answer["answer"])
    misled, plain = (sum(right[kind]) / len(right[kind]) for kind in (True, False))
    assert 0.4 < misled < 0.55 and 0.85 < plain < 0.95
    assert 0.7 < sum(sum(kind) for kind in right.values()) / len(tickets) < 0.8


def test_the_crowd_has_a_member_who_always_says_the_same(tmp_path: Path) -> None:
    write_tickets(tmp_path)
    votes = rows(tmp_path / "crowd.csv")
    assert {row["fay"] for row in votes} == {"technical", ""}
    for name in CROWD:
        assert 0.4 < sum(row[name] != "" for row in votes) / len(votes) < 0.6


def test_same_seed_same_files_and_nothing_is_overwritten(tmp_path: Path) -> None:
    first, second = write_tickets(tmp_path / "a"), write_tickets(tmp_path / "b")
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    with pytest.raises(UnderstudyError, match="already exists and is not empty; choose a new folder"):
        write_tickets(tmp_path / "a")
