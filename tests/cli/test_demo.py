"""The demo at a tiny scale, and its verdict in every direction."""

import warnings
from pathlib import Path

import pytest
import torch

from understudy.cli import digits_demo as demo
from understudy.cli.digits_demo import GOLD_ONLY, SLAM, TEACHER, VANILLA, WEIGHTED, Setting, deal, judge, run_demo
from understudy.comparison.outcome import Comparison, Outcome
from understudy.errors import UnderstudyWarning

TINY = Setting(seeds=2, teacher_rows=60, gold_rows=40, pool_rows=200, epochs=2, gold_only_epochs=3)


def comparison(**points: float) -> Comparison:
    """SLaM at 90% in the mean, the others so many points below or above it, in every seed up to a small wobble."""
    found = Comparison(VANILLA)
    names = {"teacher": TEACHER, "gold": GOLD_ONLY, "vanilla": VANILLA, "weighted": WEIGHTED}
    for seed, (mine, wobble) in enumerate([(0.89, 0.001), (0.90, 0.0), (0.91, -0.001)]):
        for key, name in names.items():
            found.add(name, seed, Outcome(mine + points.get(key, 0.0) / 100 + wobble))
        found.add(SLAM, seed, Outcome(mine))
    return found


def test_verdict_when_slam_wins() -> None:
    verdict = judge(comparison(teacher=-1, gold=-8, vanilla=-0.5))
    assert verdict[0] == "The SLaM student beats its teacher: +1.0 points over 3 seeds, 95% interval +0.8 to +1.2."
    assert verdict[1].startswith("It beats training on the gold rows alone: +8.0")
    assert verdict[2].startswith("SLaM is ahead of vanilla distillation: +0.5")
    # weighted is level with SLaM up to rounding; no claim that gold wins.
    assert not any("does not pay" in sentence for sentence in verdict)


def test_verdict_when_slam_loses() -> None:
    verdict = judge(comparison(teacher=2, gold=3, vanilla=1))
    assert verdict[0].startswith("The SLaM student stays behind its teacher: −2.0")
    assert verdict[1].startswith("Training on the gold rows alone wins over SLaM: −3.0")
    assert verdict[2].startswith("SLaM is behind vanilla distillation: −1.0")
    assert verdict[3] == "In this setting the pool does not pay: train on gold alone."
    assert verdict[4] == "The highest mean is that of gold only: 93.0%."


def test_verdict_when_nothing_can_be_told() -> None:
    # Half-width of the paired interval: 4.3027 · 0.001 / √3 = 0.25 points, so 0.2 is within.
    verdict = judge(comparison(teacher=-0.2, gold=0.2, vanilla=-0.2))
    for sentence, said in zip(verdict, ("and its teacher", "training on the gold rows alone", "vanilla"), strict=False):
        assert "cannot be told apart" in sentence and said in sentence and "includes 0" in sentence
    assert "wins" not in " ".join(verdict) and "beats" not in " ".join(verdict)


def test_a_single_seed_decides_nothing() -> None:
    found = Comparison(VANILLA)
    for name, value in ((TEACHER, 0.5), (GOLD_ONLY, 0.5), (VANILLA, 0.5), (SLAM, 0.9)):
        found.add(name, 0, Outcome(value))
    assert all("cannot be told apart" in sentence and "single seed" in sentence for sentence in judge(found)[:3])


def test_rows_are_dealt_once_each() -> None:
    situation = deal(0, TINY)
    assert (len(situation.gold), len(situation.pool), len(situation.test)) == (40, 200, 1797 - 300)
    assert len(situation.gold.calibration_rows()) == 40
    dealt = torch.cat([situation.gold.x, situation.pool.x, situation.test.x])
    assert len(dealt.unique(dim=0)) == len(dealt) == 1797 - 60
    again = deal(0, TINY)
    assert again.gold.y.tolist() == situation.gold.y.tolist()
    assert deal(1, TINY).gold.y.tolist() != situation.gold.y.tolist()


def test_tiny_demo_end_to_end(tmp_path: Path) -> None:
    done: list[str] = []
    result = run_demo(tmp_path / "demo", TINY, on_done=lambda method, seed, outcome: done.append(f"{method} {seed}"))
    assert list(result.comparison.outcomes) == [TEACHER, GOLD_ONLY, VANILLA, WEIGHTED, SLAM]
    assert result.comparison.seeds == [0, 1] and len(done) == 10
    histories = {name: by_seed[0].history for name, by_seed in result.comparison.outcomes.items()}
    assert {name: len(history) for name, history in histories.items()} == {
        TEACHER: 0,
        GOLD_ONLY: 3,
        VANILLA: 2,
        WEIGHTED: 2,
        SLAM: 2,
    }
    assert result.verdict == judge(result.comparison)
    text = result.report.read_text(encoding="utf-8")
    assert result.report == tmp_path / "demo" / "report.html" and "How far the teacher can be trusted" in text
    # A second demo replaces the first one's page.
    run_demo(tmp_path / "demo", Setting(**{**TINY.__dict__, "seeds": 1}))
    assert [path.name for path in (tmp_path / "demo").iterdir()] == ["report.html"]


def test_warnings_are_gathered_and_others_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def noisy(seed: int, setting: Setting) -> demo.Situation:
        warnings.warn("too little", UnderstudyWarning, stacklevel=1)
        warnings.warn("from elsewhere", RuntimeWarning, stacklevel=1)
        return deal(seed, setting)

    monkeypatch.setattr(demo, "deal", noisy)
    # Shown as before, by whoever shows warnings.
    with pytest.warns(RuntimeWarning, match="from elsewhere"), pytest.warns(UnderstudyWarning, match="too little"):
        result = run_demo(tmp_path, TINY)
    assert "too little" in result.warnings and len(set(result.warnings)) == len(result.warnings)
    assert "too little" in result.report.read_text(encoding="utf-8")


@pytest.mark.slow
def test_demo_shows_what_it_is_for() -> None:
    """Three seeds at full size: gold only < teacher < SLaM, and vanilla < SLaM, in the mean."""
    from understudy.cli.digits_demo import methods
    from understudy.comparison.outcome import run_cells

    setting = Setting(seeds=3)
    found = run_cells(lambda seed: methods(deal(seed, setting), seed, setting), range(3), reference=VANILLA)
    mean = {line.method: line.last.mean for line in found.rows()}
    assert mean[GOLD_ONLY] < mean[TEACHER] < mean[SLAM] and mean[VANILLA] < mean[SLAM]
