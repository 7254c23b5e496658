"""``us.defer``: the threshold, the promise, what can be promised instead; and the run that keeps the rule."""

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import binom
from typer.testing import CliRunner

import understudy as us
from understudy.auditing.deferral import Candidates
from understudy.cli import app
from understudy.inference.cascade import DEFERRAL, Cascade
from understudy.io.table import read_table
from understudy.io.write import write_table

pytestmark = pytest.mark.pictures


def test_threshold_by_hand() -> None:
    """100 rows, target 0.9, δ 0.1: the student is right on its 60 surest rows, the teacher on all but 2."""
    scores = np.arange(100) / 100
    student, teacher = scores < 0.6, np.arange(100) % 50 != 49
    found = Candidates(scores, student, teacher)
    assert found.share[0] == 1 and found.share[-1] == 0 and (np.diff(found.share) < 0).all()
    chosen = int(found.promising(0.9, 0.1)[-1])
    # Deferring 40 leaves 1 wrong row, 38: 3, 36: 5, 34: 7. P(Bin(100, 0.9) ≥ 95) = 0.058, ≥ 93: 0.21.
    assert found.share[chosen] == pytest.approx(0.36) and found.hits[chosen] == 95
    # At δ 0.05 it is enough for 97 hits (0.0078), not for 95.
    assert found.share[int(found.promising(0.9, 0.05)[-1])] == pytest.approx(0.38)


def test_test_begins_where_the_probabilities_expect_success() -> None:
    """The teacher alone is right on 80 of 100 rows, and never on the student's 60 surest: nothing can be promised from
    "defer everything" on, but where 40 are deferred all is right."""
    scores = np.arange(100) / 100
    student, teacher = scores < 0.6, (scores >= 0.6) | (np.arange(100) % 3 > 0)
    assert not len(Candidates(scores, student, teacher).promising(0.9, 0.1))
    likely = np.where(student, 0.97, 0.1), np.where(scores >= 0.6, 0.97, 0.7)
    found = Candidates(scores, student, teacher, likely)
    start = int(found.parts(0.9).argmax())
    # Three quarters of δ: 0.075, enough for 100, 98 and 96 hits (0.024; 94: 0.12).
    assert found.share[start] == pytest.approx(0.4) and found.parts(0.9)[[0, start]].tolist() == [0.25, 0.75]
    assert found.share[found.promising(0.9, 0.1)].tolist() == pytest.approx([0.4, 0.38, 0.36])


@pytest.mark.parametrize("abstains", [False, True])
def test_threshold_is_that_of_a_search_over_all_rows(abstains: bool) -> None:
    rng = np.random.default_rng(3)
    for _ in range(20):
        scores, target, delta = rng.random(150).round(2), rng.uniform(0.6, 0.9), 0.1
        student, teacher = rng.random(150) > scores, rng.random(150) < 0.9
        found = Candidates(scores, student, None if abstains else teacher, (rng.random(150), rng.random(150)))
        parts, level, accepted = found.parts(target), 0.0, []
        for place, threshold in enumerate(found.thresholds):
            hits = rows = 0
            for score, mine, theirs in zip(scores, student, teacher, strict=True):
                if score <= threshold or not abstains:
                    hits, rows = hits + (mine if score <= threshold else theirs), rows + 1
            level += delta * parts[place]
            accepted.append(rows > 0 and binom.sf(hits - 1, rows, target) <= level)
            level = level if accepted[-1] else 0.0
        assert found.promising(target, delta).tolist() == np.flatnonzero(accepted).tolist()
        assert parts.sum() == pytest.approx(1)


def test_what_can_be_promised_instead_and_how_many_rows_it_takes() -> None:
    rng = np.random.default_rng(0)
    student, teacher = rng.random(200) < 0.7, rng.random(200) < 0.92
    found = Candidates(rng.random(200), student, teacher)
    assert not len(found.promising(0.9, 0.05))
    best = found.possible(0.05)
    assert best is not None and len(found.promising(best, 0.05)) and not len(found.promising(best + 2e-4, 0.05))
    rows = found.rows_needed(0.9, 0.05)
    assert rows is not None and rows > 200
    for times, enough in ((rows / 200, True), (0.95 * rows / 200, False)):
        assert bool(len(found.promising(0.9, 0.05, times))) is enough
    assert found.rows_needed(0.99, 0.05) is None


def noisy_world(rows: int = 900) -> tuple[us.Gold, us.Pool, us.Gold]:
    """Two classes a line apart, a teacher that is right on 90% of the rows whatever the row."""
    made = torch.Generator().manual_seed(0)
    x = torch.randn(rows, 2, generator=made)
    y = (x[:, 0] + 0.7 * torch.randn(rows, generator=made) > 0).long()
    said = torch.where(torch.rand(rows, generator=made) < 0.9, y, 1 - y)
    parts = [slice(0, 200), slice(200, 500), slice(500, rows)]
    gold, test = (us.Gold(x[each], y[each], teacher=us.Hard(said[each], classes=2)) for each in (parts[0], parts[2]))
    return gold, us.Pool(x[parts[1]], us.Hard(said[parts[1]], classes=2)), test


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    gold, pool, _ = noisy_world()
    folder = tmp_path_factory.mktemp("defer") / "run"
    us.train("linear", gold, pool, us.vanilla(), out=folder, evaluate=True, progress=False)
    return folder


def test_student_and_teacher_together_are_better_than_either(trained: Path) -> None:
    run, (_, _, test) = us.Run.load(trained), noisy_world()
    found = run.evaluation
    assert found is not None and found.combined is not None and run.cascade.combination is not None
    assert found.combined.rows == 200 and found.combined.estimate > max(found.accuracy.estimate, 0.85)
    x, labels = test.rows.take(torch.arange(len(test))), test.teacher.top1()
    together = run.predict(x, teacher=labels)
    accuracy = [float((each == test.y).double().mean()) for each in (run.predict(x).argmax(1), labels)]
    assert float((together.argmax(1) == test.y).double().mean()) > max(accuracy)
    some = torch.where(torch.arange(len(labels)) < 10, labels, -1)
    assert torch.equal(run.predict(x, teacher=some)[:10], together[:10])
    torch.testing.assert_close(run.predict(x, teacher=some)[10:], run.predict(x)[10:])
    with pytest.raises(us.UnderstudyError, match="teacher"):
        run.predict(x, teacher=labels[:5])


def test_rule_is_kept_in_the_run_and_holds_on_new_rows(trained: Path) -> None:
    found, (_, _, test) = us.defer(trained, target_accuracy=0.85), noisy_world()
    assert found.rule is not None and found.promised == 0.85 and 0 < found.share < 1
    run = us.Run.load(trained)
    assert run.rule == found.rule == Cascade.load(trained).rule
    x = test.rows.take(torch.arange(len(test)))
    probs = run.predict(x)
    deferred = torch.from_numpy(run.cascade.defer(probs.numpy()))
    answers = run.predict(x, teacher=torch.where(deferred, test.teacher.top1(), -1)).argmax(1)
    assert float((answers == test.y).double().mean()) >= 0.85
    assert abs(float(deferred.double().mean()) - found.share) < 0.1
    copy = trained.parent / "copy"
    for rule in (found.rule, None, found.rule):  # a run without a rule takes that of the one before away
        run.rule = rule
        run.save(copy)
        assert us.Run.load(copy).rule == rule
    assert us.Run.load(copy).rule == found.rule
    assert CliRunner().invoke(app, ["verify", str(copy)]).exit_code == 0
    (copy / DEFERRAL).write_text((copy / DEFERRAL).read_text().replace("0.85", "0.95"))
    assert CliRunner().invoke(app, ["verify", str(copy)]).exit_code == 2


def test_command_writes_the_rule_or_says_what_can_be_promised(trained: Path) -> None:
    def call(*options: str) -> tuple[int, str]:
        result = CliRunner().invoke(app, ["defer", str(trained), *options])
        return result.exit_code, " ".join(result.output.split())

    code, text = call("--target-accuracy", "0.85", "--price", "0.5")
    assert code == 0 and "at least 85.0% with probability 95%" in text and "cost per 1,000 rows" in text
    assert (trained / "deferral.html").exists()
    rule = us.Run.load(trained).rule
    code, text = call("--target-accuracy", "0.999")
    assert (
        code == 1
        and "99.9% cannot be promised with 200 gold rows" in text
        and "No rule was written; an earlier one stays" in text
    )
    assert us.Run.load(trained).rule == rule
    code, text = call("--target-accuracy", "0.7", "--abstain", "--by-class")
    assert code == 0 and "By the class that the student predicts" in text
    assert call("--budget", "0.2", "--target-accuracy", "0.9")[0] == 2


def test_budget_costs_and_classes(trained: Path) -> None:
    run = us.Run.load(trained)
    found = us.defer(run, budget=0.2)
    curve = found.curves["combined"]
    within = [place for place, share in enumerate(curve.share) if share <= 0.2]
    assert found.accuracy == max(curve.accuracy[place] for place in within) and found.share <= 0.2
    assert found.promised == curve.low[curve.share.index(found.share)] == us.Run.load(trained).rule.details["promised"]
    free, dear = (us.defer(run, error_cost=10, price=price) for price in (0, 9))
    assert free.accuracy == max(curve.accuracy) and dear.share < free.share
    both = us.defer(run, target_accuracy=0.8, by_class=True)
    assert both.rule is not None and len(both.rule.thresholds) == 2
    probs = run.evaluation.held_out.probs.numpy()
    assert Cascade(None, both.rule).defer(probs).mean() == pytest.approx(both.share)


def test_predict_takes_the_teachers_column_and_marks_rows(tmp_path: Path) -> None:
    gold, pool, test = noisy_world()
    names = np.array(["no", "yes"], object)

    def columns(part: us.Gold | us.Pool) -> dict[str, object]:
        x = part.rows.take(torch.arange(len(part))).numpy()
        return {"a": x[:, 0], "b": x[:, 1], "teacher_label": names[part.teacher.top1().numpy()]}

    given = columns(gold) | {"label": names[gold.y.numpy()]}
    model = us.fit(given, columns(pool), method="vanilla", student="linear", out=tmp_path / "run", progress=False)
    assert model.defer(target_accuracy=0.8).rule is not None
    rows = columns(test)
    said = rows.pop("teacher_label")
    together = model.predict(rows, teacher=said)
    said[:5] = ""
    some = model.predict_proba(rows, teacher=said)
    assert (some.argmax(1)[5:] == model.run.predict(rows, teacher=said).argmax(1).numpy()[5:]).all()
    np.testing.assert_array_equal(some[:5], model.predict_proba(rows)[:5])
    write_table(tmp_path / "new.csv", rows | {"llm": said, "label": names[test.y.numpy()]})
    out = tmp_path / "predictions.csv"
    options = ["--column", "teacher_label=llm", "--out", str(out)]
    result = CliRunner().invoke(app, ["predict", str(tmp_path / "run"), str(tmp_path / "new.csv"), *options])
    assert result.exit_code == 0, result.output
    written = read_table(out).columns
    assert written["label"].tolist()[5:] == together.tolist()[5:]
    marked = np.array([str(each).lower() == "true" for each in written["deferred"].tolist()])
    assert (marked == model.run.cascade.defer(model.predict_proba(rows))).all() and 0 < marked.mean() < 1


def test_chosen_rows_do_not_count() -> None:
    gold, pool, _ = noisy_world()
    chosen = replace_chosen(gold, 100)
    run = us.train("linear", chosen, pool, us.vanilla(), evaluate=True, progress=False)
    assert us.defer(run, budget=0.5).rows == 100
    bare = us.train("linear", us.Gold(gold.rows, gold.y), pool, us.vanilla(), evaluate=True, progress=False)
    with pytest.raises(us.UnderstudyError, match="use --abstain"):
        us.defer(bare, budget=0.5)
    assert us.defer(bare, budget=0.5, abstain=True).rows == 200


def replace_chosen(gold: us.Gold, rows: int) -> us.Gold:
    return gold.marked_chosen(torch.arange(len(gold)) < rows)


@pytest.mark.parametrize("abstains", [False, True])
def test_promise_is_kept_in_all_but_delta_of_the_draws(abstains: bool) -> None:
    """Scores s are uniform up to 0.5, the student is right with 1 − 1.1 s, the teacher on 92%; a plain threshold, the
    least share whose accuracy on the same rows reaches the target, breaks it in half of the draws."""

    def accuracy(threshold: float) -> float:
        below = min(max(threshold, 0.0), 0.5)
        alone = 1 - 0.55 * below
        return alone if abstains else 2 * below * alone + (1 - 2 * below) * 0.92

    rng, draws, broken, plain, found = np.random.default_rng(0), 250, 0, 0, 0
    for _ in range(draws):
        scores = rng.random(300) * 0.5
        student, teacher = rng.random(300) < 1 - 1.1 * scores, rng.random(300) < 0.92
        own = Candidates(scores, student, None if abstains else teacher, (1 - scores, np.full(300, 0.9)))
        for count, places in enumerate((own.promising(0.8, 0.05), np.flatnonzero(own.accuracy >= 0.8))):
            below = len(places) > 0 and accuracy(float(own.thresholds[places[-1]])) < 0.8
            broken, plain = broken + (below and count == 0), plain + (below and count == 1)
        found += len(own.promising(0.8, 0.05)) > 0
    assert broken <= binom.ppf(0.99, draws, 0.05) and found > 0.85 * draws
    assert plain > 0.35 * draws
