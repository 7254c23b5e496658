"""Algorithm 3 of SLaM's paper and its baseline: updates by hand and by autograd, then the claim."""

from typing import Any

import numpy as np
import pytest
import torch
from experiments.theory.halfspace import _agreement, mix, sigmoid, step
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from experiments.theory import BackwardHalfspace, SlamHalfspace, noisy_halfspace
from understudy.errors import UnderstudyError


def one_update(model: SlamHalfspace | BackwardHalfspace, w: Any, x: Any, y: float, alpha: float) -> np.ndarray:
    """What the model adds to w for one example."""
    after, accuracy = np.array(w, dtype=float), np.array([alpha])
    steps = model._row_steps(accuracy)
    model._update(after, np.array([x], dtype=float), np.array([y]), accuracy, steps)
    return after - np.array(w, dtype=float)


def test_first_slam_update_by_hand() -> None:
    # At w = 0, f0 = 1/2 and mix = 1/2 for every alpha; label 1 pulls by 1/2, and alpha < 1/2 turns it round.
    assert one_update(SlamHalfspace(), [0, 0], [0.6, 0.8], 1, 0.9) == pytest.approx([0.3, 0.4])
    assert one_update(SlamHalfspace(), [0, 0], [0.6, 0.8], 0, 0.9) == pytest.approx([-0.3, -0.4])
    assert one_update(SlamHalfspace(), [0, 0], [0.6, 0.8], 1, 0.2) == pytest.approx([-0.3, -0.4])
    assert one_update(SlamHalfspace(), [0, 0], [0.6, 0.8], 1, 0.5) == pytest.approx([0, 0])


def test_second_slam_update_by_hand() -> None:
    # w·x = log 3, so f0 = 3/4; mix = 0.8 · 0.75 + 0.2 · 0.25 = 0.65; label 0 gives −0.65 x.
    assert one_update(SlamHalfspace(), [np.log(3), 5], [1, 0], 0, 0.8) == pytest.approx([-0.65, 0])


def test_backward_update_by_hand() -> None:
    # alpha = 0.8, w·x > 0: mix = 0.8; label 1 gives (1 − 0.8) / 0.6 = 1/3, label 0 gives −0.8 / 0.6 = −4/3.
    assert one_update(BackwardHalfspace(), [2, 0], [1, 0], 1, 0.8) == pytest.approx([1 / 3, 0])
    assert one_update(BackwardHalfspace(), [2, 0], [1, 0], 0, 0.8) == pytest.approx([-4 / 3, 0])
    assert one_update(BackwardHalfspace(), [2, 0], [1, 0], 0, 0.5) == pytest.approx([0, 0])


def test_slam_update_is_the_rescaled_gradient_of_the_slam_loss(rng: np.random.Generator) -> None:
    """Lemma E.3: the update is −∇ce(y, mix(f0; α)) / r."""
    for _ in range(50):
        w, x, alpha, y = rng.normal(size=4), rng.normal(size=4), rng.uniform(), float(rng.integers(2))
        weights = torch.tensor(w, requires_grad=True)
        f0 = torch.sigmoid(weights @ torch.tensor(x))
        mixed = alpha * f0 + (1 - alpha) * (1 - f0)
        loss = -(y * mixed.log() + (1 - y) * (1 - mixed).log())
        (gradient,) = torch.autograd.grad(loss, weights)
        r = (f0 * (1 - f0) / (mixed * (1 - mixed))).item() * abs(2 * alpha - 1)
        assert one_update(SlamHalfspace(), w, x, y, alpha) == pytest.approx(-gradient.numpy() / r)


@pytest.mark.parametrize("alpha", [0.1, 0.45, 0.55, 0.95, 1.0])
@pytest.mark.parametrize("clean", [0.0, 1.0])
@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_expected_updates_are_those_of_clean_labels(alpha: float, clean: float, side: float) -> None:
    w, x = [side * 1.3, 0.2], [0.9, -0.1]

    def expected(model: SlamHalfspace | BackwardHalfspace) -> np.ndarray:
        right = one_update(model, w, x, clean, alpha)
        wrong = one_update(model, w, x, 1 - clean, alpha)
        return alpha * right + (1 - alpha) * wrong

    margin = float(np.dot(w, x))
    logistic = abs(2 * alpha - 1) * (clean - sigmoid(margin)) * np.array(x)
    perceptron = (clean - step(margin)) * np.array(x)
    assert expected(SlamHalfspace()) == pytest.approx(logistic)
    assert expected(BackwardHalfspace()) == pytest.approx(perceptron)


def test_backward_update_is_the_gradient_of_the_leaky_perceptron_loss(rng: np.random.Generator) -> None:
    """Its known form under constant noise: slope 1 − p on the wrong side, p on the right one."""
    p = 0.3
    for _ in range(20):
        w, x, y = rng.normal(size=3), rng.normal(size=3), float(rng.integers(2))
        sign = 2 * y - 1
        slope = p if sign * (w @ x) > 0 else 1 - p
        assert one_update(BackwardHalfspace(), w, x, y, 1 - p) == pytest.approx(slope * sign * x / (1 - 2 * p))


def test_mix_is_the_chance_of_the_noisy_label() -> None:
    assert mix(1.0, 0.7) == pytest.approx(0.7)
    assert mix(0.0, 0.7) == pytest.approx(0.3)


def test_sigmoid_survives_any_margin() -> None:
    assert [sigmoid(m) for m in (-1e6, 0.0, 1e6)] == [0.0, 0.5, 1.0]


def test_agreement_is_the_signed_share_of_equal_labels(rng: np.random.Generator) -> None:
    x, w = rng.normal(size=(5000, 3)), rng.normal(size=(7, 3))
    y, sign = rng.integers(2, size=5000).astype(float), rng.choice([-1.0, 0.0, 1.0], 5000)
    brute = [np.mean([s * ((row @ v > 0) == label) for row, label, s in zip(x, y, sign, strict=True)]) for v in w]
    assert _agreement(x, y, sign, w) == pytest.approx(np.array(brute))


def test_the_result_is_the_best_of_all_kept_iterates(rng: np.random.Generator) -> None:
    data = noisy_halfspace(400, rng=rng)
    few = SlamHalfspace(epochs=1, repetitions=1, checks=1).fit(data.x, data.y, alpha=data.alpha)
    many = SlamHalfspace(epochs=3, repetitions=4, checks=25).fit(data.x, data.y, alpha=data.alpha)
    assert many.agreement_ > few.agreement_
    agrees = np.sign(2 * data.alpha - 1) * (many.predict(data.x) == data.y)
    assert many.agreement_ == pytest.approx(agrees.mean())


def test_labels_that_are_mostly_wrong_teach_as_well(rng: np.random.Generator) -> None:
    data = noisy_halfspace(4000, rng=rng, flip=(0.0, 0.0))
    wrong = rng.random(4000) < 0.8
    model = SlamHalfspace().fit(data.x, np.where(wrong, 1 - data.clean, data.clean), alpha=0.2)
    assert model.score(data.x, data.clean) > 0.99


def test_alpha_as_number_array_and_function_agree(rng: np.random.Generator) -> None:
    data = noisy_halfspace(300, rng=rng)
    number = SlamHalfspace().fit(data.x, data.y, alpha=0.8).coef_
    array = SlamHalfspace().fit(data.x, data.y, alpha=np.full(300, 0.8)).coef_
    function = SlamHalfspace().fit(data.x, data.y, alpha=lambda rows: np.full(len(rows), 0.8)).coef_
    assert np.array_equal(number, array)
    assert np.array_equal(number, function)


def test_scale_of_the_features_does_not_matter(rng: np.random.Generator) -> None:
    data = noisy_halfspace(500, rng=rng)
    one = SlamHalfspace().fit(data.x, data.y, alpha=data.alpha)
    # A power of two, so that the division is exact.
    big = SlamHalfspace().fit(1024 * data.x, data.y, alpha=data.alpha)
    assert np.array_equal(one.predict(data.x), big.predict(1024 * data.x))
    assert 1024 * big.coef_ == pytest.approx(one.coef_)


def test_intercept_is_learned_only_on_request(rng: np.random.Generator) -> None:
    x = rng.normal((3.0, 0.0), size=(3000, 2))
    y = (x[:, 0] > 3.5).astype(int)
    without, with_it = SlamHalfspace().fit(x, y), SlamHalfspace(fit_intercept=True, epochs=30).fit(x, y)
    assert without.intercept_ == 0
    assert with_it.score(x, y) > 0.97 > without.score(x, y)
    assert -with_it.intercept_ / with_it.coef_[0] == pytest.approx(3.5, abs=0.1)


def test_labels_keep_their_names(rng: np.random.Generator) -> None:
    data = noisy_halfspace(500, rng=rng, flip=(0.0, 0.0))
    names = np.array(["no", "yes"])[data.clean]
    model = SlamHalfspace().fit(data.x, names)
    assert model.score(data.x, names) > 0.97


def test_cross_validation_slices_alpha_with_the_rows(rng: np.random.Generator) -> None:
    data = noisy_halfspace(600, rng=rng)
    model = clone(SlamHalfspace(epochs=2, random_state=3))
    assert model.get_params()["random_state"] == 3
    scores = cross_val_score(model.set_params(epochs=4), data.x, data.y, params={"alpha": data.alpha}, cv=3)
    assert scores.min() > 0.7


@pytest.mark.parametrize(
    ("alpha", "message"), [(np.full(7, 0.9), "shape"), (1.2, "row 0"), (np.array([0.5] * 39 + [np.nan]), "row 39")]
)
def test_bad_alpha_is_refused(rng: np.random.Generator, alpha: Any, message: str) -> None:
    data = noisy_halfspace(40, rng=rng)
    with pytest.raises(UnderstudyError, match=message):
        SlamHalfspace().fit(data.x, data.y, alpha=alpha)


def test_other_bad_input_is_refused(rng: np.random.Generator) -> None:
    data = noisy_halfspace(40, rng=rng)
    with pytest.raises(UnderstudyError, match="binary"):
        SlamHalfspace().fit(data.x, np.arange(40) % 3)
    with pytest.raises(UnderstudyError, match="one class"):
        SlamHalfspace().fit(data.x, np.ones(40, dtype=int))
    with pytest.raises(UnderstudyError, match="epochs"):
        SlamHalfspace(epochs=0).fit(data.x, data.y)
    with pytest.raises(NotFittedError):
        SlamHalfspace().predict(data.x)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks([SlamHalfspace(), BackwardHalfspace(), SlamHalfspace(fit_intercept=True)])
def test_scikit_learn_contract(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.slow
def test_example_dependent_noise_does_not_hurt_slam() -> None:
    """Margin 0.1, 20 dimensions, positives flipped with 0.45 or 0.05: ≤ 0.5% where logistic has 2%."""
    slam, logistic = [], []
    for seed in range(1):
        rng = np.random.default_rng(seed)
        data, fresh = noisy_halfspace(50_000, rng=rng), noisy_halfspace(50_000, rng=rng)
        model = SlamHalfspace(random_state=seed).fit(data.x, data.y, alpha=data.alpha)
        slam.append(1 - model.score(fresh.x, fresh.clean))
        peer = LogisticRegression(fit_intercept=False).fit(data.x, data.y)
        logistic.append(1 - peer.score(fresh.x, fresh.clean))
    assert np.mean(slam) <= 0.005
    assert np.mean(slam) < np.mean(logistic)
    assert np.mean(logistic) == pytest.approx(0.02, abs=0.005)
