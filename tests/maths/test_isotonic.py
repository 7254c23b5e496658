"""Step curves: hand-worked fits and lookups, and the constrained least-squares problem solved another way."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import lsq_linear, minimize
from sklearn.isotonic import IsotonicRegression

from understudy.maths.accuracy_curves import StepCurve, fit_steps


def _fit(covariate: list[float], response: list[float], **options: float) -> StepCurve:
    return fit_steps(np.array(covariate), np.array(response), **options)


def test_fit_and_lookup_worked_by_hand() -> None:
    # 1, 0 at 2 and 3 are pooled to ½.
    curve = _fit([4.0, 1.0, 3.0, 2.0], [1.0, 0.0, 0.0, 1.0], lower=0.25)
    points = torch.tensor([-9.0, 1.0, 1.01, 2.0, 2.5, 3.0, 3.01, 4.0, 99.0])
    assert curve(points).tolist() == pytest.approx([0.25, 0.25, 0.5, 0.5, 0.5, 0.5, 1, 1, 1])


@pytest.mark.parametrize("steps", [1, 2, 40, 300])
def test_a_lookup_is_the_value_of_the_first_knot_that_is_not_less(steps: int) -> None:
    """Few knots are compared with, many searched; there are more queries than are looked up at a time."""
    rng = np.random.default_rng(steps)
    curve = StepCurve(torch.from_numpy(np.sort(rng.random(steps))), torch.linspace(0, 1, steps).double())
    queries = torch.cat([torch.from_numpy(rng.random(20_000)), curve.knots])
    reached = curve.knots >= queries[:, None]
    expected = torch.where(reached.any(1), curve.values[reached.byte().argmax(1)], curve.values[-1])
    assert curve(queries).equal(expected)
    assert curve(queries[:6].reshape(2, 3)).equal(expected[:6].reshape(2, 3))
    assert curve(queries[0]).equal(expected[0]) and curve(torch.tensor([math.nan])).equal(curve.values[-1:])


def test_no_interpolation() -> None:
    curve = _fit([0.0, 1.0], [0.0, 1.0])
    assert curve(torch.tensor([0.5])).item() == 1.0
    assert IsotonicRegression().fit([0, 1], [0, 1]).predict([0.5])[0] == 0.5


def test_equal_covariates_share_one_value() -> None:
    curve = _fit([1.0, 1.0, 1.0, 2.0], [0.0, 0.0, 1.0, 1.0])
    assert curve(torch.tensor([1.0, 2.0])).tolist() == pytest.approx([1 / 3, 1])


def test_values_stay_in_bounds() -> None:
    curve = _fit([1.0, 2.0, 3.0], [-1.0, 0.5, 4.0], lower=0.25, upper=0.75)
    assert curve(torch.tensor([1.0, 2.0, 3.0])).tolist() == [0.25, 0.5, 0.75]


DATA = st.lists(st.tuples(st.integers(0, 6), st.floats(0, 1)), min_size=1, max_size=14)
LEVELS = st.sampled_from([0.0, 0.3, 0.5, 0.9])


@given(st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=1, max_size=14))
def test_counting_the_rows_that_are_right_gives_what_sorting_all_does(data: list[tuple[int, bool]]) -> None:
    """As many steps as scikit-learn's fit has values, at the same places; many covariates are tied."""
    c, r = np.array(data, dtype=np.float64).T
    curve, knots = fit_steps(c, r), np.unique(c)
    expected = IsotonicRegression().fit(c, r).predict(knots)
    np.testing.assert_allclose(curve(torch.from_numpy(knots)).numpy(), expected, atol=1e-12)
    ends = np.append(np.diff(expected) > 1e-9, True)
    assert curve.knots.tolist() == knots[ends].tolist()


@given(st.integers(1, 60), st.integers(1, 60))
def test_a_share_of_right_rows_is_exact(right: int, wrong: int) -> None:
    """In one block, wherever the wrong rows lie before the right ones that spoil the order."""
    response = np.array([1.0] * (right // 2) + [0.0] * wrong + [1.0] * (right - right // 2) + [0.0] * wrong)
    curve = fit_steps(np.arange(len(response), dtype=np.float64), response)
    for low, high in zip([-1, *curve.knots.tolist()[:-1]], curve.knots.tolist(), strict=True):
        rows = response[int(low) + 1 : int(high) + 1]
        assert float(curve(torch.tensor([high]))) == rows.sum() / len(rows)


@given(DATA, LEVELS)
def test_equals_the_constrained_least_squares_solution(data: list[tuple[int, float]], lower: float) -> None:
    """v = lower + cumsum(d), d >= 0, by a bounded least-squares solver (v <= 1 holds by itself: responses do)."""
    c, r = np.array(data, dtype=np.float64).T
    knots, group = np.unique(c, return_inverse=True)
    design = (np.arange(len(knots))[None] <= group[:, None]).astype(float)
    solved = lsq_linear(design, r - lower, bounds=(0, np.inf), method="bvls")
    expected = lower + np.cumsum(solved.x)
    found = fit_steps(c, r, lower=lower)(torch.from_numpy(knots)).numpy()
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert (np.diff(found) >= 0).all()
    assert found.min() >= lower
    assert found.max() <= 1


@given(st.lists(st.floats(-1, 2), min_size=2, max_size=6))
def test_both_bounds_by_a_general_solver(response: list[float]) -> None:
    r = np.array(response)
    order = [{"type": "ineq", "fun": lambda v, i=i: v[i + 1] - v[i]} for i in range(len(r) - 1)]
    start = np.full(len(r), 0.5)
    solved = minimize(
        lambda v: ((v - r) ** 2).sum(),
        start,
        jac=lambda v: 2 * (v - r),
        bounds=[(0.4, 0.8)] * len(r),
        constraints=order,
        method="SLSQP",
        options={"ftol": 1e-12, "maxiter": 500},
    )
    covariate = np.arange(len(r), dtype=np.float64)
    found = fit_steps(covariate, r, lower=0.4, upper=0.8)(torch.from_numpy(covariate)).numpy()
    np.testing.assert_allclose(found, solved.x, atol=1e-4)


@given(DATA, st.floats(0.01, 1))
def test_cutoff_is_where_the_level_is_reached(data: list[tuple[int, float]], level: float) -> None:
    c, r = np.array(data, dtype=np.float64).T
    curve = fit_steps(c, r)
    points = torch.arange(-1.0, 8.0, 0.25, dtype=torch.float64)
    assert ((points > curve.cutoff(level)) == (curve(points) >= level)).all()


@given(DATA)
def test_row_order_does_not_matter(data: list[tuple[int, float]]) -> None:
    c, r = np.array(data, dtype=np.float64).T
    order = np.random.default_rng(len(data)).permutation(len(data))
    points = torch.arange(-1.0, 8.0, 0.5)
    torch.testing.assert_close(fit_steps(c, r)(points), fit_steps(c[order], r[order])(points))
