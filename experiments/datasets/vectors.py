"""Images and sentences as vectors of nets trained elsewhere, standardised; ``experiments.frozen`` says how to get them.

Of the images only the first of each split: the encoder takes some ms for each.
"""

import numpy as np
import pyarrow.parquet as pq
import torch

from experiments.datasets.cifar import cifar10
from experiments.datasets.folders import find
from experiments.datasets.form import Data
from experiments.frozen import Array, picture_vectors, sentence_vectors

# The net was trained at 224; 128 costs four times as much as this and serves the benchmarks.
SIDE = 64
PICTURES, TEST_PICTURES = 11_000, 5_000


def cifar10_vectors() -> Data:
    data = cifar10()
    x = picture_vectors("cifar10-train", data.x[:PICTURES], SIDE)
    x_test = picture_vectors("cifar10-test", data.x_test[:TEST_PICTURES], SIDE)
    return _standardised(x, data.y[:PICTURES], x_test, data.y_test[:TEST_PICTURES], data.classes)


def sst2_vectors() -> Data:
    """Sentences of film reviews, ``text/sst2.parquet`` (split, text, label)."""
    table = pq.read_table(find(["text/sst2.parquet"], "put SST-2 there (split, text, label)")).to_pydict()
    parts = {split: [row for row, name in enumerate(table["split"]) if name == split] for split in ("train", "test")}
    x, x_test = (sentence_vectors([table["text"][row] for row in rows]) for rows in parts.values())
    y, y_test = (torch.tensor([table["label"][row] for row in rows]) for rows in parts.values())
    return _standardised(x, y, x_test, y_test, 2)


def _standardised(x: Array, y: torch.Tensor, x_test: Array, y_test: torch.Tensor, classes: int) -> Data:
    mean, spread = x.mean(0), x.std(0) + 1e-6
    scaled = [torch.from_numpy(((part - mean) / spread).astype(np.float32)) for part in (x, x_test)]
    return Data(scaled[0], y, scaled[1], y_test, classes)
