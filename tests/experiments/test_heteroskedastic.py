"""The benchmark's pools: what is noise, what its labels are, and that the mask tells the truth."""

import pytest
import torch
from experiments.strategy_benchmark import KINDS, heteroskedastic
from torch import Tensor

import understudy as us


@pytest.fixture
def images() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.rand(500, 3, 4, 5, generator=generator), torch.arange(500) % 10


def rows(x: Tensor) -> set[tuple[float, ...]]:
    return {tuple(row) for row in x.flatten(1).tolist()}


@pytest.mark.parametrize("kind", KINDS)
def test_sizes_and_the_mask(images: tuple[Tensor, Tensor], kind: str) -> None:
    x, y = images
    made = heteroskedastic(kind, x, y, seed=3)
    kept = y != 1 if kind == "noisy_class" else torch.ones(500, dtype=torch.bool)
    assert int(made.original.sum()) == int(kept.sum())
    share = float((~made.original).double().mean())
    assert share == pytest.approx(0 if kind == "clean" else 0.8, abs=1e-3)
    assert made.x.shape[1:] == x.shape[1:] and made.y.dtype == torch.long
    truth = {tuple(row): int(label) for row, label in zip(x.flatten(1).tolist(), y, strict=True)}
    assert all(
        truth[tuple(row)] == label
        for row, label in zip(made.x[made.original].flatten(1).tolist(), made.y[made.original].tolist(), strict=True)
    )
    again, other = heteroskedastic(kind, x, y, seed=3), heteroskedastic(kind, x, y, seed=4)
    assert all(torch.equal(a, b) for a, b in zip(made, again, strict=True))
    assert not torch.equal(made.y, other.y)


def test_noisy_blank(images: tuple[Tensor, Tensor]) -> None:
    made = heteroskedastic("noisy_blank", *images)
    assert bool((made.x[~made.original] == 0).all())
    counts = torch.bincount(made.y[~made.original], minlength=10)
    assert int(counts.min()) > 150 and int(counts.max()) < 250  # 2,000 uniform labels: 200 ± 13


def test_noisy_diverse(images: tuple[Tensor, Tensor]) -> None:
    made = heteroskedastic("noisy_diverse", *images)
    noise, labels = made.x[~made.original], made.y[~made.original]
    assert bool((noise == noise[:, :, :1, :1]).all())
    colours, which = noise[:, :, 0, 0].unique(dim=0, return_inverse=True)
    assert len(colours) == 100
    per_colour = [set(labels[which == colour].tolist()) for colour in range(100)]
    assert max(map(len, per_colour)) == 3
    assert sum(len(seen) == 3 for seen in per_colour) >= 95  # 20 draws miss one of 3 labels once in 1,100 times
    assert len({frozenset(seen) for seen in per_colour}) > 30


def test_noisy_class(images: tuple[Tensor, Tensor]) -> None:
    x, y = images
    made = heteroskedastic("noisy_class", x, y)
    assert not bool((made.y[made.original] == 1).any())
    assert rows(made.x[~made.original]) == rows(x[y == 1])
    _, copies = made.x[~made.original].flatten(1).unique(dim=0, return_counts=True)
    assert int(copies.max() - copies.min()) <= 1  # 1,800 rows from 50 images
    # Labelled, then repeated: every image has one label, whatever class it was.
    _, image = made.x[~made.original].flatten(1).unique(dim=0, return_inverse=True)
    labels = made.y[~made.original]
    per_image = [labels[image == number].unique().tolist() for number in range(50)]
    assert all(len(seen) == 1 for seen in per_image) and len({seen[0] for seen in per_image}) > 6


def test_noisy_class_where_every_copy_draws_its_own_label(images: tuple[Tensor, Tensor]) -> None:
    x, y = images
    made, once = heteroskedastic("noisy_class", x, y, own_labels=True), heteroskedastic("noisy_class", x, y)
    labels = made.y[~made.original]
    assert int(torch.bincount(labels, minlength=10).min()) > 130  # 1,800 uniform labels: 180 ± 13
    assert sorted(made.x.flatten(1).tolist()) == sorted(once.x.flatten(1).tolist())
    _, image = made.x[~made.original].flatten(1).unique(dim=0, return_inverse=True)
    assert min(len(labels[image == number].unique()) for number in range(50)) > 5


def test_rows_are_shuffled(images: tuple[Tensor, Tensor]) -> None:
    made = heteroskedastic("noisy_blank", *images)
    assert 60 < int(made.original[:500].sum()) < 140


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "noisy"}, "unknown kind 'noisy'"),
        ({"noisy_share": 1.0}, "use a share from 0 to below 1"),
        ({"kind": "noisy_class", "noisy_class": 12}, "0 of 500 rows have this label"),
        ({"kind": "noisy_diverse", "labels_per_colour": 11}, "use 1 to 10"),
        ({"x": torch.zeros(500, 784)}, "pass images"),
    ],
)
def test_mistakes(images: tuple[Tensor, Tensor], changes: dict[str, object], message: str) -> None:
    settings: dict[str, object] = {"kind": "noisy_blank", "x": images[0], "y": images[1]} | changes
    with pytest.raises(us.UnderstudyError, match=message):
        heteroskedastic(**settings)  # type: ignore[arg-type]
