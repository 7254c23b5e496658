"""Features from any source give the same batches."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import Dataset, TensorDataset

import understudy.data.rows as module
from understudy.data.inputs import as_rows, concatenate
from understudy.data.rows import ConcatRows, DatasetRows, MappedRows, SubsetRows, TensorRows, join, mapped_rows
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
        ([b"a"], "not a numeric"),
        (["a", 3], "row 1 holds a int, not a text"),
        ({"x": X, "mask": X[:2]}, r"pool\.x\['mask'\] has 2 rows but pool\.x\['x'\] has 6"),
        ({"x": ["a"]}, "a mapping holds tensors or arrays"),
        ({"x": Bare()}, "a mapping holds tensors or arrays"),
        ({0: X}, "the student's arguments"),
        ({}, "empty mapping"),
        ("table.csv", r"pool\.x"),
    ],
)
def test_what_is_no_rows_is_an_error(x: object, message: str) -> None:
    with pytest.raises(UnderstudyError, match=message):
        as_rows(x, "pool.x")


@pytest.fixture
def on_disk(tmp_path: Path) -> Path:
    np.save(tmp_path / "x.npy", np.arange(600, dtype=np.float16).reshape(100, 6))
    return tmp_path / "x.npy"


def test_a_map_is_shuffled_in_blocks_once_it_fills_half_of_the_memory(
    on_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = np.load(on_disk, mmap_mode="r")
    monkeypatch.setattr(module, "total_memory", lambda: 2 * x.nbytes)
    assert as_rows(x, "x").preferred_block is None
    monkeypatch.setattr(module, "total_memory", lambda: 2 * x.nbytes - 1)
    # 256 KB of rows of 12 bytes.
    assert as_rows(x, "x").preferred_block == 21_845
    assert mapped_rows(x, shuffle="full").preferred_block is None
    assert mapped_rows(x, shuffle=64).preferred_block == 64
    monkeypatch.setattr(module, "total_memory", lambda: 1 << 60)
    assert mapped_rows(on_disk).preferred_block is None
    assert mapped_rows(str(on_disk), shuffle="block").preferred_block == 21_845


def test_a_map_is_shared_not_copied(on_disk: Path) -> None:
    x = np.load(on_disk, mmap_mode="r")
    rows = as_rows(x, "x")
    assert isinstance(rows, MappedRows) and rows.is_mapped
    assert rows.x.data_ptr() == x.ctypes.data
    assert as_rows(rows, "x") is rows
    assert not as_rows(X, "x").is_mapped and as_rows(X, "x").preferred_block is None


def test_some_rows_of_a_map_stay_in_blocks_only_in_the_order_of_the_file(
    on_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = mapped_rows(on_disk, shuffle=10)
    advised: list[object] = []
    monkeypatch.setattr(
        rows, "will_need", lambda index, mixed: advised.append((mixed, index if index is None else index.tolist()))
    )
    part = SubsetRows(rows, torch.tensor([3, 5, 5, 90]))
    assert part.is_mapped and part.preferred_block == 10
    assert SubsetRows(rows, torch.tensor([3, 90, 5])).preferred_block is None
    part.will_need(torch.tensor([1, 3]), mixed=True)
    part.will_need(None)  # 4 of 100 rows: not worth the whole file
    SubsetRows(rows, torch.arange(51)).will_need(None)
    assert advised == [(True, [5, 90]), (False, None)]


@pytest.mark.parametrize("shuffle", ["random", 0, -3, True, 2.5, None])
def test_unknown_shuffles(shuffle: object, on_disk: Path) -> None:
    with pytest.raises(UnderstudyError, match="use 'auto', 'full', 'block' or the rows of a block"):
        mapped_rows(on_disk, shuffle=shuffle)  # type: ignore[arg-type]


def test_what_cannot_be_mapped(tmp_path: Path) -> None:
    (tmp_path / "x.npy").write_text("not an array")
    np.savez(tmp_path / "x.npz", x=X.numpy())
    for x, message in ((tmp_path / "x.npy", "cannot map"), (tmp_path / "x.npz", "NpzFile"), (X.numpy(), "mmap_mode")):
        with pytest.raises(UnderstudyError, match=message):
            mapped_rows(x)  # type: ignore[arg-type]
