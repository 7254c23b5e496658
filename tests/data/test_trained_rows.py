"""Rows that trained are known again, whatever file, order, type or storage they come in."""

from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse

from understudy.data.fitted_rows import TrainedRows
from understudy.data.inputs import as_rows

X = np.random.default_rng(0).normal(size=(60, 5)) * (np.random.default_rng(1).random((60, 5)) < 0.7)


def _known(trained: Any, others: Any) -> list[bool]:
    found = TrainedRows.of({"gold": as_rows(trained, "x")})
    assert found is not None
    return list(found.contain(as_rows(others, "x")))


@pytest.mark.parametrize(
    "form", [np.float64, np.float32, sparse.csr_matrix, lambda x: [str(row) for row in x.tolist()]]
)
def test_exactly_the_rows_that_trained_are_known_again(form: Any) -> None:
    assert _known(form(X[:30]), form(X[20:50][::-1].copy())) == [False] * 20 + [True] * 10


def test_a_row_is_known_as_float32_and_however_a_sparse_row_is_stored() -> None:
    assert all(_known(X, X.astype(np.float32))) and all(_known(torch.arange(6).view(3, 2), [[0.0, 1], [2, 3], [4, 5]]))
    stored = sparse.csr_matrix(([2.0, 1.0, 0.0], [3, 1, 2], [0, 3]), (1, 5))
    assert all(_known(np.array([[0.0, 1, 0, 2, 0]]), np.array([[-0.0, 1, 0, 2, 0]])))
    assert all(_known(stored, sparse.csr_matrix([[0.0, 1, 0, 2, 0]])))


def test_rows_are_distinct_unless_many_repeat_within_a_set() -> None:
    rows, categories = as_rows(X, "x"), as_rows(np.random.default_rng(0).integers(0, 3, (60, 2)), "x")
    for sets, apart in (({"gold": rows, "pool": rows}, True), ({"gold": rows, "pool": categories}, False)):
        found = TrainedRows.of(sets)
        assert found is not None and found.are_distinct is apart
    assert TrainedRows.of({"pool": as_rows(torch.utils.data.TensorDataset(torch.zeros(3, 1)), "x")}) is None


def test_of_equal_rows_as_many_are_gold_as_gold_has() -> None:
    """Two of three equal rows; every equal row where rows are hardly ever equal."""
    few = TrainedRows({"gold": torch.tensor([5, 5, 7]), "pool": torch.tensor([5, 5, 5, 8])})
    assert not few.are_distinct and few.of_gold(np.array([5, 8, 5, 7, 5])) == [0, 2, 3]
    assert TrainedRows({"gold": torch.tensor([5, 7])}).of_gold(np.array([5, 8, 5, 7])) == [0, 2, 3]
