"""Features from any source give the same batches."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import Dataset, TensorDataset

from understudy.data.rows import ConcatRows, DatasetRows, SubsetRows, TensorRows, as_rows, concatenate, join
from understudy.errors import UnderstudyError

X = torch.arange(12.0).reshape(6, 2)
INDEX = torch.tensor([4, 0, 4, 5])


class Bare(Dataset[Tensor]):
    def __len__(self) -> int:
        return len(X)

    def __getitem__(self, i: int) -> Tensor:
        return X[i]


class Fields(Bare):
    def __getitem__(self, i: int) -> dict[str, Tensor]:  # type: ignore[override]
        return {"ids": X[i].long(), "mask": X[i] > 3}


def test_every_source_gives_the_same_batch(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X.numpy())
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    for source in (X, X.numpy(), X.numpy().astype(np.float64), X.tolist(), mapped, Bare(), TensorDataset(X, X)):
        rows = as_rows(source, "x")
        assert len(rows) == 6
        batch = rows.take(INDEX)
        assert batch.dtype == torch.float32
        assert batch.equal(X[INDEX])
    assert isinstance(as_rows(Bare(), "x"), DatasetRows)
    assert as_rows(Bare(), "x").per_row
    assert not as_rows(mapped, "x").per_row


def test_integers_stay_integers() -> None:
    assert as_rows(X.to(torch.uint8), "x").take(INDEX).dtype == torch.uint8


def test_fields_are_collated_and_joined() -> None:
    batch = as_rows(Fields(), "x").take(torch.tensor([1, 2]))
    assert batch["ids"].tolist() == [[2, 3], [4, 5]]
    both = join([batch, batch])
    assert both["mask"].shape == (4, 2)


def test_subset_and_concatenation() -> None:
    rows = as_rows(X, "x")
    part = SubsetRows(rows, torch.tensor([5, 1, 3]))
    assert part.take(torch.tensor([0, 2])).equal(X[[5, 3]])
    for other in (as_rows(Bare(), "x"), rows):
        both = concatenate(part, other)
        assert isinstance(both, ConcatRows)
        expected = torch.cat([X[[5, 1, 3]], X])
        order = torch.tensor([8, 0, 3, 1, 2, 7, 0])
        assert len(both) == 9
        assert both.take(order).equal(expected[order])
    assert isinstance(concatenate(rows, rows), TensorRows)


def test_concatenating_integers_and_fractions_loses_nothing() -> None:
    whole, half = as_rows(torch.tensor([[1], [2]]), "x"), as_rows(torch.tensor([[0.5]]), "x")
    everything = torch.arange(3)
    assert concatenate(whole, half).take(everything).flatten().tolist() == [1, 2, 0.5]
    assert concatenate(half, whole).take(everything).flatten().tolist() == [0.5, 1, 2]


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (3.0, "tensor, an ndarray"),
        (torch.tensor(3.0), "one row per example"),
        ((i for i in range(3)), "generator"),
        ([[1.0, float("nan")]], "row 0 holds NaN"),
        (["a"], "not a numeric"),
        ({"x": X}, r"pool\.x"),
        ("table.csv", r"pool\.x"),
    ],
)
def test_refused(x: object, message: str) -> None:
    with pytest.raises(UnderstudyError, match=message):
        as_rows(x, "pool.x")
