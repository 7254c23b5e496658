"""Tie-safe neighbour means against a brute-force loop."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import understudy.maths.weights as module
from understudy.maths.weights import neighbour_means


def brute_force(queries: np.ndarray, points: np.ndarray, responses: np.ndarray, k: int) -> np.ndarray:
    means = []
    for query in queries:
        distance = np.sqrt(((points - query) ** 2).sum(1))
        kth = np.sort(distance)[min(k, len(points)) - 1]
        means.append(responses[distance <= kth * (1 + 1e-9)].mean(0))
    return np.array(means)


def test_ties_with_the_last_neighbour_all_count() -> None:
    points = np.array([[0.0], [1.0], [-1.0], [5.0]])
    responses = np.array([[0.0], [1.0], [4.0], [100.0]])
    # k = 2 from 0: the row itself, and both rows at distance 1.
    assert neighbour_means(np.array([[0.0]]), points, responses, 2)[0, 0] == pytest.approx(5 / 3)


def test_euclidean_distance() -> None:
    points = np.array([[3.0, 4.0], [5.2, 0.0]])
    # 5 against 5.2; by the largest coordinate or by the sum of both the other would be nearer or further.
    assert neighbour_means(np.zeros((1, 2)), points, np.array([[1.0], [2.0]]), 1)[0, 0] == 1


def test_distances_equal_up_to_rounding_are_ties() -> None:
    points = np.array([[0.1], [0.5]])
    found = neighbour_means(np.array([[0.3]]), points, np.array([[0.0], [1.0]]), 1)
    assert found[0, 0] == 0.5


def test_more_ties_than_were_asked_for() -> None:
    angle = np.linspace(0, 2 * np.pi, 64, endpoint=False)
    points = np.stack([np.cos(angle), np.sin(angle)], 1)
    responses = np.arange(64.0)[:, None]
    near = np.concatenate([points, [[9.0, 9.0]]])
    found = neighbour_means(np.zeros((1, 2)), near, np.concatenate([responses, [[1e6]]]), 3)
    assert found[0, 0] == pytest.approx(31.5)


def test_k_beyond_the_points_is_the_overall_mean() -> None:
    assert neighbour_means(np.zeros((1, 1)), np.array([[1.0], [2.0]]), np.array([[1.0], [2.0]]), 9)[0, 0] == 1.5


def test_no_queries() -> None:
    assert neighbour_means(np.zeros((0, 2)), np.zeros((3, 2)), np.zeros((3, 2)), 1).shape == (0, 2)


# A coarse grid: confidences of an LLM take few values, so ties are the rule.
GRID = st.tuples(st.integers(0, 3), st.integers(0, 3))
ROWS = st.lists(st.tuples(GRID, st.integers(0, 1), st.integers(0, 5)), min_size=1, max_size=40)


@given(ROWS, st.lists(GRID, min_size=1, max_size=8), st.integers(1, 12))
def test_equals_brute_force_in_any_row_order(
    rows: list[tuple[tuple[int, int], int, int]], asked: list[tuple[int, int]], k: int
) -> None:
    points = np.array([place for place, _, _ in rows], dtype=np.float64) / 4
    responses = np.array([values for _, *values in rows], dtype=np.float64)
    queries = np.array(asked, dtype=np.float64) / 4 + 0.125
    found = neighbour_means(queries, points, responses, k)
    np.testing.assert_allclose(found, brute_force(queries, points, responses, k), atol=1e-12)
    order = np.random.default_rng(k).permutation(len(points))
    np.testing.assert_array_equal(found, neighbour_means(queries, points[order], responses[order], k))


def test_equals_brute_force_on_continuous_data(rng: np.random.Generator) -> None:
    points, queries = rng.random((300, 2)), rng.random((200, 2))
    responses = rng.random((300, 2))
    found = neighbour_means(queries, points, responses, 9)
    np.testing.assert_allclose(found, brute_force(queries, points, responses, 9), atol=1e-12)


def test_pieces_do_not_show(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    points, queries, responses = rng.random((80, 2)).round(1), rng.random((200, 2)).round(2), rng.random((80, 2))
    whole = neighbour_means(queries, points, responses, 9)
    monkeypatch.setattr(module, "_QUERIES", 7)
    monkeypatch.setattr(module, "_CHUNK", 30)
    np.testing.assert_array_equal(neighbour_means(queries, points, responses, 9), whole)
