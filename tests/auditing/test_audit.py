"""The audit's numbers by hand, for every form of labels, and its sentences."""

import io
import json
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console

import understudy as us
from understudy.auditing.audit import Audit
from understudy.auditing.measures import FEWEST, audit_data, calibration_of, strata_of
from understudy.inference.passes import metrics
from understudy.maths.proportions import exact
from understudy.report.audit_text import print_audit
from understudy.report.templates import two_digits


def rows(*parts: tuple[int, int, int]) -> tuple[np.ndarray, np.ndarray]:
    """(truth, named, how often) -> truth and named."""
    truth = np.concatenate([np.full(count, true) for true, _, count in parts])
    named = np.concatenate([np.full(count, predicted) for _, predicted, count in parts])
    return truth, named


# Predicted 0: 10 rows, 4 wrong. Predicted 1: 30 rows, 3 wrong.
TRUTH, NAMED = rows((0, 0, 6), (1, 0, 4), (1, 1, 27), (0, 1, 3))
POOL = np.repeat([0, 1], [800, 200])


def small(pool: Any = POOL, **options: Any) -> Audit:
    gold = us.Gold(np.zeros((len(TRUTH), 2)), TRUTH, teacher=NAMED)
    return us.audit(gold, None if pool is None else us.Pool(np.zeros((len(pool), 2)), pool), **options)


def soft(labels: np.ndarray, classes: int, sure: np.ndarray) -> np.ndarray:
    probs = np.repeat(((1 - sure) / (classes - 1))[:, None], classes, axis=1)
    probs[np.arange(len(labels)), labels] = sure
    return probs


def noisy(count: int = 600, classes: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Truth, label and a confidence that means what it says."""
    rng = np.random.default_rng(seed)
    truth, sure = rng.integers(0, classes, count), rng.uniform(0.5, 1, count)
    wrong = rng.random(count) > sure
    return truth, np.where(wrong, (truth + rng.integers(1, classes, count)) % classes, truth), sure


FORMS = {
    "hard labels": lambda label, sure: label,
    "hard labels with a confidence": lambda label, sure: us.Hard(label, sure),
    "soft labels": lambda label, sure: soft(label, 3, sure),
    "top-k labels": lambda label, sure: us.TopK(
        np.stack([label, (label + 1) % 3], 1), np.stack([sure, (1 - sure) * 0.8], 1), classes=3
    ),
    "votes": lambda label, sure: us.Votes(np.stack([label, label, np.where(sure > 0.7, label, -1)], 1), classes=3),
}


def test_noise_is_post_stratified_to_the_pool() -> None:
    found = small().noise
    assert found.gold.estimate == 7 / 40
    assert found.pool.estimate == pytest.approx(0.8 * 4 / 10 + 0.2 * 3 / 30)
    assert found.pool.low < 0.34 < found.pool.high
    # 800 of the pool's rows lean on 10 of gold: it knows less than 40 rows would.
    assert 10 < found.pool.rows < 20
    assert found.strata == 2


def test_without_a_pool_gold_speaks_for_itself() -> None:
    found = small(pool=None)
    assert found.noise.pool == found.noise.gold == exact(7, 40)
    assert found.pool_rows is None and found.shift is None and found.suspects is None
    assert found.confusion.pairs[0].pool_wrong is None


def test_both_directions_by_hand() -> None:
    found = small().accuracy
    zero, one = found.per_class
    assert (zero.precision, one.precision) == (exact(6, 10), exact(27, 30))
    assert (zero.recall, one.recall) == (exact(6, 9), exact(27, 31))
    assert found.overall == exact(33, 40)
    assert found.macro_precision.estimate == pytest.approx((0.6 + 0.9) / 2)
    assert found.macro_recall.estimate == pytest.approx((6 / 9 + 27 / 31) / 2)
    assert zero.pool_share == 0.8
    assert found.top_k == []


def test_confusions_count_rows_of_the_pool() -> None:
    first, second = small().confusion.pairs
    assert (first.truth, first.predicted, first.gold_rows, first.pool_rows) == (1, 0, 4, 800)
    assert first.pool_wrong is not None
    assert first.pool_wrong.estimate == pytest.approx(800 * 4 / 10)
    assert first.pool_wrong.low < 320 < first.pool_wrong.high
    assert (second.truth, second.predicted) == (0, 1)
    assert small().confusion.matrix.tolist() == [[6, 3], [4, 27]]


def test_asymmetric_confusion_is_significant_or_not() -> None:
    truth, named = rows((0, 0, 200), (1, 1, 200), (1, 0, 27), (0, 1, 6))
    gold = us.Gold(np.zeros((len(truth), 1)), truth, teacher=named)
    found = us.audit(gold, class_names=["neg", "pos"])
    (pair,) = found.confusion.asymmetries
    assert (pair.truth, pair.predicted, pair.more, pair.less, pair.significant) == (1, 0, 27, 6, True)
    assert pair.p_value == pytest.approx(0.000324, abs=1e-6)
    assert any("27 gold rows pos→neg vs 6 neg→pos" in sentence for sentence in found.verdict)
    assert {one.method: one.outlook for one in found.expectations}["forward"] == "likely"
    assert not small().confusion.asymmetries[0].significant
    assert any("No pair of classes has significantly asymmetric confusion" in sentence for sentence in small().verdict)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_labels(form: str) -> None:
    truth, label, sure = noisy()
    x = np.eye(3, dtype=np.float32)[truth] + np.random.default_rng(1).normal(0, 0.3, (600, 3)).astype(np.float32)
    teacher = us.Pool(x, FORMS[form](label, sure)).teacher
    assert teacher is not None
    gold = us.Gold(x[:200], truth[:200], teacher=teacher.take(torch.arange(200)))
    found = us.audit(gold, us.Pool(x[200:], teacher.take(torch.arange(200, 600))))
    assert found.form == form
    assert found.noise.pool.low < float((truth != label)[200:].mean()) < found.noise.pool.high
    assert (found.confidence_auc is None) == (form == "hard labels") == (found.curve is None)
    assert (found.calibration is None) == (form == "hard labels")
    assert len(found.accuracy.top_k) == (0 if form.startswith("hard") else 2)
    assert found.suspects is not None and found.suspects.by_features
    json.dumps(found.to_dict(), allow_nan=False)
    us.audit(gold)


def test_rows_without_a_label_are_left_out() -> None:
    found = small(pool=np.concatenate([POOL, np.full(50, -1)]), rows_wrong=3)
    assert (found.pool_rows, found.unlabelled) == (1000, 50)
    assert found.noise.pool == small().noise.pool
    assert found.suspects is not None and np.isnan(found.suspects.probability[1000:]).all()


def test_chosen_rows_never_estimate() -> None:
    chosen = us.Gold(np.zeros((9, 2)), np.zeros(9, int), teacher=np.ones(9, int), chosen=True)
    gold = us.Gold(np.zeros((40, 2)), TRUTH, teacher=NAMED)
    assert us.audit(gold + chosen).accuracy.overall == exact(33, 40)
    with pytest.raises(us.UnderstudyError, match="no gold row has a teacher label"):
        us.audit(chosen)


def test_strata_are_cut_by_confidence_and_keep_enough_gold() -> None:
    truth, label, sure = noisy(400)
    gold = us.Gold(np.zeros((100, 1)), truth[:100], teacher=us.Hard(label[:100], sure[:100]))
    pool = us.Pool(np.zeros((300, 1)), us.Hard(label[100:], sure[100:]))
    strata = strata_of(audit_data(gold, pool, None))
    assert strata.count > 3 + 1 and not strata.rare
    counts = np.bincount(strata.gold, minlength=strata.count)
    assert counts[np.unique(strata.pool)].min() >= FEWEST


def test_noise_and_confusions_are_weighted_by_confidence() -> None:
    # Unsure: 10 of 20 wrong; sure: none of 20. The pool is sure nine times in ten.
    truth, sure = np.repeat([1, 0], [10, 30]), np.repeat([0.2, 0.9], 20)
    gold = us.Gold(np.zeros((40, 1)), truth, teacher=us.Hard(np.zeros(40, int), sure, classes=2))
    theirs = us.Hard(np.zeros(1000, int), np.repeat([0.3, 0.95], [100, 900]), classes=2)
    found = us.audit(gold, us.Pool(np.zeros((1000, 1)), theirs), rows_wrong=0)
    assert found.noise.gold.estimate == 0.25
    assert found.noise.pool.estimate == pytest.approx(0.1 * 0.5 + 0.9 * 0)
    (pair,) = found.confusion.pairs
    assert pair.pool_wrong is not None and pair.pool_wrong.estimate == pytest.approx(50)


def test_rare_classes_share_a_stratum() -> None:
    truth = np.repeat([0, 1, 2, 3], [50, 50, 3, 4])
    gold = us.Gold(np.zeros((107, 1)), truth, teacher=us.Hard(truth, classes=5))
    pool = us.Pool(np.zeros((10, 1)), us.Hard(np.arange(10) % 5, classes=5))
    strata = strata_of(audit_data(gold, pool, None))
    assert strata.rare == [2, 3, 4]
    assert strata.pool[2] == strata.pool[3] == strata.pool[4] != strata.pool[0]
    # Three rows cannot stand alone, even together.
    few = us.Gold(np.zeros((103, 1)), truth[:103], teacher=us.Hard(truth[:103], classes=5))
    strata = strata_of(audit_data(few, pool, None))
    assert strata.pool[2] == strata.pool[0] or strata.pool[2] == strata.pool[1]
    assert any("classes with fewer than 5 gold rows" in text for text in us.audit(few, pool).warnings)


def test_calibration_agrees_with_evaluate_and_knows_chance() -> None:
    truth, label, sure = noisy(300)
    probs = torch.from_numpy(soft(label, 3, sure))
    data = audit_data(us.Gold(np.zeros((300, 1)), truth, teacher=probs), None, None)
    found = calibration_of(data)
    assert found is not None
    assert found.error == pytest.approx(metrics(probs, torch.from_numpy(truth))["ece"])
    assert not found.miscalibrated and found.low < 0 < found.high
    boasting = us.Gold(np.zeros((300, 1)), truth, teacher=soft(label, 3, 0.98 * np.ones(300)))
    found = us.audit(boasting)
    assert found.calibration is not None and found.calibration.miscalibrated and found.calibration.low > 0
    assert any("overconfident" in sentence for sentence in found.verdict)


def test_confidence_beyond_one_is_no_probability() -> None:
    truth, label, sure = noisy(100)
    found = us.audit(us.Gold(np.zeros((100, 1)), truth, teacher=us.Hard(label, 10 * sure)))
    assert found.calibration is None and found.confidence_auc is not None


def test_gold_that_is_no_sample_of_the_pool_is_warned_of() -> None:
    truth, named = rows((0, 0, 100), (1, 1, 100), (0, 1, 5))
    gold = us.Gold(np.zeros((205, 1)), truth, teacher=named)
    found = us.audit(gold, us.Pool(np.zeros((1000, 1)), np.repeat([0, 1], [100, 900])), class_names=["a", "b"])
    assert found.shift is not None and found.shift.alarming
    assert any("not a random sample" in text and "predicts a on 49% of gold and 10%" in text for text in found.warnings)


def test_how_much_more_gold() -> None:
    found = small(target=0.05)
    width = found.noise.pool.width / 2
    assert found.size.more == int(np.ceil(40 * (width / 0.05) ** 2)) - 40
    assert found.size.wanted == 20 and found.size.enough
    assert found.verdict[-1].endswith(f"about {two_digits(found.size.more)} more gold rows would narrow it to ±5.")


def expected(noise: float, count: int = 2000, **options: Any) -> dict[str, str]:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, count)
    wrong = rng.random(count) < noise
    gold = us.Gold(np.zeros((count, 1)), truth, teacher=np.where(wrong, 1 - truth, truth))
    found = us.audit(gold, us.Pool(np.zeros((50 * count, 1)), rng.integers(0, 2, 50 * count)), rows_wrong=0, **options)
    return {one.method: one.outlook for one in found.expectations}


def test_expectations_follow_what_was_measured() -> None:
    clean, bad = expected(0.005), expected(0.4)
    assert clean["slam"] == clean["forward"] == clean["self_distillation"] == clean["gold only"] == "unlikely"
    assert bad["gold only"] == "possible" and bad["confident"] == "not possible"
    truth, label, sure = noisy(900)
    found = us.audit(us.Gold(np.zeros((900, 1)), truth, teacher=soft(label, 3, sure)))
    outlook = {one.method: one for one in found.expectations}
    assert outlook["slam"].outlook == outlook["weighted"].outlook == "likely"
    assert "ROC-AUC 0." in outlook["weighted"].reason and "is calibrated" in outlook["weighted"].reason
    assert {name for name in outlook if name != "gold only"} <= set(us.METHODS)


def test_votes_are_held_against_dawid_and_skene() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 900)
    # One annotator knows, two toss the same coin: the majority is the coin.
    coin = rng.integers(0, 2, 900)
    right = np.where(rng.random(900) < 0.95, truth, 1 - truth)
    votes = np.stack([right, np.where(rng.random(900) < 0.9, right, 1 - right), coin, rng.integers(0, 2, 900)], 1)
    gold = us.Gold(np.zeros((300, 1)), truth[:300], teacher=us.Votes(votes[:300], classes=2))
    found = us.audit(gold, us.Pool(np.zeros((600, 1)), us.Votes(votes[300:], classes=2)))
    last = found.expectations[-1]
    assert last.method == 'us.Votes(by="dawid_skene")' and last.outlook == "likely"


def test_mistakes_of_the_caller() -> None:
    gold = us.Gold(np.zeros((40, 2)), TRUTH, teacher=NAMED)
    for problem, call in {
        "class_names holds 1 names": lambda: us.audit(gold, class_names=["only"]),
        "the pool has no teacher labels": lambda: us.audit(gold, us.Pool(np.zeros((3, 2)))),
        "all are −1": lambda: us.audit(gold, us.Pool(np.zeros((3, 2)), np.full(3, -1))),
        "use one form in both": lambda: us.audit(gold, us.Pool(np.zeros((2, 2)), np.array([[0.3, 0.7], [0.6, 0.4]]))),
        "gold is a Pool": lambda: us.audit(us.Pool(np.zeros((3, 2)), np.zeros(3, int))),  # type: ignore[arg-type]
        "target=0": lambda: us.audit(gold, target=0),
    }.items():
        with pytest.raises(us.UnderstudyError, match=problem) as error:
            call()
        assert "\n" not in str(error.value)


@pytest.mark.parametrize("count", [1, 2, 12])
def test_little_gold_is_no_crash(count: int) -> None:
    gold = us.Gold(np.zeros((count, 2)), TRUTH[-count:], teacher=NAMED[-count:])
    found = us.audit(gold, us.Pool(np.zeros((1000, 2)), POOL))
    assert found.noise.pool.high <= 1 and not found.size.enough
    assert any("needed for a stable estimate" in text for text in found.warnings)


def test_the_terminal_fits_a_hundred_columns() -> None:
    console = Console(width=100, record=True, file=io.StringIO())
    print_audit(small(class_names=["[bold]a very long name of a class", "b"]), console)
    text = console.export_text()
    assert max(map(len, text.splitlines())) <= 100
    assert "[bold]a very long…" in text and "34.0% (95% CI" in text


def test_no_interval_is_cut_off_in_a_pipe(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    print_audit(small(class_names=["negative", "positive"]))
    output = capsys.readouterr().out
    assert "…" not in output and "predicted" in output and "macro average" in output
