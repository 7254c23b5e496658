"""The way of a call through the files is as long as ``docs/architecture.md`` says, with a tenth of slack."""

import re
from pathlib import Path

import pytest

from walk_calls import CALLS

PAGE = Path(__file__).parents[1] / "docs" / "architecture.md"
SLACK = 1.1


def _documented() -> dict[str, tuple[int, int]]:
    """Files and changes of each call, in the order of the table."""
    rows = re.findall(r"^\| .+ \| (\d+) / ([\d,]+) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    figures = [(int(files), int(changes.replace(",", ""))) for files, changes in rows]
    return dict(zip(CALLS, figures, strict=True))


@pytest.mark.parametrize("name", CALLS)
def test_a_call_travels_no_further_than_the_page_says(name: str, tmp_path: Path) -> None:
    files, changes = CALLS[name](tmp_path)
    most_files, most_changes = _documented()[name]
    assert files <= most_files * SLACK and changes <= most_changes * SLACK, (files, changes)
    assert files * SLACK >= most_files and changes * SLACK >= most_changes, f"shorter now: {files} / {changes:,}"
