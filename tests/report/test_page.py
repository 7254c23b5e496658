"""The page: complete in itself, escaped, legible without colour, and true to its numbers."""

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import understudy as us
from understudy.comparison.outcome import Comparison, Correct, Outcome
from understudy.maths.confidence import entropy
from understudy.objective import Context
from understudy.report.comparison_page import comparison_curves, seed_difference, write_comparison_report
from understudy.report.figures import (
    NARROW,
    WIDTH,
    confusion_matrix_figure,
    measure_teacher,
    reliability_figure,
    run_curves,
)
from understudy.report.run_page import write_run_report
from understudy.report.run_text import name_facts
from understudy.report.templates import page as page_of
from understudy.report.templates import unbroken

VOID = {"meta", "br", "img", "link", "input", "hr", "wbr"}


class Page(HTMLParser):
    """Checks that tags close in order, and gathers text, ids and attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []
        self.ids: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.feed(text)
        assert not self.open, f"left open: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        self.ids += [value or "" for name, value in attrs if name == "id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        self.ids += [value or "" for name, value in attrs if name == "id"]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def read(path: Path) -> tuple[Page, str]:
    text = path.read_text(encoding="utf-8")
    page = Page(text)
    assert not re.search(r"<script|https?:|@import|<link|javascript:|\son\w+=", text), "the page must stand alone"
    assert len(page.ids) == len(set(page.ids)), "ids must be unique over all figures"
    for _, name, value in page.attributes:
        if name.endswith("href"):
            is_matrix = value.startswith("data:image/png;base64,")
            assert is_matrix or (value.startswith("#") and value[1:] in page.ids)
    for used in re.findall(r"url\(#([^)]*)\)", text):
        assert used in page.ids
    figures = [value for tag, name, value in page.attributes if tag == "figure" and name == "aria-label"]
    wide, narrow = (text.count(f'<svg class="{kind}"') for kind in ("wide", "narrow"))
    assert len(figures) == wide == narrow > 0, "every picture has a text of its own, and is there for a phone too"
    return page, " ".join(" ".join(page.text).split())


def some_labels(n: int = 40) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    probs = torch.rand(n, 3, generator=generator, dtype=torch.float64).softmax(-1)
    return probs, torch.randint(3, (n,), generator=generator)


def some_comparison() -> Comparison:
    found = Comparison("vanilla")
    for seed in range(3):
        found.add("teacher", seed, Outcome(0.9))
        for method, offset in (("vanilla", 0.0), ("<b>SLaM</b> & $x$", 0.02)):
            curve = [
                {"epoch": e + 1, "test_accuracy": 0.8 + e / 50 + offset + seed / 100, "test_loss": 1.0 - e / 10}
                for e in range(5)
            ]
            found.add(method, seed, Outcome(curve[-1]["test_accuracy"], history=curve))
    return found


def test_comparison_page(tmp_path: Path) -> None:
    probs, y = some_labels()
    gold = us.Gold(torch.zeros(40, 2), y, teacher=probs)
    path = tmp_path / "report.html"
    write_comparison_report(
        path,
        some_comparison(),
        title="A <title> & more",
        verdict=["It is so."],
        trust=measure_teacher(gold, us.Pool(torch.zeros(40, 2), probs)),
        facts=[("Rows", "1,234")],
        warnings=["mind the <gap>"],
    )
    _, text = read(path)
    for part in ("A <title> & more", "It is so.", "mind the <gap>", "1,234", "<b>SLaM</b> & $x$", "minus vanilla"):
        assert part in text
    # vanilla: 0.88, 0.89, 0.90; t(0.975; 2)·0.01/√3 = 0.02484. SLaM is 2 points above in every seed.
    assert "89.0 86.5 to 91.5" in text and "+2.0 +2.0 to +2.0" in text
    assert "epoch chosen on gold" not in text
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("kind", ["soft", "hard", "confidence"])
def test_run_page(kind: str, tmp_path: Path) -> None:
    probs, y = some_labels()
    x = torch.randn(40, 2, generator=torch.Generator().manual_seed(0))
    hard = probs.argmax(1)
    teacher: Any = {"soft": probs, "hard": hard, "confidence": us.Hard(hard, probs.max(1).values)}[kind]
    gold, pool = us.Gold(x, y, teacher=teacher), us.Pool(x, teacher)
    run = us.train(
        lambda: us.models.mlp(inputs=2, classes=3, hidden=(4,)), gold, pool, us.slam(), epochs=3, test=(x, y),
        select=(x, y), progress=False, notes={"class_names": ["cat", "dog", "a very long name of some rare owl"]},
    )  # fmt: skip
    write_run_report(tmp_path / "r.html", run, gold=gold, pool=pool, settings={"Pool file": "<pool>.npz"})
    _, text = read(tmp_path / "r.html")
    assert "40 gold rows and 40 pool rows" in text and "<pool>.npz" in text
    assert f"test set, last epoch (3) {100 * run.history[-1]['test_accuracy']:.1f}%" in text
    assert f"selected epoch ({run.selected_epoch})" in text and "Share of pool rows at the lower bound" in text
    expected = {
        "soft": "margin: the teacher",
        "hard": "by the class that the teacher names",
        "confidence": "the teacher's confidence",
    }
    assert expected[kind] in text
    assert ("cat" in text and "a very long name of som…" in text) == (kind == "hard")


def test_the_page_shows_the_trust_that_was_used(tmp_path: Path) -> None:
    probs, y = some_labels()
    x = torch.randn(40, 2, generator=torch.Generator().manual_seed(0))
    gold, pool = us.Gold(x, y, teacher=probs), us.Pool(x, probs)
    run = us.train(
        us.models.linear(2, 3), gold, pool, us.slam(covariate="entropy", lower_bound=0.6), epochs=1, progress=False
    )
    write_run_report(tmp_path / "r.html", run, gold=gold, pool=pool)
    _, text = read(tmp_path / "r.html")
    assert "negative entropy" in text and "bounded below by 0.6" in text


def test_a_run_without_teacher_or_test_still_has_a_page(tmp_path: Path) -> None:
    x, y = torch.randn(8, 2, generator=torch.Generator().manual_seed(0)), torch.arange(8) % 2
    gold = us.Gold(x, y)
    build = lambda: us.models.linear(inputs=2, classes=2)  # noqa: E731
    run = us.train(build, gold, None, us.vanilla(), epochs=1, progress=False)
    write_run_report(tmp_path / "r.html", run, gold=gold)
    _, text = read(tmp_path / "r.html")
    assert "8 gold rows" in text and "Reliability of the teacher" not in text and "measured on" not in text


def test_trust_is_what_slam_uses() -> None:
    probs, y = some_labels()
    gold = us.Gold(torch.zeros(40, 2), y, teacher=probs)
    trust = measure_teacher(gold, lower_bound=0.6)
    fitted = us.Reliability.fit(probs, y, 0.6)
    assert trust is not None and trust.estimate.alpha_steps is not None and trust.estimate.covariate == "margin"
    torch.testing.assert_close(trust.estimate.alpha_steps(trust.confidence), fitted.alpha(probs))
    assert trust.accuracy == pytest.approx(float((probs.argmax(1) == y).double().mean()))
    assert measure_teacher(us.Gold(torch.zeros(40, 2), y)) is None
    assert measure_teacher(None) is None


@pytest.mark.parametrize(("covariate", "estimator"), [("entropy", "isotonic"), ("margin", "knn")])
def test_the_curve_shown_is_the_one_that_was_used(covariate: str, estimator: str) -> None:
    """As slam fitted it, and not a second one with other settings."""
    probs, y = some_labels()
    x = torch.zeros(40, 2)
    gold, pool = us.Gold(x, y, teacher=probs), us.Pool(x, probs)
    context = Context(gold, pool, classes=probs.shape[1], predict=lambda x: x, features=lambda x: x)
    columns = us.slam(covariate=covariate, estimator=estimator, lower_bound=0.6).link.prepare(context)  # type: ignore[union-attr]
    trust = measure_teacher(gold, pool, reliability=context.fits["slam"])
    assert trust is not None and trust.estimate.alpha_steps is not None and trust.pool_confidence is not None
    assert trust.estimate.covariate == covariate
    torch.testing.assert_close(trust.estimate.alpha_steps(trust.confidence).float(), columns["alpha"])
    torch.testing.assert_close(trust.pool_confidence, trust.confidence)
    if covariate == "entropy":
        torch.testing.assert_close(trust.confidence, -entropy(probs))
    assert ("negative entropy" in reliability_figure(trust)) == (covariate == "entropy")


def test_a_runs_page_shows_the_curve_its_training_used(tmp_path: Path) -> None:
    probs, y = some_labels()
    x = torch.zeros(40, 2)
    gold, pool = us.Gold(x, y, teacher=probs), us.Pool(x, probs)
    student = us.models.linear(2, probs.shape[1])
    run = us.train(student, gold, pool, us.slam(covariate="entropy"), epochs=1, progress=False)
    write_run_report(tmp_path / "report.html", run, gold=gold, pool=pool)
    used = measure_teacher(gold, pool, reliability=run.fits["slam"])
    assert used is not None and used.estimate.covariate == "entropy"
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "shown against its negative entropy" in page and reliability_figure(used) in page


def test_steps_are_drawn_where_the_curve_has_them() -> None:
    # Right above a margin of 0.5, wrong below: one step, from the lower bound to 1, at the last wrong row (0.2).
    p = torch.tensor([0.55, 0.6, 0.8, 0.9], dtype=torch.float64)
    gold = us.Gold(torch.zeros(4, 1), torch.tensor([1, 1, 0, 0]), teacher=torch.stack([p, 1 - p], 1))
    trust = measure_teacher(gold)
    assert trust is not None and trust.estimate.alpha_steps is not None
    assert trust.estimate.alpha_steps.knots.tolist() == pytest.approx(
        [0.2, 0.8]
    ) and trust.estimate.alpha_steps.values.tolist() == [0.5, 1.0]
    svg = reliability_figure(trust)
    path = max(re.findall(r'<path d="([^"]*)"[^>]*stroke: #000000; stroke-width: 2', svg), key=len)
    points = np.array([[float(n) for n in pair] for pair in re.findall(r"[ML] (\S+) (\S+)", path)])
    jump = points[np.flatnonzero(np.abs(np.diff(points[:, 1])) > 1)[0], 0]
    share = (jump - points[0, 0]) / (points[-1, 0] - points[0, 0])
    assert share == pytest.approx(0.2, abs=1e-3)


def test_figures_are_the_same_every_time() -> None:
    probs, y = some_labels()
    trust = measure_teacher(us.Gold(torch.zeros(40, 2), y, teacher=probs))
    assert trust is not None and reliability_figure(trust) == reliability_figure(trust)
    assert comparison_curves(some_comparison()) == comparison_curves(some_comparison())


def test_long_histories_are_thinned_and_short_ones_drawn() -> None:
    def history(epochs: int) -> list[dict[str, float]]:
        return [{"epoch": e + 1, "loss": 1 / (e + 1), "test_accuracy": 0.5, "test_loss": 1.0} for e in range(epochs)]

    assert len(run_curves(history(20_000))) < 70_000
    assert "<svg" in run_curves(history(1), selected_epoch=1)


def test_a_narrow_picture_has_its_panels_below_each_other_and_all_of_its_legend() -> None:
    history = [{"epoch": e, "loss": 1 / e, "test_accuracy": 0.5, "test_loss": 1.0} for e in (1, 2, 3)]
    wide, narrow = run_curves(history).split('<svg class="narrow"')
    sizes = [[float(each) for each in re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', part).groups()]
             for part in (wide, narrow)]  # type: ignore[union-attr]  # fmt: skip
    assert sizes[0][0] == pytest.approx(72 * WIDTH) and sizes[1][0] == pytest.approx(72 * NARROW)
    assert sizes[1][1] == pytest.approx(1.6 * sizes[0][1])
    for name in ("accuracy, %", "loss", "epoch"):
        assert wide.count(name) == narrow.count(name) > 0
    left = [[float(x) for x in re.findall(r'<rect x="([\d.]+)"', part)] for part in (wide, narrow)]
    assert max(left[0]) - min(left[0]) > 100 and max(left[1]) - min(left[1]) < 20


def test_a_cell_keeps_its_interval_together_and_stays_escaped() -> None:
    assert unbroken("80.0% (67.2–89.4)") == '80.0% <span class="ci">(67.2–89.4)</span>'
    assert unbroken("67.2–89.4") == '<span class="ci">67.2–89.4</span>'
    assert unbroken("<b> (a–<i>)") == '&lt;b&gt; <span class="ci">(a–&lt;i&gt;)</span>'


def test_facts_have_names() -> None:
    assert name_facts({"gold_rows": 1200.0, "slam.share_at_lower_bound": 0.125, "own.fact": 0.12345}) == [
        ("Gold rows", "1,200"),
        ("Share of pool rows at the lower bound of α", "12.5%"),
        ("own.fact", "0.123"),
    ]


def test_a_page_shows_what_reconciled_labels_were_made_of(tmp_path: Path) -> None:
    numbers = {"weight": 0.61, "accuracy": 0.8, "rows": 50.0, "log_loss": 0.512, "disagreement": 0.0}
    facts = {"reconciled.log_loss": 0.4, "reconciled.accuracy": 0.9, "reconciled.gold_rows": 50.0}
    facts |= {f"reconciled.{name} of <gce>": value for name, value in numbers.items()}
    run = us.Run(student=us.models.linear(2, 2), history=[], columns={}, config={}, facts=facts)
    write_run_report(tmp_path / "report.html", run)
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Label sources" in text and "your student, trained by &lt;gce&gt;" in text
    assert "0.61" in text and '80.0% <span class="ci">(67.2–89.4)</span>' in text and "90.0%" in text
    assert "reconciled.weight" not in text, "the table tells it, not the facts"
    write_run_report(tmp_path / "plain.html", us.Run(us.models.linear(2, 2), [], {}, {}, {"gold_rows": 5.0}))
    assert "Label sources" not in (tmp_path / "plain.html").read_text(encoding="utf-8")


@pytest.mark.filterwarnings("ignore:gold holds no example of class 2, 3")
def test_classes_that_no_row_has_are_left_out_of_matrix_and_table(tmp_path: Path) -> None:
    x, y = torch.randn(40, 2, generator=torch.Generator().manual_seed(0)), torch.arange(40) % 2
    names = ["cat", "dog", "never given", "nor this"]
    x[y == 1] += 9
    run = us.train(
        us.models.linear(2, 4), us.Gold(x, y), None, us.vanilla(), epochs=60, lr=0.1, test=(x, y), progress=False,
        evaluate=True, notes={"class_names": names},
    )  # fmt: skip
    write_run_report(tmp_path / "r.html", run)
    _, text = read(tmp_path / "r.html")
    assert "cat" in text and "never given" not in text
    assert "No row has or is predicted as one of 2 more classes." in text


def test_a_matrix_of_many_classes_is_no_higher_than_a_phone_is_wide() -> None:
    counts = np.diag(np.full(30, 5))
    _, narrow = confusion_matrix_figure(counts, [f"class number {label}" for label in range(30)]).split(
        '<svg class="narrow"'
    )
    width, height = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', narrow).groups()  # type: ignore[union-attr]
    assert float(height) <= float(width) and "rotate(-90)" in narrow


def test_names_that_lean_on_a_page_stand_on_a_phone() -> None:
    names = [f"a long name of class {label}" for label in range(6)]
    wide, narrow = confusion_matrix_figure(np.eye(6, dtype=int), names).split('<svg class="narrow"')
    assert "rotate(-35)" in wide and "rotate(-35)" not in narrow and narrow.count("rotate(-90)") > 5


def test_long_names_of_classes_may_break_and_nothing_else() -> None:
    table = [["card_not_working→pin", "1_2"]]
    made = page_of(
        "page.html.jinja", template="deferral.html.jinja", title="a_b", tables=[("t", ["", "n"], table)], figure=""
    )
    assert "card_<wbr>not_<wbr>working→<wbr>pin" in made and "a_b" in made and "1_2" in made


def test_seeds_of_a_difference_are_measured_on_the_rows_that_both_have() -> None:
    """Of four rows the teacher labelled two: on them it is as good as the student, who is wrong on the others."""
    student = Outcome(0.5, judged=Correct(np.arange(4), np.array([True, True, False, False])))
    teacher = Outcome(1.0, judged=Correct(np.arange(2), np.array([True, True])))
    assert seed_difference(teacher, student) == 0
    assert seed_difference(Outcome(0.75), Outcome(0.5)) == 0.25
