"""The Large Movie Review data set: the published folder ``aclImdb``, or ``imdb_50k.parquet`` (split, label, text)."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow.parquet as pq

from experiments.datasets.folders import Pinned, find_or_fetch
from understudy.errors import UnderstudyError

SOURCES = {
    "aclImdb_v1.tar.gz": Pinned(
        "https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz",
        "c40f74a18d3b61f90feba1e17730e0d38e8b97c05fde7008942e91923d1658fe",
    )
}


class Reviews(NamedTuple):
    texts: list[str]
    labels: list[int]
    test_texts: list[str]
    test_labels: list[int]


def imdb() -> Reviews:
    """Both splits in one fixed random order each: the files come sorted by label."""
    path = find_or_fetch(["imdb_50k.parquet", "aclImdb"], SOURCES)
    read = read_folder if path.is_dir() else read_parquet
    return Reviews(*_shuffled(*read(path, "train")), *_shuffled(*read(path, "test")))


def read_folder(path: Path, split: str) -> tuple[list[str], list[int]]:
    texts: list[str] = []
    labels: list[int] = []
    for label, name in enumerate(("neg", "pos")):
        files = sorted((path / split / name).glob("*.txt"))
        if not files:
            raise UnderstudyError(f"{path / split / name} holds no reviews; unpack aclImdb_v1.tar.gz again")
        texts += [file.read_text(encoding="utf-8") for file in files]
        labels += [label] * len(files)
    return texts, labels


def read_parquet(path: Path, split: str) -> tuple[list[str], list[int]]:
    table = pq.read_table(path, columns=["split", "label", "text"], filters=[("split", "==", split)])
    if not len(table):
        raise UnderstudyError(f"{path} has no rows with split = {split!r}; it needs train and test")
    return table["text"].to_pylist(), [int(label) for label in table["label"].to_pylist()]


def _shuffled(texts: list[str], labels: list[int]) -> tuple[list[str], list[int]]:
    order = np.random.default_rng(0).permutation(len(texts))
    return [texts[place] for place in order], [labels[place] for place in order]
