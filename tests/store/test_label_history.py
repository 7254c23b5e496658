"""The label history: every label has a line, no line can be changed, and a kill costs none."""

import json
from pathlib import Path

import pytest

from understudy.errors import UnderstudyError
from understudy.store import log as module
from understudy.store.log import LabelHistory


@pytest.fixture
def history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LabelHistory:
    monkeypatch.setenv("UNDERSTUDY_USER", "anna")
    monkeypatch.setattr("sys.argv", ["/bin/understudy", "import", "my answers.jsonl"])
    return LabelHistory(tmp_path / "label_history.jsonl")


def test_who_what_when_source_and_command(history: LabelHistory) -> None:
    last = history.add("answered", "gpt", {7: "pos", "r2": None}, round=3)
    (entry,) = list(history.entries(last))
    assert entry.pop("when").endswith("+00:00")
    assert entry == {
        "what": "answered", "who": "anna", "source": "gpt", "command": "understudy import 'my answers.jsonl'",
        "round": 3, "answers": {"7": "pos", "r2": None}, "after": "",
    }  # fmt: skip
    assert history.last() == last == LabelHistory(history.path).last()


def test_lines_are_added_by_whoever_comes(history: LabelHistory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_ANSWERS", 2)
    history.add("answered", "a", {1: "x", 2: "x", 3: "y"})
    last = LabelHistory(history.path).add("answered", "b", {})
    assert [(entry["source"], len(entry["answers"])) for entry in list(history.entries(last))] == [
        ("a", 2),
        ("a", 1),
        ("b", 0),
    ]


def test_changed_missing_and_foreign_lines_are_found(history: LabelHistory) -> None:
    for number in range(4):
        last = history.add("answered", "gpt", {number: "pos"})
    lines = history.path.read_bytes().splitlines(keepends=True)
    forged = json.loads(lines[1]) | {"answers": {"1": "neg"}}
    for wrong in (
        [lines[0], json.dumps(forged).encode() + b"\n", *lines[2:]],
        [lines[0], *lines[2:]],
        [lines[1], lines[0], *lines[2:]],
        lines[1:],
        lines[:3],
        [*lines, b"{}\n"],
        [*lines[:3], lines[3][:-5] + b"\n"],
        [],
    ):
        history.path.write_bytes(b"".join(wrong))
        with pytest.raises(UnderstudyError, match=r"label_history\.jsonl"):
            list(history.entries(last))
        assert [finding.problem is None for finding in history.verify(last)] == [False]
    history.path.write_bytes(b"".join(lines[1:]))
    with pytest.raises(UnderstudyError, match="line 1 is not the one that was written there"):
        LabelHistory(history.path).add("answered", "gpt", {})
    history.path.unlink()
    with pytest.raises(UnderstudyError, match="lacks its last lines"):
        list(history.entries(last))


def test_a_line_that_a_kill_cut_off_is_none(history: LabelHistory) -> None:
    first = history.add("answered", "gpt", {1: "pos"})
    with history.path.open("ab") as file:
        file.write(b'{"what": "answ')
    assert len(list(history.entries(first))) == 1
    last = LabelHistory(history.path).add("answered", "gpt", {2: "neg"})
    assert [entry["answers"] for entry in list(history.entries(last))] == [{"1": "pos"}, {"2": "neg"}]
