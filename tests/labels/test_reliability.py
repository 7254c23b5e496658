"""Trust in a teacher: hand-worked accuracies, a brute-force k(x), and the shape of every curve."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.isotonic import IsotonicRegression

import understudy as us
from understudy.maths.confidence import grouped_entropy, topk_margin


def _labelled(seed: int, rows: int, classes: int, *, coarse: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Teacher probabilities, and truths drawn so that sure rows are right more often."""
    rng = np.random.default_rng(seed)
    if coarse:
        # Sixteenths: sums and differences are exact, so ties are ties for every implementation.
        probs = (rng.multinomial(16 - classes, np.ones(classes) / classes, rows) + 1) / 16
    else:
        probs = rng.dirichlet(np.full(classes, 0.5), rows)
        # A hair of mass everywhere, so that no row is one-hot.
        probs = 0.999 * probs + 0.001 / classes
    truth = np.array([rng.choice(classes, p=row) for row in probs])
    return probs, truth


def _step_values(covariate: np.ndarray, response: np.ndarray, queried: np.ndarray, lower: float) -> np.ndarray:
    """Step lookups over scikit-learn's fit, one comparison at a time."""
    knots = np.unique(covariate)
    fitted = np.clip(IsotonicRegression().fit(covariate, response).predict(knots), lower, 1)
    values = []
    for c in queried:
        reached = [value for knot, value in zip(knots, fitted, strict=True) if knot >= c]
        values.append(reached[0] if reached else fitted[-1])
    return np.array(values)


def _covariate(probs: np.ndarray, k: int, kind: str) -> np.ndarray:
    tensor = torch.from_numpy(probs)
    return (topk_margin(tensor, k) if kind == "margin" else -grouped_entropy(tensor, k)).numpy()


@given(
    st.integers(0, 10_000),
    st.integers(2, 25),
    st.integers(2, 6),
    st.booleans(),
    st.sampled_from([0.0, 0.5, 0.7]),
    st.sampled_from([0.6234, 0.8765, 0.9876]),
)
def test_alpha_and_k_equal_a_loop_over_curves(
    seed: int, rows: int, classes: int, coarse: bool, lower: float, threshold: float
) -> None:
    probs, truth = _labelled(seed, rows, classes, coarse=coarse)
    queried, _ = _labelled(seed + 1, 15, classes, coarse=coarse)
    trust = us.Reliability.fit(probs, truth, lower_bound=lower, threshold=threshold)
    order = np.argsort(-probs, axis=1, kind="stable")
    expected_k = np.full(len(queried), classes)
    for k in range(classes - 1, 0, -1):
        response = (order[:, :k] == truth[:, None]).any(1).astype(float)
        values = _step_values(_covariate(probs, k, "margin"), response, _covariate(queried, k, "margin"), lower)
        np.testing.assert_allclose(trust.topk_accuracy(queried, k).numpy(), values, atol=1e-9)
        if k == 1:
            np.testing.assert_allclose(trust.alpha(queried).numpy(), values, atol=1e-9)
        expected_k[values >= threshold] = k
    assert trust.k(queried).tolist() == np.maximum(expected_k, 2).tolist()
    assert trust.topk_accuracy(queried, classes).tolist() == [1.0] * len(queried)


@given(st.integers(0, 10_000), st.integers(2, 30), st.integers(2, 6), st.sampled_from([0.0, 0.5, 0.8]))
def test_curves_rise_within_their_bounds(seed: int, rows: int, classes: int, lower: float) -> None:
    probs, truth = _labelled(seed, rows, classes)
    trust = us.Reliability.fit(probs, truth, lower_bound=lower)
    for k in range(1, classes):
        queried, _ = _labelled(seed + 7, 20, classes)
        by_certainty = queried[np.argsort(_covariate(queried, k, "margin"), kind="stable")]
        values = trust.topk_accuracy(by_certainty, k).numpy()
        assert (np.diff(values) >= 0).all()
        assert values.min() >= lower
        assert values.max() <= 1
    order = np.random.default_rng(seed).permutation(rows)
    again = us.Reliability.fit(probs[order], truth[order], lower_bound=lower)
    torch.testing.assert_close(trust.alpha(probs), again.alpha(probs))


def test_worked_by_hand() -> None:
    """Margins 0.2, 0.4, 0.6, 0.8; right: no, yes, no, yes. Pooled: 0, ½, ½, 1; the lower bound lifts the first."""
    margins = torch.tensor([0.2, 0.4, 0.6, 0.8], dtype=torch.float64)
    probs = torch.stack([(1 + margins) / 2, (1 - margins) / 2], 1)
    trust = us.Reliability.fit(probs, [1, 0, 1, 0], lower_bound=0.25)
    queried = torch.tensor([0.0, 0.1, 0.3, 0.59, 0.7, 0.9], dtype=torch.float64)
    found = trust.alpha(torch.stack([(1 + queried) / 2, (1 - queried) / 2], 1))
    assert found.tolist() == pytest.approx([0.25, 0.25, 0.5, 0.5, 1, 1])
    assert found.dtype == torch.float64
    assert trust.k(probs).tolist() == [2, 2, 2, 2]


def test_response_of_the_kth_curve_is_topk_accuracy() -> None:
    """The truth is always second: top-1 accuracy is 0, top-2 accuracy 1."""
    probs = np.array([[0.5, 0.3, 0.2], [0.6, 0.3, 0.1], [0.4, 0.35, 0.25]])
    trust = us.Reliability.fit(probs, [1, 1, 1], lower_bound=0.0)
    assert trust.topk_accuracy(probs, 1).tolist() == [0, 0, 0]
    assert trust.topk_accuracy(probs, 2).tolist() == [1, 1, 1]
    assert trust.k(probs).tolist() == [2, 2, 2]


def test_k_is_never_below_two_and_at_most_all_classes() -> None:
    probs = np.array([[0.4, 0.3, 0.2, 0.1]] * 4)
    assert us.Reliability.fit(probs, [0, 0, 0, 0]).k(probs).tolist() == [2] * 4
    assert us.Reliability.fit(probs, [3, 3, 3, 3]).k(probs).tolist() == [4] * 4
    # Top-3 accuracy is exactly the threshold ¾, top-2 accuracy ½: "at least" counts.
    assert us.Reliability.fit(probs, [0, 1, 2, 3], lower_bound=0.0, threshold=0.75).k(probs).tolist() == [3] * 4


def test_entropy_as_covariate() -> None:
    probs, truth = _labelled(3, 25, 4)
    queried, _ = _labelled(4, 20, 4)
    trust = us.Reliability.fit(probs, truth, lower_bound=0.1, covariate="entropy")
    order = np.argsort(-probs, axis=1, kind="stable")
    for k in (1, 2, 3):
        response = (order[:, :k] == truth[:, None]).any(1).astype(float)
        values = _step_values(_covariate(probs, k, "entropy"), response, _covariate(queried, k, "entropy"), 0.1)
        np.testing.assert_allclose(trust.topk_accuracy(queried, k).numpy(), values, atol=1e-9)


def test_alpha_by_neighbours() -> None:
    probs, truth = _labelled(5, 100, 3)
    trust = us.Reliability.fit(probs, truth, lower_bound=0.2, estimator="knn")
    margins = topk_margin(torch.from_numpy(probs), 1).numpy()
    right = probs.argmax(1) == truth
    expected = [max(0.2, right[np.argsort(abs(margins - m))[:5]].mean()) for m in margins]
    np.testing.assert_allclose(trust.alpha(probs).numpy(), expected, atol=1e-12)


def test_fixed_k_is_the_smallest_with_enough_accuracy() -> None:
    """Top-1, 2, 3 accuracies of 0.2, 0.6, 0.8."""
    probs = np.array([[0.4, 0.3, 0.2, 0.1]] * 5)
    trust = us.Reliability.fit(probs, [0, 1, 1, 2, 3])
    assert trust.fixed_k() == 2
    assert trust.fixed_k(0.61) == 3
    assert trust.fixed_k(0.9) == 4
    assert trust.fixed_k(0.1) == 2


def test_hard_labels_worked_by_hand() -> None:
    # Overall 3/5. Class 0: (2 + 10·0.6) / 13; class 1: (1 + 6) / 12; class 2 was never named: 0.6.
    trust = us.Reliability.fit([0, 0, 0, 1, 1], [0, 0, 1, 1, 0], classes=3)
    assert trust.alpha([0, 1, 2]).tolist() == pytest.approx([8 / 13, 7 / 12, 0.6])
    assert trust.k([0, 1, 2]).tolist() == [3, 3, 3]
    assert trust.topk_accuracy([0], 3).tolist() == [1.0]
    # 7/12 is lifted to the lower bound.
    assert us.Reliability.fit([0, 0, 0, 1, 1], [0, 0, 1, 1, 0], 0.61).alpha([1]).tolist() == [0.61]


def test_one_hot_rows_are_hard_labels() -> None:
    named, truth = [0, 0, 0, 1, 1], [0, 0, 1, 1, 0]
    rows = torch.eye(3)[named]
    trust = us.Reliability.fit(rows, truth)
    assert trust.alpha(rows).tolist() == us.Reliability.fit(named, truth, classes=3).alpha(named).tolist()
    assert trust.k(rows).tolist() == [3] * 5


def test_hard_labels_with_confidence_follow_a_curve() -> None:
    named = us.Hard([0, 1, 0, 1], [0.1, 0.2, 0.3, 0.4])
    trust = us.Reliability.fit(named, [1, 1, 1, 1], lower_bound=0.0)
    queried = us.Hard([0] * 5, [0.0, 0.15, 0.3, 0.35, 9.0])
    assert trust.alpha(queried).tolist() == pytest.approx([0, 0.5, 0.5, 1, 1])


def test_large_pools_are_read_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    import understudy.labels.reliability as module

    probs, truth = _labelled(11, 40, 5)
    trust = us.Reliability.fit(probs, truth)
    whole = trust.alpha(probs), trust.k(probs)
    monkeypatch.setattr(module, "_BUDGET", 15)
    assert trust.alpha(probs).equal(whole[0])
    assert trust.k(probs).equal(whole[1])


def test_labels_closer_than_float32_are_kept_apart() -> None:
    tops = [0.9, 0.9 + 1e-9]
    probs = np.array([[p, 1 - p] for p in tops])
    trust = us.Reliability.fit(probs, [1, 0], lower_bound=0.0)
    assert trust.alpha(probs).tolist() == [0, 1]


def test_nothing_in_nothing_out() -> None:
    probs, truth = _labelled(2, 10, 3)
    assert len(us.Reliability.fit(probs, truth).alpha(probs[:0])) == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lower_bound": 1.0}, "lower_bound"),
        ({"lower_bound": -0.1}, "lower_bound"),
        ({"lower_bound": math.nan}, "lower_bound"),
        ({"threshold": 0.0}, "threshold"),
        ({"threshold": 1.1}, "threshold"),
        ({"covariate": "variance"}, "margin"),
        ({"estimator": "spline"}, "isotonic"),
    ],
)
def test_options_are_checked(options: dict[str, object], message: str) -> None:
    probs, truth = _labelled(0, 10, 3)
    with pytest.raises(us.UnderstudyError, match=message):
        us.Reliability.fit(probs, truth, **options)  # type: ignore[arg-type]


def test_applied_to_another_teachers_labels() -> None:
    probs, truth = _labelled(0, 10, 3)
    trust = us.Reliability.fit(probs, truth)
    with pytest.raises(us.UnderstudyError, match="same teacher"):
        trust.alpha(_labelled(0, 10, 4)[0])
    with pytest.raises(us.UnderstudyError, match="same teacher"):
        trust.alpha([0, 1, 2])
    with pytest.raises(us.UnderstudyError, match="same teacher"):
        us.Reliability.fit([0, 1], [0, 1]).alpha(probs)
    with pytest.raises(us.UnderstudyError, match="classes"):
        us.Reliability.fit([0, 1], [0, 1]).alpha([0, 5])
    with pytest.raises(us.UnderstudyError, match="confidence"):
        us.Reliability.fit(us.Hard([0, 1], [0.1, 0.2]), [0, 1]).alpha([0, 1])


def test_a_missing_label_has_no_accuracy() -> None:
    """−1 must not be read as "the last class"."""
    trust = us.Reliability.fit([0, 0, 0, 1, 1], [0, 0, 1, 1, 0])
    try:
        found = trust.alpha([0, -1])
    except us.UnderstudyError:
        return
    assert math.isnan(found[1].item())


def test_a_missing_label_needs_no_confidence_in_large_pools_either() -> None:
    """A confidence that is NaN has no place among the knots of the curve."""
    trust = us.Reliability.fit(us.Hard([0, 1, 1, 0], [0.1, 0.4, 0.6, 0.9]), [1, 1, 0, 0])
    labels, confidence = torch.ones(10_000, dtype=torch.long), torch.linspace(0, 1, 10_000)
    expected = trust.alpha(us.Hard(labels, confidence))
    labels[7], confidence[7] = -1, math.nan
    found = trust.alpha(us.Hard(labels, confidence))
    assert found.isnan().nonzero().tolist() == [[7]]
    torch.testing.assert_close(found[labels >= 0], expected[labels >= 0])


def test_missing_labels_cannot_estimate() -> None:
    with pytest.raises(us.UnderstudyError):
        us.Reliability.fit([0, -1, 1], [0, 1, 1])


def test_k_counts_from_one_and_is_floored_at_two() -> None:
    """By hand. Top-1 margins 0.1, 0.5; top-2 margins 0.9, 0.5. The surer row by its first class is right, the other not
    even among two: α_1 = 0, 1, and α_2 pools to 1/2 at both. Queried at margins (0.5, 0.5), α_1 = 1 >= 0.9 while α_2 is
    1/2: the smallest k is 1, hence 2; counted from 2 on it would have been 3."""
    probs = torch.tensor([[0.5, 0.4, 0.1 / 3, 0.1 / 3, 0.1 / 3], [0.6, 0.1, 0.1, 0.1, 0.1]])
    trust = us.Reliability.fit(probs, [4, 0], lower_bound=0.0, threshold=0.9)
    assert trust.topk_accuracy(probs, 1).tolist() == [0, 1]
    assert trust.topk_accuracy(probs, 2)[1] == 0.5
    assert trust.k(probs).tolist()[1] == 2
    alpha, k = trust.alpha_and_k(probs)
    assert alpha[1] == 1 and k.tolist() == trust.k(probs).tolist()


def test_lists_of_one_class_do_not_name_a_second() -> None:
    lists = us.TopK(torch.tensor([[0], [1], [2]]), torch.full((3, 1), 0.9), classes=3)
    trust = us.Reliability.fit(lists, [0, 1, 2])
    assert trust.k(lists).tolist() == [3, 3, 3]
