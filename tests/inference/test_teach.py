"""Asking a teacher: any module or function, in batches, never twice."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import understudy as us

X = torch.randn(10, 3, generator=torch.Generator().manual_seed(0))


class Counted:
    """A function as teacher that remembers the rows it was asked."""

    def __init__(self) -> None:
        self.asked: list[float] = []

    def __call__(self, x: Tensor) -> np.ndarray:
        self.asked += x[:, 0].tolist()
        p = torch.sigmoid(x[:, :1])
        return torch.cat([p, 1 - p], 1).numpy()


def test_a_module_gives_the_softmax_of_its_logits() -> None:
    net = nn.Sequential(nn.Dropout(0.9), nn.Linear(3, 4))
    found = us.teach(net, X, batch_size=3)
    torch.testing.assert_close(found, net[1](X).softmax(-1).detach())
    assert net.training
    assert not found.is_inference()


def test_a_function_gives_probabilities_or_logits() -> None:
    assert us.teach(Counted(), X, batch_size=4).equal(torch.from_numpy(Counted()(X)))
    found = us.teach(lambda x: x, X, output="logits")
    torch.testing.assert_close(found, X.softmax(-1))


def test_datasets_and_memory_maps_are_read(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X.numpy())
    expected = us.teach(Counted(), X)
    for source in (TensorDataset(X), np.load(tmp_path / "x.npy", mmap_mode="r"), X.numpy()):
        assert us.teach(Counted(), source).equal(expected)


@pytest.mark.parametrize("make", [lambda i: i * 7, lambda i: f"row {i}"])
def test_the_store_asks_only_what_is_new(tmp_path: Path, make: Callable[[int], object]) -> None:
    store = us.LabelStore(tmp_path / "labels", 2, "dense")
    ids = [make(i) for i in range(10)]
    first = Counted()
    some = us.teach(first, X[:6], ids=ids[:6], store=store, batch_size=2, save_every=1)
    assert len(first.asked) == 6
    second = Counted()
    # Shuffled: answers are matched by id, not by place.
    order = torch.tensor([9, 3, 0, 7, 5, 8, 1, 2, 6, 4])
    found = us.teach(second, X[order], ids=[ids[i] for i in order], store=store)
    assert sorted(second.asked) == sorted(X[6:, 0].tolist())
    assert found.equal(us.teach(Counted(), X)[order])
    assert some.equal(us.teach(Counted(), X[:6]))
    third = Counted()
    assert us.teach(third, X, ids=ids, store=store).equal(us.teach(Counted(), X))
    assert third.asked == []


def test_what_was_answered_before_a_failure_is_kept(tmp_path: Path) -> None:
    store = us.LabelStore(tmp_path / "labels", 2, "dense")

    class Unlucky(Counted):
        def __call__(self, x: Tensor) -> np.ndarray:
            if len(self.asked) >= 4:
                raise ConnectionError("gone")
            return super().__call__(x)

    with pytest.raises(ConnectionError):
        us.teach(Unlucky(), X, ids=range(10), store=store, batch_size=2, save_every=1)
    again = Counted()
    us.teach(again, X, ids=range(10), store=store)
    assert len(again.asked) == 6


@pytest.mark.parametrize(
    ("teacher", "options", "message"),
    [
        (lambda x: x, {}, "sums to|negative"),
        (lambda x: x[:, 0], {}, r"\(rows, classes\)"),
        (lambda x: x[:1].softmax(-1), {}, r"\(rows, classes\)"),
        (lambda x: ["cat"] * len(x), {}, "not a numeric"),
        (Counted(), {"output": "scores"}, "logits"),
        (Counted(), {"ids": [1, 2]}, "ids"),
        (Counted(), {"ids": [1] * 10}, "more than once"),
    ],
)
def test_refused(teacher: Callable[[Tensor], object], options: dict[str, object], message: str) -> None:
    with pytest.raises(us.UnderstudyError, match=message):
        us.teach(teacher, X, **options)  # type: ignore[arg-type]


def test_the_row_named_is_the_callers(tmp_path: Path) -> None:
    def teacher(x: Tensor) -> Tensor:
        answers = torch.full((len(x), 2), 0.5)
        answers[(x[:, 0] == X[7, 0])] = 0.9
        return answers

    store = us.LabelStore(tmp_path / "labels", 2, "dense")
    for options in ({}, {"ids": range(10), "store": store, "save_every": 1}):
        with pytest.raises(us.UnderstudyError, match="row 7"):
            us.teach(teacher, X, batch_size=2, **options)  # type: ignore[arg-type]
