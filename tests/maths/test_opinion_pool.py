"""Opinion pools: by hand, beside scikit-learn and numerical minimisation, and what sources' weights must do."""

import math

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from understudy.maths import opinion_pool
from understudy.maths.opinion_pool import (
    RIDGE_BIAS,
    RIDGE_FULL,
    RIDGE_WEIGHT,
    OpinionPool,
    centred,
    fit_opinion_pool,
    held_out,
)


def predictions(skills: list[float], rows: int = 120, classes: int = 3, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Log-probabilities (M, n, C) of sources that know the truth so well; each errs by itself."""
    draw = torch.Generator().manual_seed(seed)
    y = torch.arange(rows) % classes
    truth = torch.nn.functional.one_hot(y, classes).double()
    noise = torch.randn(len(skills), rows, classes, generator=draw, dtype=torch.float64)
    return (torch.tensor(skills).double().view(-1, 1, 1) * truth + noise).log_softmax(2), y


def test_the_opinion_by_hand() -> None:
    """Scores (log 3, 0) and (0, log 2), weights 1 and 2, bias (0, log 2): 3 against 2² · 2, so 3/11 and 8/11."""
    scores = torch.tensor([[[math.log(3), 0.0]], [[0.0, math.log(2)]]])
    pool = OpinionPool(torch.tensor([1.0, 2.0]).double(), torch.tensor([0.0, math.log(2)]).double())
    torch.testing.assert_close(pool(scores).exp(), torch.tensor([[3 / 11, 8 / 11]]).double())
    # D lets the second class of the first source speak for the first class: it said 0, so nothing changes; the
    # first class of it for the second adds log 3.
    mixing = torch.zeros(2, 2, 2).double()
    mixing[0, 0, 1], mixing[0, 1, 0] = 5.0, 1.0
    full = OpinionPool(pool.weights, pool.bias, mixing)
    torch.testing.assert_close(full(scores).exp(), torch.tensor([[3 / 27, 24 / 27]]).double())


def _loss(values: np.ndarray, scores: np.ndarray, y: np.ndarray, full: bool) -> float:
    """The penalised log-loss from its definition, row by row and class by class."""
    sources, rows, classes = scores.shape
    b, a, rest = values[:sources], values[sources : sources + classes], values[sources + classes :]
    mixing = rest.reshape(sources, classes, classes) if full else np.zeros((sources, classes, classes))
    total = 0.0
    for row in range(rows):
        logits = [
            a[c] + sum(b[m] * scores[m, row, c] + mixing[m, c] @ scores[m, row] for m in range(sources))
            for c in range(classes)
        ]
        total += math.log(sum(math.exp(value) for value in logits)) - logits[y[row]]
    ridge = RIDGE_WEIGHT * ((b - 1 / sources) ** 2).sum() + RIDGE_BIAS * (a**2).sum() + RIDGE_FULL * (rest**2).sum()
    return float(total + ridge) / rows


@pytest.mark.parametrize("full", [False, True])
def test_the_fit_is_the_minimum_that_numerical_gradients_find(full: bool) -> None:
    scores, y = predictions([0.5, 1.5], rows=24)
    found = fit_opinion_pool(scores, y, full=full)
    assert (found.mixing is not None) == full
    mine = torch.cat([found.weights, found.bias, *([] if found.mixing is None else [found.mixing.reshape(-1)])]).numpy()
    plain, truth = centred(scores).numpy(), y.numpy()
    start = np.concatenate([np.full(2, 0.5), np.zeros(len(mine) - 2)])
    best = minimize(_loss, start, args=(plain, truth, full), method="BFGS")
    assert _loss(mine, plain, truth, full) == pytest.approx(best.fun, abs=1e-7)
    np.testing.assert_allclose(mine, best.x, atol=2e-3)
    for number in range(len(mine)):  # no weight is at its bound, so every slope is 0
        step = np.eye(len(mine))[number] * 1e-5
        slope = (_loss(mine + step, plain, truth, full) - _loss(mine - step, plain, truth, full)) / 2e-5
        assert abs(slope) < 1e-4


def test_the_full_form_is_scikit_learns_multinomial_regression(monkeypatch: pytest.MonkeyPatch) -> None:
    """With weights held at 1/M by a huge ridge and no ridge on the bias, D + I/M is a ridge regression around I/M; with
    the ridge gone too, maximum likelihood, which knows no centre."""
    monkeypatch.setattr(opinion_pool, "RIDGE_BIAS", 0.0)
    monkeypatch.setattr(opinion_pool, "RIDGE_FULL", 1e-6)
    scores, y = predictions([0.5, 1.0], rows=300)
    found = fit_opinion_pool(scores, y, full=True)(centred(scores)).exp().numpy()
    x = centred(scores).permute(1, 0, 2).reshape(300, -1).numpy()
    theirs = LogisticRegression(C=1e6, tol=1e-10, max_iter=10_000).fit(x, y.numpy()).predict_proba(x)
    np.testing.assert_allclose(found, theirs, atol=2e-3)


def test_one_source_is_tempered_by_a_ridge_that_scikit_learn_has_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two classes, one source: log q₁ − log q₀ = b (ℓ₁ − ℓ₀), and (b − 1)² / C' is a penalty around 1 = 1/M."""
    monkeypatch.setattr(opinion_pool, "RIDGE_BIAS", 1e4)
    scores, y = predictions([1.0], rows=80, classes=2)
    gap = (scores[0, :, 1] - scores[0, :, 0]).numpy().reshape(-1, 1)
    found = float(fit_opinion_pool(scores, y, full=False).weights[0])

    def loss(b: float) -> float:
        signs = np.where(y.numpy() == 1, 1, -1)
        return float(np.log1p(np.exp(-signs * b * gap[:, 0])).sum() + RIDGE_WEIGHT * (b - 1) ** 2)

    grid = np.linspace(0, 3, 30_001)
    assert found == pytest.approx(grid[np.argmin([loss(b) for b in grid])], abs=2e-4)
    monkeypatch.setattr(opinion_pool, "RIDGE_WEIGHT", 0.0)
    theirs = LogisticRegression(C=1e9, fit_intercept=False, tol=1e-10).fit(gap, y.numpy()).coef_[0, 0]
    assert float(fit_opinion_pool(scores, y, full=False).weights[0]) == pytest.approx(theirs, abs=1e-3)


def test_without_evidence_every_source_has_its_share() -> None:
    """Rows that say nothing leave the weights at 1/M and, with classes alike, the bias at 0."""
    found = fit_opinion_pool(torch.zeros(4, 30, 3), torch.arange(30) % 3, full=False)
    torch.testing.assert_close(found.weights, torch.full((4,), 0.25).double())
    torch.testing.assert_close(found.bias, torch.zeros(3).double(), atol=1e-6, rtol=0)
    assert found.log_loss == pytest.approx(math.log(3), abs=1e-6)


def test_the_bias_learns_how_often_classes_come() -> None:
    y = torch.tensor([0] * 900 + [1] * 100)
    found = fit_opinion_pool(torch.zeros(1, 1000, 2), y, full=False)
    share = found(torch.zeros(1, 1, 2)).exp()[0, 1]
    assert 0.1 < share < 0.11  # a little towards a half, by the ridge


def test_a_useless_source_is_not_heard_and_a_perfect_one_is() -> None:
    scores, y = predictions([0.0, 3.0, 0.0], rows=400)
    found = fit_opinion_pool(scores, y, full=False)
    assert found.weights[1] > 0.7 and found.weights[0] < 0.1 and found.weights[2] < 0.1
    sure = torch.nn.functional.one_hot(y, 3).double().clamp(min=1e-4).log()
    found = fit_opinion_pool(torch.stack([scores[0], sure]), y, full=False)
    assert found.weights[1] > 2 * found.weights[0] and found.log_loss < 0.01
    assert (found(torch.stack([scores[0], sure])).argmax(1) == y).all()


def test_nobody_is_read_backwards() -> None:
    """A source that is always wrong gets 0, although a negative weight would make it right."""
    scores, y = predictions([-3.0, 1.0], rows=300)
    found = fit_opinion_pool(scores, y, full=False)
    assert found.weights[0] == 0 and found.weights[1] > 0.5


def test_the_order_of_sources_and_constants_within_rows_do_not_matter() -> None:
    scores, y = predictions([0.5, 1.0, 2.0])
    found = fit_opinion_pool(scores, y, full=False)
    order = torch.tensor([2, 0, 1])
    again = fit_opinion_pool(scores[order], y, full=False)
    torch.testing.assert_close(again.weights, found.weights[order], atol=1e-4, rtol=0)
    assert again.log_loss == pytest.approx(found.log_loss, abs=1e-5)
    shifted = fit_opinion_pool(scores + torch.rand(3, len(y), 1), y, full=False)
    torch.testing.assert_close(shifted.weights, found.weights, atol=1e-5, rtol=0)
    torch.testing.assert_close(shifted(scores + 7), found(scores), atol=1e-5, rtol=0)


def test_scalar_or_full_is_chosen_by_rows_that_had_no_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """A source that takes class 0 for 1, 1 for 2 and 2 for 0 is worth much, but only to a full regression."""
    scores, y = predictions([3.0], rows=300)
    turned = scores[:, :, [2, 0, 1]]
    assert fit_opinion_pool(turned, y).mixing is not None
    assert fit_opinion_pool(turned, y).log_loss < fit_opinion_pool(turned, y, full=False).log_loss - 0.3
    few, few_y = predictions([2.0, 2.0, 2.0], rows=40, classes=10)
    assert fit_opinion_pool(few, few_y).mixing is None
    for choice in (fit_opinion_pool(few, few_y), fit_opinion_pool(turned, y)):
        data = (few, few_y) if choice.mixing is None else (turned, y)
        assert choice.log_loss == min(fit_opinion_pool(*data, full=full).log_loss for full in (False, True))
    monkeypatch.setattr(opinion_pool, "MOST_NUMBERS", 8)
    assert fit_opinion_pool(turned, y).mixing is None


def test_the_log_loss_is_that_of_folds_left_out() -> None:
    scores, y = predictions([1.0, 2.0], rows=20, classes=2)
    fold = torch.arange(20) // 10
    found = held_out(scores, y, fold=fold)
    for number in (0, 1):
        other = fold != number
        expected = fit_opinion_pool(scores[:, other], y[other], full=False)(scores[:, ~other])
        torch.testing.assert_close(found[~other], expected, atol=1e-6, rtol=0)
    losses = -held_out(scores, y).gather(1, y.unsqueeze(1))
    assert fit_opinion_pool(scores, y, full=False).log_loss == pytest.approx(float(losses.mean()))
    # Labels that nobody knows: what is measured on rows left out does not beat a guess.
    random = torch.randint(2, (20,), generator=torch.Generator().manual_seed(1))
    assert fit_opinion_pool(scores, random, full=True).log_loss > math.log(2) - 0.05
