"""Neighbours' labels: by hand, against every distance at once, and beside scikit-learn."""

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.neighbors import NearestNeighbors

from understudy.maths import nearest
from understudy.maths.nearest import unit_rows, votes_of_neighbours


def some(rows: int, seed: int, columns: int = 6) -> torch.Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed))


def test_by_hand() -> None:
    """The query points up; so do the rows 0 and 2. Labels (1, 0) and (½, ½), and one that does not know, (½, ½)."""
    known = unit_rows(torch.tensor([[0.0, 2.0], [1.0, 0.0], [0.1, 9.0], [0.0, -1.0]]))
    labels = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5], [0.0, 1.0]])
    found = votes_of_neighbours(unit_rows(torch.tensor([[0.0, 5.0]])), known, labels, [1, 2, 9])
    torch.testing.assert_close(found[1], torch.tensor([[0.75, 0.25]]))
    torch.testing.assert_close(found[2], torch.tensor([[2 / 3, 1 / 3]]))
    torch.testing.assert_close(found[9], torch.tensor([[2 / 5, 3 / 5]]))  # all four there are


def test_rows_of_length_one() -> None:
    x = some(5, 0)
    x[2] = 0
    torch.testing.assert_close(unit_rows(x).norm(dim=1), torch.tensor([1.0, 1, 0, 1, 1]))
    centre = torch.arange(6.0)
    torch.testing.assert_close(unit_rows(x, centre), torch.nn.functional.normalize(x - centre, dim=1))
    torch.testing.assert_close(torch.from_numpy(unit_rows(sparse.csr_matrix(x.numpy())).toarray()), unit_rows(x))
    assert unit_rows(torch.ones(3, 2, 4)).shape == (3, 8)


@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_the_neighbours_are_scikit_learns(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    queries, references, k = some(40, 1), some(90, 2), 7
    labels = torch.rand(90, 3, generator=torch.Generator().manual_seed(3)).softmax(1)
    theirs = NearestNeighbors(n_neighbors=k, metric="cosine").fit(references.numpy())
    at = theirs.kneighbors(queries.numpy(), return_distance=False)
    expected = (labels.numpy()[at].sum(1) + 1 / 3) / (k + 1)
    make = torch.as_tensor if form == "dense" else lambda x: sparse.csr_matrix(x.numpy())
    asked, known = unit_rows(make(queries)), unit_rows(make(references))
    found = votes_of_neighbours(asked, known, labels, [k])[k]
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-6)
    monkeypatch.setattr(nearest, "_BUDGET", 90 * 3)  # three queries at a time
    torch.testing.assert_close(votes_of_neighbours(asked, known, labels, [k])[k], found)


def test_every_answer_is_a_distribution_and_no_class_is_impossible() -> None:
    labels = torch.nn.functional.one_hot(torch.arange(30) % 4, 4).double()
    found = votes_of_neighbours(unit_rows(some(8, 4)), unit_rows(some(30, 5)), labels, [3])[3]
    torch.testing.assert_close(found.sum(1), torch.ones(8))
    assert (found > 0).all()
