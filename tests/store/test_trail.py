"""The audit trail: every answer has a line, no line can be changed, and a kill costs none."""

import json
from pathlib import Path

import pytest

from understudy.errors import UnderstudyError
from understudy.store import trail as module
from understudy.store.trail import Trail


@pytest.fixture
def trail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Trail:
    monkeypatch.setenv("UNDERSTUDY_USER", "anna")
    monkeypatch.setattr("sys.argv", ["/bin/understudy", "import", "my answers.jsonl"])
    return Trail(tmp_path / "trail.jsonl")


def test_who_what_when_source_and_command(trail: Trail) -> None:
    last = trail.add("answered", "gpt", {7: "pos", "r2": None}, round=3)
    (entry,) = trail.read(last)
    assert entry.pop("when").endswith("+00:00")
    assert entry == {
        "what": "answered", "who": "anna", "source": "gpt", "command": "understudy import 'my answers.jsonl'",
        "round": 3, "answers": {"7": "pos", "r2": None}, "after": "",
    }  # fmt: skip
    assert trail.end() == last == Trail(trail.path).end()


def test_lines_are_added_by_whoever_comes(trail: Trail, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_ANSWERS", 2)
    trail.add("answered", "a", {1: "x", 2: "x", 3: "y"})
    last = Trail(trail.path).add("answered", "b", {})
    assert [(entry["source"], len(entry["answers"])) for entry in trail.read(last)] == [("a", 2), ("a", 1), ("b", 0)]


def test_changed_missing_and_foreign_lines_are_found(trail: Trail) -> None:
    for number in range(4):
        last = trail.add("answered", "gpt", {number: "pos"})
    lines = trail.path.read_bytes().splitlines(keepends=True)
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
        trail.path.write_bytes(b"".join(wrong))
        with pytest.raises(UnderstudyError, match=r"trail\.jsonl"):
            trail.read(last)
        assert [finding.problem is None for finding in trail.inspect(last)] == [False]
    trail.path.write_bytes(b"".join(lines[1:]))
    with pytest.raises(UnderstudyError, match="line 1 is not the one that was written there"):
        Trail(trail.path).add("answered", "gpt", {})
    trail.path.unlink()
    with pytest.raises(UnderstudyError, match="lacks its last lines"):
        trail.read(last)


def test_a_line_that_a_kill_cut_off_is_none(trail: Trail) -> None:
    first = trail.add("answered", "gpt", {1: "pos"})
    with trail.path.open("ab") as file:
        file.write(b'{"what": "answ')
    assert len(trail.read(first)) == 1
    last = Trail(trail.path).add("answered", "gpt", {2: "neg"})
    assert [entry["answers"] for entry in trail.read(last)] == [{"1": "pos"}, {"2": "neg"}]
