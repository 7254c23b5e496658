"""Rows most likely wrong, scored against planted mistakes."""

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

import understudy as us
from understudy.auditing import suspects
from understudy.auditing.suspects import FeatureReader, Suspects
from understudy.data.noise import uniform_flip
from understudy.data.rows import TensorRows

GOLD = 300


def digits(noise: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    label, wrong = uniform_flip(y, noise, 10, seed=3)
    return x.astype(np.float32), label.numpy(), wrong.numpy()


def found_in(x: np.ndarray, label: np.ndarray, wrong: np.ndarray, truth: np.ndarray, top: int = 20) -> Suspects:
    gold = us.Gold(x[:GOLD], truth[:GOLD], teacher=label[:GOLD])
    pool = us.Pool(x[GOLD:], label[GOLD:], ids=[f"id{row}" for row in range(GOLD, len(x))])
    found = us.audit(gold, pool, rows_wrong=top).suspects
    assert found is not None
    return found


def truth_of_digits() -> np.ndarray:
    from sklearn.datasets import load_digits

    return np.asarray(load_digits().target)


@pytest.mark.parametrize("noise", [0.05, 0.3])
def test_planted_mistakes_come_first(noise: float) -> None:
    x, label, wrong = digits(noise)
    truth = truth_of_digits()
    found = found_in(x, label, wrong, truth)
    assert roc_auc_score(wrong[GOLD:], found.probability) > 0.98
    assert found.roc.known and found.roc.low > 0.8
    # The probabilities are calibrated: among the first, as many are wrong as their chances say.
    order = np.argsort(-found.probability)[:50]
    assert abs(found.probability[order].mean() - wrong[GOLD:][order].mean()) < 0.2
    shown = wrong[GOLD:][[one.row for one in found.top]].mean()
    assert found.errors.low <= shown <= found.errors.high and found.errors.rows == 20
    assert found.errors.estimate == pytest.approx(np.mean([one.probability for one in found.top]))
    first = found.top[0]
    assert first.id == f"id{GOLD + first.row}" and first.label == label[GOLD + first.row]
    suggested = np.array([one.suggestion == truth[GOLD + one.row] for one in found.top])
    assert suggested.mean() > 0.7


def test_classes_of_a_row_or_two_are_not_suggested_everywhere() -> None:
    """An LLM that names a class once: the folds that left this row out know nothing of it."""
    x, label, wrong = digits(0.1)
    rare = np.flatnonzero(~wrong & (np.arange(len(label)) >= GOLD))[:8]
    label[rare] = 10 + np.arange(8)
    wrong[rare] = True
    found = found_in(x, label, wrong, truth_of_digits())
    assert wrong[GOLD:][[one.row for one in found.top]].mean() > 0.9
    assert np.mean([one.suggestion == truth_of_digits()[GOLD + one.row] for one in found.top]) > 0.7


def test_weak_features_make_no_bold_claims() -> None:
    _, label, wrong = digits(0.2)
    x = np.random.default_rng(0).normal(size=(len(label), 20)).astype(np.float32)
    found = found_in(x, label, wrong, truth_of_digits())
    assert np.nanmax(found.probability) < 0.6
    assert found.roc.low < 0.5 < found.roc.high


def test_a_large_pool_is_sampled_and_streamed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Judged by models that saw a part, from a memory map that is only ever read some rows at a time."""
    monkeypatch.setattr(suspects, "SAMPLE", 600)
    x, label, wrong = digits(0.2)
    np.save(tmp_path / "x.npy", x[GOLD:])
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    pool = us.Pool(mapped, label[GOLD:])
    taken: list[int] = []
    take = TensorRows.take

    def counted(self: TensorRows, index: torch.Tensor) -> torch.Tensor:
        taken.append(len(index))
        return take(self, index)

    monkeypatch.setattr(TensorRows, "take", counted)
    monkeypatch.setattr(suspects, "BUDGET", 64 * 200)
    found = us.audit(us.Gold(x[:GOLD], truth_of_digits()[:GOLD], teacher=label[:GOLD]), pool).suspects
    assert found is not None and max(taken) <= 200
    assert roc_auc_score(wrong[GOLD:], found.probability) > 0.97


def test_a_row_is_scored_by_a_model_fitted_without_it() -> None:
    """Pure noise in 200 dimensions and 120 rows can be memorised; a cross-fitted model knows nothing of it."""
    rng = np.random.default_rng(0)
    x, named = torch.from_numpy(rng.normal(size=(120, 200)).astype(np.float32)), rng.integers(0, 2, 120)
    fitted = suspects.CrossFittedModels.fit(TensorRows(x), torch.arange(120), named, classes=2, seed=0)
    assert fitted is not None
    disagreement, _ = fitted.score_all(TensorRows(x), torch.arange(120), named)
    assert abs((disagreement < 0).mean() - 0.5) < 0.15
    by_all, _ = fitted.score(fitted.features.read(TensorRows(x), torch.arange(120)), named)  # type: ignore[arg-type]
    assert (by_all < 0).mean() > 0.9


def test_without_features_the_confidence_ranks() -> None:
    rng = np.random.default_rng(0)
    truth, sure = rng.integers(0, 2, 800), rng.uniform(0.5, 1, 800)
    label = np.where(rng.random(800) > sure, 1 - truth, truth)
    tokens = torch.zeros(800, 4, dtype=torch.long)
    gold = us.Gold(tokens[:300], truth[:300], teacher=us.Hard(label[:300], sure[:300]))
    found = us.audit(gold, us.Pool(tokens[300:], us.Hard(label[300:], sure[300:]))).suspects
    assert found is not None and not found.by_features and found.top[0].suggestion is None
    assert found.top[0].confidence is not None and found.top[0].confidence < 0.7
    assert roc_auc_score((truth != label)[300:], found.probability) > 0.6


def test_wide_thin_features_stay_sparse() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 900)
    x = np.zeros((900, 2000), dtype=np.float32)
    # Thirty words a row, most of them of its class.
    for row, kind in enumerate(truth):
        x[row, rng.integers(0, 1000, 30) + 1000 * (rng.random(30) < (0.7 if kind else 0.3))] = 0.2
    fitted = FeatureReader.fit(TensorRows(torch.from_numpy(x)), torch.arange(900))
    assert fitted is not None and fitted.thin
    label = np.where(rng.random(900) < 0.1, 1 - truth, truth)
    found = us.audit(us.Gold(x[:300], truth[:300], teacher=label[:300]), us.Pool(x[300:], label[300:])).suspects
    assert found is not None and roc_auc_score((truth != label)[300:], found.probability) > 0.9


def test_nan_features_are_an_error_with_their_row() -> None:
    x, label, _ = digits(0.1)
    mapped = x[GOLD:].copy()
    pool = us.Pool(mapped, label[GOLD:])
    mapped[7, 3] = np.nan
    with pytest.raises(us.UnderstudyError, match="row 7 of the features holds NaN"):
        us.audit(us.Gold(x[:GOLD], truth_of_digits()[:GOLD], teacher=label[:GOLD]), pool)
