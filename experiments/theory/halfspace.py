"""Halfspaces from noisy labels: SLaM's iteration for linear models, and the backward correction as baseline.

Kontonis et al. (2023), Algorithm 3 and Theorem E.1. The clean label of x is 1{w*·x > 0}, the observed one is
right with probability α(x), and the student is f₀ = sigmoid(w·x). The step size 1/r of Lemma E.3 cancels the
factor r of the SLaM gradient, so each example moves the weights by

    w += sgn(2α − 1) (y₀ − mix(f₀; α)) x,    mix(f; α) = α f + (1 − α)(1 − f)

Bylander's correction (1994) makes the perceptron's update unbiased under label noise. In this notation it is
the same line with the hard prediction 1{w·x > 0} in place of the sigmoid, divided by |2α − 1| (the inverse of
that example's noise matrix). Under a constant α the divisor is a mere scale, so the two differ by the sigmoid
alone; where α(x) comes near 1/2 the divisor also blows up the variance.

Decided here, where the paper is silent:
- Theorem E.1 promises one good iterate, not the last. `checks` iterates of every epoch are kept, and the one
  that agrees best with the noisy labels, each counted with sgn(2α − 1), is the result. All of them are scored
  together, on the fitted rows: linear rules of few features against many rows have little to overfit.
- Amplification (Remark E.2): `repetitions` runs in different orders, best iterate over all of them.
- ‖x‖ ≤ 1 is assumed by the theorem: rows are divided by the largest norm; `coef_` is in the units of X again.
- The theorem draws fresh examples; `epochs` passes over a finite sample stand in for them.
- The theorem's "|1/2 − α| ≤ β" must read "≥ β": its proof needs |2α − 1| bounded from below.

`noisy_halfspace` draws the problem to show it on: a γ-margin halfspace on the unit sphere whose label noise depends
on the example, as Theorem E.1 allows it and random classification noise does not.

    model = SlamHalfspace().fit(X, y, alpha=alpha)     # alpha: a number, one per row, or a function of X
    model.predict(X_test)
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from math import tanh
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import beta
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from understudy.errors import UnderstudyError

__all__ = ["BackwardHalfspace", "HalfspaceInputError", "NoisyHalfspace", "SlamHalfspace", "noisy_halfspace"]

Floats = NDArray[np.float64]
Alpha = float | ArrayLike | Callable[[Floats], ArrayLike]

# Rows scored at once against all candidates: 4,096 × 300 products are 10 MB.
SCORED_ROWS = 4096


class HalfspaceInputError(UnderstudyError, ValueError):
    """Unusable input to a halfspace; a ValueError too, because scikit-learn's tools expect one."""


def mix(prediction: float, alpha: float) -> float:
    """The chance that a teacher who is right with probability alpha says 1, if 1 has this probability."""
    return alpha * prediction + (1 - alpha) * (1 - prediction)


def sigmoid(margin: float) -> float:
    # The tanh form cannot overflow, and one scalar tanh is 5 times faster than scipy's expit on a float.
    return 0.5 * (1 + tanh(0.5 * margin))


def step(margin: float) -> float:
    return 1.0 if margin > 0 else 0.0


class _OnlineHalfspace(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Online updates, selection of the best iterate, repetition. Subclasses fill in one example's update."""

    def __init__(
        self,
        *,
        fit_intercept: bool = False,
        epochs: int = 5,
        repetitions: int = 3,
        checks: int = 20,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.fit_intercept = fit_intercept
        self.epochs = epochs
        self.repetitions = repetitions
        self.checks = checks
        self.random_state = random_state

    @staticmethod
    @abstractmethod
    def _prediction(margin: float) -> float:
        """The student's probability of label 1 at w·x = margin."""

    @staticmethod
    @abstractmethod
    def _row_steps(alpha: Floats) -> Floats:
        """The signed step size of every example."""

    def fit(self, X: ArrayLike, y: ArrayLike, alpha: Alpha = 1.0) -> Self:
        """Learn from labels y, of which row i is right with probability alpha[i]."""
        for name in ("epochs", "repetitions", "checks"):
            if getattr(self, name) < 1:
                raise HalfspaceInputError(f"{name} is {getattr(self, name)!r}; it must be at least 1")
        rows, labels = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(labels)
        self.classes_, y0 = _binary(labels)
        accuracy = _row_alpha(alpha, rows)

        inputs, radius = _into_unit_ball(rows, self.fit_intercept)
        random = check_random_state(self.random_state)
        candidates = np.concatenate([self._run(inputs, y0, accuracy, random) for _ in range(self.repetitions)], axis=0)
        agreement = _agreement(inputs, y0, np.sign(2 * accuracy - 1), candidates)
        best = candidates[agreement.argmax()]

        features = rows.shape[1]
        self.coef_ = best[:features] / radius
        self.intercept_ = float(best[features]) if self.fit_intercept else 0.0
        self.agreement_ = float(agreement.max())
        return self

    def decision_function(self, X: ArrayLike) -> Floats:
        """w·x + b: positive for `classes_[1]`, otherwise `classes_[0]`."""
        check_is_fitted(self)
        rows = validate_data(self, X, dtype=np.float64, reset=False)
        return np.asarray(rows @ self.coef_ + self.intercept_)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        positive = (self.decision_function(X) > 0).astype(np.intp)
        return np.asarray(self.classes_[positive])

    def _run(self, x: Floats, y0: Floats, alpha: Floats, random: np.random.RandomState) -> Floats:
        """One run from w = 0: the iterates kept, `checks` per epoch and always each epoch's last, (K, d)."""
        n = len(x)
        ends = np.unique(np.linspace(0, n, min(self.checks, n) + 1).round().astype(int))
        steps = self._row_steps(alpha)
        w, iterates = np.zeros(x.shape[1]), []
        for _ in range(self.epochs):
            order = random.permutation(n)
            for start, end in pairwise(ends.tolist()):
                block = order[start:end]
                self._update(w, x[block], y0[block], alpha[block], steps[block])
                iterates.append(w.copy())
        return np.array(iterates)

    def _update(self, w: Floats, x: Floats, y0: Floats, alpha: Floats, steps: Floats) -> None:
        """Algorithm 3's loop, one example at a time and in place: 3 µs an example at 20 dimensions."""
        for xi, yi, a, size in zip(x, y0.tolist(), alpha.tolist(), steps.tolist(), strict=True):
            f0 = self._prediction(float(w.dot(xi)))
            w += size * (yi - mix(f0, a)) * xi

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


class SlamHalfspace(_OnlineHalfspace):
    """Student-label mixing for linear models (Kontonis et al. 2023, Algorithm 3).

    `fit_intercept` adds a constant feature. `repetitions` runs of `epochs` passes, `checks` iterates kept in
    each pass; `agreement_` is the winning iterate's mean signed agreement with the noisy labels.
    """

    _prediction = staticmethod(sigmoid)

    @staticmethod
    def _row_steps(alpha: Floats) -> Floats:
        return np.sign(2 * alpha - 1)


class BackwardHalfspace(_OnlineHalfspace):
    """Bylander's backward-corrected perceptron, selected and repeated exactly as `SlamHalfspace` is.

    Its expected update is the perceptron's on clean labels. Rows with alpha = 1/2 say nothing: step 0.
    """

    _prediction = staticmethod(step)

    @staticmethod
    def _row_steps(alpha: Floats) -> Floats:
        return np.divide(1.0, 2 * alpha - 1, out=np.zeros_like(alpha), where=alpha != 0.5)


def _binary(labels: NDArray[Any]) -> tuple[NDArray[Any], Floats]:
    classes, codes = np.unique(labels, return_inverse=True)
    if len(classes) > 2:
        # The first sentence is scikit-learn's, which its own checks look for.
        kind = type_of_target(labels)
        raise HalfspaceInputError(
            f"Only binary classification is supported. The type of the target is {kind}; "
            "y must hold two classes: relabel it as one class against the rest"
        )
    if len(classes) < 2:
        raise HalfspaceInputError(f"y holds one class only ({classes[0]!r}); give examples of two classes")
    return classes, codes.astype(np.float64)


def _row_alpha(alpha: Alpha, rows: Floats) -> Floats:
    values = np.asarray(alpha(rows) if callable(alpha) else alpha, dtype=np.float64)
    if values.ndim > 0 and values.shape != (len(rows),):
        raise HalfspaceInputError(
            f"alpha has shape {values.shape} for {len(rows)} rows; give one number, or one per row"
        )
    bad = ~((values >= 0) & (values <= 1))
    if bad.any():
        first = int(bad.argmax())
        raise HalfspaceInputError(
            f"alpha is {values.flat[first]} at row {first}; it is a probability and must lie in [0, 1]"
        )
    return np.broadcast_to(values, (len(rows),))


def _into_unit_ball(rows: Floats, intercept: bool) -> tuple[Floats, float]:
    """Rows over their largest norm; with an intercept (row, 1) / √2, whose norm is at most 1 as well."""
    radius = float(np.sqrt(np.einsum("nd,nd->n", rows, rows).max())) or 1.0
    inputs = rows / radius
    if intercept:
        inputs = np.column_stack([inputs, np.ones(len(rows))]) / np.sqrt(2)
    return inputs, radius


def _agreement(x: Floats, y0: Floats, sign: Floats, candidates: Floats) -> Floats:
    """Mean of sgn(2α − 1) · 1{prediction = noisy label} for every candidate, (K,)."""
    # 1{h = y} = (1 − y) + (2y − 1) h for h, y in {0, 1}: one matrix product per block of rows.
    gain = sign * (2 * y0 - 1)
    total = np.full(len(candidates), float(sign @ (1 - y0)))
    for start in range(0, len(x), SCORED_ROWS):
        block = slice(start, start + SCORED_ROWS)
        total += gain[block] @ (x[block] @ candidates.T > 0)
    return total / len(x)


@dataclass(frozen=True)
class NoisyHalfspace:
    """Rows x with noisy labels y (0 or 1), the clean labels, and each label's chance alpha of being right."""

    x: Floats
    y: NDArray[np.int64]
    clean: NDArray[np.int64]
    alpha: Floats


def noisy_halfspace(
    n: int,
    *,
    rng: np.random.Generator,
    dimensions: int = 20,
    margin: float = 0.1,
    flip: tuple[float, float] = (0.05, 0.45),
) -> NoisyHalfspace:
    """Uniform on the unit sphere without the slab |w*·x| < margin; only positives are flipped.

    The flip probability of a positive is flip[0] on one side of a direction orthogonal to w*, flip[1] on the
    other. w* and that direction are the first two axes: every method here is blind to rotations.
    """
    x = _sphere_outside_slab(n, dimensions, margin, rng)
    clean = (x[:, 0] > 0).astype(np.int64)
    chance = np.where(clean == 1, np.where(x[:, 1] > 0, flip[1], flip[0]), 0.0)
    y = np.where(rng.random(n) < chance, 1 - clean, clean)
    return NoisyHalfspace(x=x, y=y, clean=clean, alpha=1 - chance)


def _sphere_outside_slab(n: int, dimensions: int, margin: float, rng: np.random.Generator) -> Floats:
    if not 0 <= margin < 1 or dimensions < 2:
        raise UnderstudyError(f"margin {margin} in {dimensions} dimensions; give 0 ≤ margin < 1 and dimensions ≥ 2")
    # The first coordinate's square is Beta(1/2, (d − 1)/2); its tail is drawn exactly, by inversion.
    law = beta(0.5, (dimensions - 1) / 2)
    first = np.sqrt(law.isf(rng.random(n) * law.sf(margin**2))) * rng.choice([-1.0, 1.0], n)
    rest = rng.standard_normal((n, dimensions - 1))
    rest *= (np.sqrt(1 - first**2) / np.linalg.norm(rest, axis=1))[:, None]
    return np.column_stack([first, rest])
