"""MNIST and Fashion-MNIST as flat rows, and where any file of the data folder lies."""

from pathlib import Path

from torch import Tensor

from experiments.datasets import load
from experiments.datasets.folders import find


def data_file(name: str) -> Path:
    return find([name], "get it as docs/reproduce.md says")


def images(name: str) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """``fashion_mnist`` or ``mnist``: x_train (60000, 784) in [0, 1], y_train, x_test, y_test."""
    data = load(name)
    return data.x.flatten(1), data.y, data.x_test.flatten(1), data.y_test
