"""Images and reviews as vectors of nets trained elsewhere (``experiments.frozen`` says how to get these), standardised.

Only the first rows of each split, in their fixed random order: an encoder takes some ms an image, some tens of ms a
review.
"""

import numpy as np
import torch

from experiments.datasets.cifar import cifar10
from experiments.datasets.form import Data
from experiments.datasets.imdb import imdb
from experiments.frozen import Array, picture_vectors, sentence_vectors

# As the net of 224 takes them; 128 costs four times as much and serves the benchmarks.
SIDE = 64
PICTURES, TEST_PICTURES = 11_000, 5_000
REVIEWS, TEST_REVIEWS = 5_000, 2_000


def cifar10_vectors() -> Data:
    data = cifar10()
    x = picture_vectors("cifar10-train", data.x[:PICTURES], SIDE)
    x_test = picture_vectors("cifar10-test", data.x_test[:TEST_PICTURES], SIDE)
    return _standardised(x, data.y[:PICTURES], x_test, data.y_test[:TEST_PICTURES], data.classes)


def review_vectors() -> Data:
    texts, labels, test_texts, test_labels = imdb()
    x, x_test = sentence_vectors(texts[:REVIEWS]), sentence_vectors(test_texts[:TEST_REVIEWS])
    return _standardised(x, torch.tensor(labels[:REVIEWS]), x_test, torch.tensor(test_labels[:TEST_REVIEWS]), 2)


def _standardised(x: Array, y: torch.Tensor, x_test: Array, y_test: torch.Tensor, classes: int) -> Data:
    mean, spread = x.mean(0), x.std(0) + 1e-6
    scaled = [torch.from_numpy(((part - mean) / spread).astype(np.float32)) for part in (x, x_test)]
    return Data(scaled[0], y, scaled[1], y_test, classes)
