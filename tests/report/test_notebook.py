"""What a notebook shows of a run, a comparison, an audit and a reliability: the parts of their pages, and no more."""

import itertools
import re
import sys
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import understudy as us
from understudy.store.console import EpochProgress

from ..three_blobs import FAST, student, world


@pytest.fixture(scope="module")
def run() -> us.Run:
    gold, pool, truth = world("soft")
    some = torch.arange(100)
    return us.train(student(), gold, pool, us.slam(), test=us.Gold(pool.rows.take(some), truth[some]), **FAST)


def shown(value: Any) -> str:
    html: str = value._repr_html_()
    assert html.count('<div class="understudy">') == 1 and "<body" not in html and "<script" not in html
    # Every rule of the page is nested in the one element's, so that it reaches nothing else of the notebook.
    style = html[html.index("<style>") + 7 : html.index("</style>")].strip()
    depths = list(itertools.accumulate({"{": 1, "}": -1}[sign] for sign in re.findall("[{}]", style)))
    assert style.startswith(".understudy {") and depths[-1] == 0 and all(depths[:-1]) and len(depths) > 40
    return html


def test_a_run_is_its_report_s_parts(run: us.Run) -> None:
    html = shown(run)
    accuracy = f"{100 * run.history[-1]['test_accuracy']:.1f}%"
    assert "Training with slam" in html and accuracy in html and html.count('<svg class="wide"') == 1
    assert "mean α" in html


def test_a_run_is_one_line_of_text(run: us.Run, tmp_path: Any) -> None:
    accuracy = f"{run.history[-1]['test_accuracy']:.1%}"
    assert repr(run) == f"Run(slam, 3 epochs, test accuracy {accuracy})"
    folder = tmp_path / "first"
    run.save(folder)
    assert (
        repr(us.Run.load(tmp_path / "first")) == f"Run(slam, 3 epochs, test accuracy {accuracy}, {tmp_path / 'first'})"
    )
    assert repr(us.Run(student(), [], {})) == "Run(no method, 0 epochs)"


def test_a_reliability_is_the_curve_of_the_report(run: us.Run) -> None:
    (trust,) = run.fits.values()
    html = shown(trust)
    assert "Reliability of the teacher" in html and f"{float(trust.gold_right.mean()):.1%}" in html and "<svg" in html


def test_an_audit_and_a_comparison_are_their_pages() -> None:
    gold, pool, _ = world("soft")
    audit = us.audit(gold, pool)
    html = shown(audit)
    assert all(sentence.split()[0] in html for sentence in audit.verdict) and html.count("<svg") >= 2
    compared = us.compare(student, gold, pool, ["slam"], seeds=2, workers=1, **FAST)
    html = shown(compared)
    assert "Recommended method" in html and "slam" in html and html.count("<svg") >= 2


class Display:
    """As much of ``IPython.display`` as a bar needs."""

    HTML = str

    def __init__(self) -> None:
        self.made: list[str] = []
        self.updates: list[str] = []

    def display(self, html: str, *, display_id: bool) -> Any:
        assert display_id
        self.made.append(html)
        return SimpleNamespace(update=self.updates.append)


def in_notebook(monkeypatch: pytest.MonkeyPatch, **shell: Any) -> Display:
    display = Display()
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: SimpleNamespace(**shell)))
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    return display


def test_a_bar_in_a_notebook_is_one_place_that_changes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    display = in_notebook(monkeypatch, kernel=object())
    with EpochProgress("<slam>", 3, shown=True) as bar:
        for loss in (0.5, 0.25, 0.125):
            bar.epoch({"loss": loss})
    assert len(display.made) == 1 and len(display.updates) == 2
    assert "<b>&lt;slam&gt;</b>" in display.made[0] and '<progress value="1" max="3">' in display.made[0]
    assert "epoch 3/3 loss 0.1250" in display.updates[-1]
    assert capsys.readouterr().err == ""


def test_a_terminal_with_ipython_is_no_notebook(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    display = in_notebook(monkeypatch)
    EpochProgress("slam", 1, shown=True).epoch({"loss": 0.5})
    assert not display.made and "epoch 1/1" in capsys.readouterr().err
