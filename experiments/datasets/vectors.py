"""Images and texts as vectors of nets trained elsewhere, standardised; ``experiments.frozen`` says how to get these.

Only the first images of each split: the encoder takes some ms for each. Texts: ``text/NAME.parquet`` (split, text,
label).
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


def text_vectors(name: str) -> Data:
    table = pq.read_table(find([f"text/{name}.parquet"], "put it there (split, text, label)")).to_pydict()
    wanted = [[row for row, split in enumerate(table["split"]) if split == part] for part in ("train", "test")]
    x, x_test = (sentence_vectors([table["text"][row] for row in rows]) for rows in wanted)
    y, y_test = (torch.tensor([table["label"][row] for row in rows]) for rows in wanted)
    return _standardised(x, y, x_test, y_test, len(set(table["label"])))


def _standardised(x: Array, y: torch.Tensor, x_test: Array, y_test: torch.Tensor, classes: int) -> Data:
    mean, spread = x.mean(0), x.std(0) + 1e-6
    scaled = [torch.from_numpy(((part - mean) / spread).astype(np.float32)) for part in (x, x_test)]
    return Data(scaled[0], y, scaled[1], y_test, classes)
