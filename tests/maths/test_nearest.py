"""Neighbours' labels: by hand, against every distance at once, and beside scikit-learn."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.neighbors import NearestNeighbors

from understudy.maths import nearest
from understudy.maths.nearest import nearest_rows, unit_rows, votes_of_neighbours


def some(rows: int, seed: int, columns: int = 6) -> torch.Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed))


def test_by_hand() -> None:
    """The query points up; so do the rows 0 and 2. Labels (1, 0) and (½, ½), and one that does not know, (½, ½)."""
    known = unit_rows(torch.tensor([[0.0, 2.0], [1.0, 0.0], [0.1, 9.0], [0.0, -1.0]]))
    labels = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5], [0.0, 1.0]])
    near = nearest_rows(unit_rows(torch.tensor([[0.0, 5.0]])), known, 9)
    assert near.tolist()[0][:2] in ([0, 2], [2, 0]) and near.shape == (1, 4)  # all four there are
    near, every = torch.tensor([[0, 2, 1, 3]]), torch.ones(4, dtype=torch.bool)
    expected = {1: [3 / 4, 1 / 4], 2: [2.5 / 4 + 1 / 24, 1.5 / 4 - 1 / 24], 9: [2 / 5, 3 / 5]}
    for k, votes in expected.items():
        torch.testing.assert_close(votes_of_neighbours(near, labels, every, k), torch.tensor([votes]))
    # Without row 0 the nearest are 2 and 1; without any there is the one that does not know.
    torch.testing.assert_close(
        votes_of_neighbours(near, labels, torch.tensor([False, True, True, True]), 2), torch.tensor([[1 / 3, 2 / 3]])
    )
    torch.testing.assert_close(votes_of_neighbours(near, labels, ~every, 2), torch.tensor([[0.5, 0.5]]))


def test_rows_of_length_one() -> None:
    x = some(5, 0)
    x[2] = 0
    torch.testing.assert_close(unit_rows(x).norm(dim=1), torch.tensor([1.0, 1, 0, 1, 1]))
    centre = torch.arange(6.0)
    torch.testing.assert_close(unit_rows(x, centre), torch.nn.functional.normalize(x - centre, dim=1))
    torch.testing.assert_close(torch.from_numpy(unit_rows(sparse.csr_matrix(x.numpy())).toarray()), unit_rows(x))
    assert unit_rows(torch.ones(3, 2, 4)).shape == (3, 8)


@pytest.mark.parametrize("form", ["dense", "sparse", "sparse, without MKL"])
def test_the_neighbours_are_scikit_learns(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if "MKL" in form:
        monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: False)
    queries, references, k = some(40, 1), some(90, 2), 7
    labels = torch.rand(90, 3, generator=torch.Generator().manual_seed(3)).softmax(1)
    theirs = NearestNeighbors(n_neighbors=k, metric="cosine").fit(references.numpy())
    at = theirs.kneighbors(queries.numpy(), return_distance=False)
    expected = (labels.numpy()[at].sum(1) + 1 / 3) / (k + 1)
    make = torch.as_tensor if form == "dense" else lambda x: sparse.csr_matrix(x.numpy())
    asked, known = unit_rows(make(queries)), unit_rows(make(references))
    near, every = nearest_rows(asked, known, 20), torch.ones(90, dtype=torch.bool)
    np.testing.assert_allclose(votes_of_neighbours(near, labels, every, k).numpy(), expected, atol=1e-6)
    monkeypatch.setattr(nearest, "_BUDGET", 90 * 3)  # three queries at a time
    monkeypatch.setattr(nearest, "_FEWEST", 1)
    assert nearest_rows(asked, known, 20).equal(near)


def test_many_references_are_not_read_anew_for_every_query(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nearest, "_BUDGET", 1)
    sizes, product = list[int](), nearest._product_with

    def counted(references: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
        alike = product(references)
        return lambda rows: (sizes.append(len(rows)), alike(rows))[1]

    monkeypatch.setattr(nearest, "_product_with", counted)
    nearest_rows(some(200, 1), some(90, 2), 20)
    assert max(sizes) == nearest._FEWEST > 10


def test_the_commonest_words_are_left_out_where_the_product_would_take_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """All rows share the word 0; with it, row 0's neighbour is row 2, of that word alone; without it, row 1."""
    x = unit_rows(sparse.csr_matrix([[3.0, 1, 0], [1, 1, 5], [1, 0, 0], [1, 0, 1]]))
    assert nearest_rows(x, x, 2)[0].tolist() == [0, 2]
    monkeypatch.setattr(nearest, "_PRODUCTS", 8)  # of 16 + 4 + 4
    monkeypatch.setattr(nearest, "_PRODUCTS_OF_QUERY", 1)
    assert nearest_rows(x, x, 2)[0].tolist() == [0, 1]


def test_every_answer_is_a_distribution_and_no_class_is_impossible() -> None:
    labels = torch.nn.functional.one_hot(torch.arange(30) % 4, 4).double()
    near = nearest_rows(unit_rows(some(8, 4)), unit_rows(some(30, 5)), 12)
    found = votes_of_neighbours(near, labels, torch.arange(30) % 3 > 0, 3)
    torch.testing.assert_close(found.sum(1), torch.ones(8))
    assert (found > 0).all()


def test_without_references_nothing_is_known() -> None:
    near, labels = torch.empty(3, 0, dtype=torch.int32), torch.empty(0, 4)
    votes = votes_of_neighbours(near, labels, torch.empty(0, dtype=torch.bool), 5)
    torch.testing.assert_close(votes, torch.full((3, 4), 1 / 4))
