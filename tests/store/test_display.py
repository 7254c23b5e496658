"""What a long work says meanwhile."""

import pytest

from understudy.store.console import ProgressBar, time_left


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, ""), (0.2, "about 1 s left"), (59, "about 59 s left"), (150, "about 2 min left"), (9000, "about 2.5 h left")],
)
def test_time_left(seconds: float, text: str) -> None:
    assert time_left(seconds) == text


def test_one_line_per_cell(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([100.0, 110.0, 120.0])
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    with ProgressBar("compare", 5, 3, shown=True) as bar:
        bar.advance("slam, seed 1: 90.0%")
        bar.advance("gce, seed 1: 91.0%")
    # Cells found on disk say nothing about the pace: 10 s for one, so 10 s for the other.
    said = capsys.readouterr().err.splitlines()
    assert said == ["compare  4/5  slam, seed 1: 90.0%  about 10 s left", "compare  5/5  gce, seed 1: 91.0%"]


def test_names_with_brackets_are_names(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal the bar must not read them as markup or as fields to fill in."""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with ProgressBar("a{b}[/1]", 1, shown=True) as bar:
        bar.advance("mine[/1]{x}, seed 0")
    said = capsys.readouterr().err
    assert "a{b}[/1]" in said and "mine[/1]{x}, seed 0" in said
