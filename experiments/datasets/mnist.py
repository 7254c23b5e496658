"""MNIST and Fashion-MNIST: one ``.npz`` with x_train … y_test, or the four official idx files (plain or gzipped)."""

import gzip
from pathlib import Path
from typing import Any

import numpy as np

from experiments.datasets.folders import find
from experiments.datasets.form import Data, as_images, as_labels
from understudy.errors import UnderstudyError

Array = np.ndarray[Any, Any]
PARTS = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


def mnist() -> Data:
    return _load("mnist", "get mnist.npz, or the four idx files of MNIST into a folder mnist/")


def fashion_mnist() -> Data:
    return _load("fashion_mnist", "get the four idx files (Debian: dataset-fashion-mnist) into a folder fashion_mnist/")


def _load(name: str, how: str) -> Data:
    path = find([f"{name}.npz", name], how)
    if path.is_dir():
        x, y, x_test, y_test = (read_idx(_plain_or_gzipped(path / part)) for part in PARTS)
    else:
        with np.load(path, allow_pickle=False) as arrays:
            x, y, x_test, y_test = (arrays[key] for key in ("x_train", "y_train", "x_test", "y_test"))
    scale = np.float32(255)
    return Data(as_images(x / scale), as_labels(y), as_images(x_test / scale), as_labels(y_test), 10)


def _plain_or_gzipped(path: Path) -> Path:
    for found in (path, path.with_name(f"{path.name}.gz")):
        if found.exists():
            return found
    raise UnderstudyError(f"{path} is missing, plain or as .gz; the set has the files {', '.join(PARTS)}")


def read_idx(path: Path) -> Array:
    """idx: two zero bytes, the type (8: unsigned bytes), the number of axes, their sizes as big-endian 32-bit, data."""
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    if len(content) < 4 or content[:3] != b"\x00\x00\x08":
        raise UnderstudyError(f"{path} does not begin like an idx file of bytes; get it again")
    axes = content[3]
    shape = tuple(int(size) for size in np.frombuffer(content, dtype=">u4", count=axes, offset=4))
    values = np.frombuffer(content, dtype=np.uint8, offset=4 + 4 * axes)
    if len(values) != int(np.prod(shape)):
        raise UnderstudyError(f"{path} holds {len(values)} values for shape {shape}; it is cut off: get it again")
    return values.reshape(shape)
