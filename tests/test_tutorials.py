"""Every command and every Python block of the start page and the tutorials runs, in order, in an empty folder.

What a page shows as output (a ``text`` block right below) is what comes out: every line of it is printed, in this
order, numbers and spaces aside; a line ``…`` stands for any others.
"""

import contextlib
import io
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from understudy import cli, samples

DOCS = Path(__file__).parents[1] / "docs"
PAGES = sorted([DOCS / "start.md", *(DOCS / "tutorials").glob("*.md")])
# What a reader does once, before the first block; the build job does it with the wheel.
BEFOREHAND = ("pip install ", "python -m venv ", ". ")


@dataclass(frozen=True)
class Block:
    kind: str
    code: str
    shown: str | None


def blocks(text: str) -> Iterator[Block]:
    for found in re.finditer(r"```(sh|python)\n(.*?)```(?:\n+```text\n(.*?)```)?", text, flags=re.DOTALL):
        yield Block(*found.groups())


def run(block: Block, names: dict[str, Any]) -> str:
    if block.kind == "python":
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(block.code, "page", "exec"), names)
        return printed.getvalue()
    output = ""
    for line in block.code.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if not words or line.startswith(BEFOREHAND):
            continue
        assert words[0] == "understudy", f"this test cannot run {line!r}"
        result = CliRunner().invoke(cli.app, words[1:], env={"COLUMNS": "100"})
        assert result.exit_code == 0, f"{line}\n{result.output}"
        output += result.stdout
    return output


def masked(line: str) -> str:
    return " ".join(re.sub(r"\d[\d,]*(\.\d+)?", "0", line).split())


def missing_line(shown: str, output: str) -> str | None:
    """The first line of ``shown`` that is not printed after the one before it."""
    printed = iter([masked(line) for line in output.splitlines()])
    for line in shown.splitlines():
        if line.strip() not in ("", "…") and masked(line) not in printed:
            return line
    return None


def test_a_line_that_is_not_printed_is_found() -> None:
    output = "rows 12\nlabel a\nlabel b\n"
    assert missing_line("rows 7\n…\nlabel b", output) is None
    assert missing_line("label b\nlabel a", output) == "label a"
    assert missing_line("label c", output) == "label c"


def shorter(text: str) -> str:
    """Fewer epochs; where another page already runs the pilot, one method."""
    text = re.sub(r"--votes (\w+) --out (crowd|rules)\n", r"--votes \1 --method slam --out \2\n", text)
    text = text.replace("--methods reconciled --seeds 2", "--methods slam --seeds 2")
    return re.sub(r'(epochs=|"epochs": )(\d+)', lambda found: found[1] + str(int(found[2]) // 20), text)


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
@pytest.mark.parametrize("full", [False, pytest.param(True, marks=pytest.mark.torture)], ids=["small", "full"])
def test_the_page_runs(full: bool, page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``make torture`` runs it to the letter, the suite with less of everything."""
    monkeypatch.chdir(tmp_path)
    text = page.read_text(encoding="utf-8")
    if not full:
        for name, rows in {"POOL": 400, "GOLD": 40, "TEST": 50}.items():
            monkeypatch.setattr(samples, name, rows)
        text = shorter(text)
    names: dict[str, Any] = {"__name__": "page"}
    found = list(blocks(text))
    assert found
    for block in found:
        output = run(block, names)
        if block.shown is not None:
            missing = missing_line(block.shown, output)
            assert missing is None, f"{page.name} shows {missing!r}, but\n{block.code}prints\n{output}"
