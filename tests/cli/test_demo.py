"""The demo at a tiny scale, and its verdict in every direction."""

import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

import understudy as us
from understudy.comparison import digits_demo as demo
from understudy.comparison.digits_demo import (
    AUTO,
    ON_BOTH,
    ON_GOLD,
    TEACHER,
    DemoData,
    DemoResult,
    DemoSetting,
    demo_methods,
    run_demo,
    split_digits,
)
from understudy.comparison.outcome import Comparison, Outcome
from understudy.errors import UnderstudyWarning
from understudy.report.comparison_page import write_demo_report
from understudy.report.templates import sentences

TINY = DemoSetting(seeds=2, teacher_rows=60, gold_rows=40, pool_rows=100)


def comparison(**points: float) -> Comparison:
    """auto at 90% in the mean, the others so many points below or above it, in every seed up to a small wobble."""
    found = Comparison(ON_BOTH)
    names = {"teacher": TEACHER, "gold": ON_GOLD, "both": ON_BOTH}
    for seed, (mine, wobble) in enumerate([(0.89, 0.001), (0.90, 0.0), (0.91, -0.001)]):
        for key, name in names.items():
            found.add(name, seed, Outcome(mine + points.get(key, 0.0) / 100 + wobble))
        found.add(AUTO, seed, Outcome(mine))
    return found


def test_verdict_when_auto_is_better() -> None:
    verdict = sentences("demo", "verdict", comparison(teacher=-1, gold=-8, both=-0.5))
    assert verdict[0] == "auto vs its teacher: +1.0 points (95% CI +0.8 to +1.2, 3 seeds), significantly better."
    assert verdict[1].startswith("auto vs logistic regression on gold: +8.0")
    assert verdict[2].startswith("auto vs logistic regression on all labels as they are: +0.5")


def test_verdict_when_auto_is_worse() -> None:
    verdict = sentences("demo", "verdict", comparison(teacher=2, gold=3, both=1))
    assert verdict[0].startswith("auto vs its teacher: −2.0")
    assert all(sentence.endswith("significantly worse.") for sentence in verdict[:3])
    assert verdict[3] == "Highest mean accuracy: regression on gold, 93.0%."


def test_verdict_without_significance() -> None:
    # Half-width of the paired interval: 4.3027 · 0.001 / √3 = 0.25 points, so 0.2 is within.
    verdict = sentences("demo", "verdict", comparison(teacher=-0.2, gold=0.2, both=-0.2))
    assert all(sentence.endswith("not significant.") for sentence in verdict[:3])


def test_a_single_seed_decides_nothing() -> None:
    found = Comparison(ON_BOTH)
    for name, value in ((TEACHER, 0.5), (ON_GOLD, 0.5), (ON_BOTH, 0.5), (AUTO, 0.9)):
        found.add(name, 0, Outcome(value))
    assert all(
        "single seed" in sentence and "unknown" in sentence for sentence in sentences("demo", "verdict", found)[:3]
    )


def test_every_row_is_in_one_set_and_the_alternatives_are_what_they_say() -> None:
    data = split_digits(0, TINY)
    assert (len(data.gold), len(data.pool), len(data.test)) == (40, 100, 1797 - 200)
    assert len(data.gold.calibration_rows()) == 40
    every = torch.cat([data.gold.x, data.pool.x, data.test.x])
    assert len(every.unique(dim=0)) == len(every) == 1797 - 60
    again = split_digits(0, TINY)
    assert again.gold.y.tolist() == data.gold.y.tolist()
    assert split_digits(1, TINY).gold.y.tolist() != data.gold.y.tolist()
    trainings = demo_methods(data, 0)
    assert list(trainings) == [TEACHER, ON_GOLD, ON_BOTH, AUTO]
    x, labels = np.concatenate([data.gold.x, data.pool.x]), np.concatenate([data.gold.y, data.pool.teacher.top1()])
    plain = LogisticRegression(max_iter=1000).fit(x, labels)
    assert trainings[ON_BOTH]() == plain.score(data.test.x.numpy(), data.test.y.numpy())


def tiny_auto(*args: object, **options: object) -> us.Run:
    """One training in place of the pilot's many."""
    student, gold, pool = args[:3]
    return us.train(student, gold, pool, us.vanilla(), test=options["test"], epochs=1, progress=False)  # type: ignore


def test_tiny_demo_end_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "auto", tiny_auto)
    done: list[str] = []
    result = run_demo(TINY, on_done=lambda method, seed, outcome: done.append(f"{method} {seed}"))
    assert list(result.comparison.outcomes) == [TEACHER, ON_GOLD, ON_BOTH, AUTO]
    assert result.comparison.seeds == [0, 1] and len(done) == 8
    report = tmp_path / "demo" / "report.html"
    write_demo_report(report, result)
    text = report.read_text(encoding="utf-8")
    assert "Reliability of the teacher" in text and sentences("demo", "verdict", result.comparison)[0] in text
    # A second demo replaces the first one's page.
    write_demo_report(report, result)
    assert [path.name for path in (tmp_path / "demo").iterdir()] == ["report.html"]


def test_warnings_are_gathered_and_others_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def noisy(seed: int, setting: DemoSetting) -> DemoData:
        warnings.warn("too little", UnderstudyWarning, stacklevel=1)
        warnings.warn("from elsewhere", RuntimeWarning, stacklevel=1)
        return split_digits(seed, setting)

    monkeypatch.setattr(demo, "split_digits", noisy)
    monkeypatch.setattr(demo, "auto", tiny_auto)
    # Shown as before too.
    with pytest.warns(RuntimeWarning, match="from elsewhere"), pytest.warns(UnderstudyWarning, match="too little"):
        result = run_demo(TINY)
    assert "too little" in result.warnings and len(set(result.warnings)) == len(result.warnings)
    write_demo_report(tmp_path / "report.html", result)
    assert "too little" in (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.mark.torture
def test_demo_shows_what_it_is_for() -> None:
    """Three seeds at full size: auto is above each alternative, in the mean."""
    result: DemoResult = run_demo(DemoSetting(seeds=3))
    mean = {line.method: line.last.mean for line in result.comparison.rows()}
    assert mean[AUTO] > max(mean[TEACHER], mean[ON_GOLD], mean[ON_BOTH])
