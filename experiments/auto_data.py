"""The settings of ``experiments.auto_settings``: images, text, rules, an LLM's labels; small enough for seconds each.

A setting is a function of the seed, which deals gold, pool and test rows anew (and trains another teacher, where there
is one). Students are small MLPs; pools have at most 5,265 rows.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import torch
from sklearn.feature_extraction.text import TfidfVectorizer
from torch import Tensor, nn

import understudy as us
from experiments.data import data_file, images
from understudy.data import noise


@dataclass(frozen=True)
class Situation:
    """What one seed of a setting deals."""

    gold: us.Gold
    pool: us.Pool
    test: us.Gold
    student: Callable[[], nn.Module]
    epochs: int
    recipe: dict[str, Any] = field(default_factory=lambda: {"lr": 3e-3, "batch_size": 128})
    truth: Tensor | None = None
    """The pool's true labels where they are known: to score its teacher by, and for nothing else."""


def net(inputs: int, classes: int, *hidden: int) -> Callable[[], nn.Module]:
    return lambda: us.models.mlp(inputs=inputs, classes=classes, hidden=hidden)


def dealt(rows: int, sizes: list[int], seed: int) -> list[Tensor]:
    order = torch.randperm(rows, generator=torch.Generator().manual_seed(seed))
    return list(order[: sum(sizes)].split(sizes))


def distilled(
    x: Tensor, y: Tensor, sizes: list[int], student: Callable[[], nn.Module], epochs: int, seed: int
) -> Situation:
    """A bigger net learns from rows of its own and labels the rest; sizes: its rows, gold, pool, test."""
    own, gold, pool, test = dealt(len(x), sizes, seed)
    inputs, classes = x.shape[1], int(y.max()) + 1
    big = net(inputs, classes, 256)
    teacher = us.train(big, us.Gold(x[own], y[own]), None, us.vanilla(), epochs=30, seed=seed, progress=False).student
    return Situation(
        us.Gold(x[gold], y[gold], teacher=us.teach(teacher, x[gold])),
        us.Pool(x[pool], us.teach(teacher, x[pool])),
        us.Gold(x[test], y[test]),
        student,
        epochs,
    )


def digits(seed: int) -> Situation:
    x, y = us.digits()
    return distilled(x, y, [100, 60, 1100, 537], net(64, 10, 32), 25, seed)


@cache
def pictures(name: str) -> tuple[Tensor, Tensor]:
    x, y, _, _ = images(name)
    return x, y


def fashion(gold: int) -> Callable[[int], Situation]:
    def deal(seed: int) -> Situation:
        x, y = pictures("fashion_mnist")
        return distilled(x, y, [300, gold, 3000, 3000], net(784, 10, 64), 10, seed)

    return deal


def mnist(flip: Callable[[Tensor, Tensor, int], Tensor]) -> Callable[[int], Situation]:
    """Hard labels of which many are wrong; without confidences."""

    def deal(seed: int) -> Situation:
        x, y = pictures("mnist")
        gold, pool, test = dealt(len(x), [200, 3000, 3000], seed)
        both = torch.cat([gold, pool])
        labels = us.Hard(flip(x[both], y[both], seed), classes=10)
        given_labels = [labels.take(torch.arange(200)), labels.take(torch.arange(200, 3200))]
        return Situation(
            us.Gold(x[gold], y[gold], teacher=given_labels[0]),
            us.Pool(x[pool], given_labels[1]),
            us.Gold(x[test], y[test]),
            net(784, 10, 64),
            10,
        )

    return deal


@cache
def text(name: str) -> tuple[Tensor, Tensor, Any, np.ndarray[Any, Any]]:
    """TF-IDF of the 2,000 most frequent words and pairs; the truth; the imperfect labels; the split."""
    table = pq.read_table(data_file(f"text/{name}.parquet"))
    words = TfidfVectorizer(max_features=2000, ngram_range=(1, 2), sublinear_tf=True)
    x = torch.from_numpy(words.fit_transform(table["text"].to_pylist()).astype(np.float32).toarray())
    given_labels = table["chatgpt_label"] if "chatgpt_label" in table.column_names else table["weak_labels"]
    return (
        x,
        torch.from_numpy(table["label"].to_numpy().astype(np.int64)),
        np.array(given_labels.to_pylist()),
        table["split"].to_numpy(),
    )


def reviews(seed: int) -> Situation:
    """An LLM's labels of sentences of movie reviews."""
    x, y, given_labels, part = text("mr_chatgpt")
    labelled = torch.from_numpy(np.flatnonzero((part == "train") & (given_labels >= 0)))
    test = torch.from_numpy(np.flatnonzero(part == "test"))
    gold, pool = (labelled[rows] for rows in dealt(len(labelled), [200, 4000], seed))
    labels = torch.from_numpy(given_labels.astype(np.int64))
    return Situation(
        us.Gold(x[gold], y[gold], teacher=us.Hard(labels[gold], classes=2)),
        us.Pool(x[pool], us.Hard(labels[pool], classes=2)),
        us.Gold(x[test], y[test]),
        net(2000, 2, 32),
        8,
    )


def rules(name: str, classes: int, gold_rows: int, epochs: int) -> Callable[[int], Situation]:
    """Labelling rules: their votes' shares are the labels. Gold are rows of the pool's kind that were looked up."""

    def deal(seed: int) -> Situation:
        x, y, given_labels, part = text(name)
        train = torch.from_numpy(np.flatnonzero(part != "test"))
        test = torch.from_numpy(np.flatnonzero(part == "test"))
        gold, pool = (train[rows] for rows in dealt(len(train), [gold_rows, len(train) - gold_rows], seed))
        votes = torch.from_numpy(given_labels.astype(np.int64))
        return Situation(
            us.Gold(x[gold], y[gold], teacher=us.Votes(votes[gold], classes)),
            us.Pool(x[pool], us.Votes(votes[pool], classes)),
            us.Gold(x[test], y[test]),
            net(2000, classes, 32),
            epochs,
        )

    return deal


def _uniform(x: Tensor, y: Tensor, seed: int) -> Tensor:
    return noise.uniform_flip(y, 0.4, 10, seed=seed)[0]


def _pair(x: Tensor, y: Tensor, seed: int) -> Tensor:
    return noise.pair_flip(y, 0.35, 10, seed=seed)[0]


def _instance(x: Tensor, y: Tensor, seed: int) -> Tensor:
    return noise.instance_dependent(x, y, 0.4, 10, seed=seed)[0]


SETTINGS: dict[str, Callable[[int], Situation]] = {
    "digits": digits,
    "Fashion-MNIST, 100 gold": fashion(100),
    "Fashion-MNIST, 300 gold": fashion(300),
    "Fashion-MNIST, 1,000 gold": fashion(1000),
    "movie reviews, LLM": reviews,
    "TREC, rules": rules("weak_trec", 6, 200, 8),
    "YouTube, rules": rules("weak_youtube", 2, 100, 15),
    "MNIST, uniform 40%": mnist(_uniform),
    "MNIST, pair 35%": mnist(_pair),
    "MNIST, instance 40%": mnist(_instance),
}
DEV = ("digits", "Fashion-MNIST, 300 gold", "TREC, rules", "MNIST, uniform 40%")
