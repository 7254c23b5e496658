"""CIFAR-10 and CIFAR-100 from their binary versions; CIFAR-10 also from lossless tile sheets (cifar10/*.webp).

A record is its label bytes (one; coarse and fine for CIFAR-100) and 3,072 bytes: 32 × 32 of red, then green, then blue.
"""

from pathlib import Path
from typing import Any

import numpy as np

from experiments.datasets.folders import Pinned, find, find_or_fetch
from experiments.datasets.form import Data, as_images, as_labels
from understudy.errors import UnderstudyError

Array = np.ndarray[Any, Any]
PIXELS = 3 * 32 * 32
SITE = "https://www.cs.toronto.edu/~kriz"
CIFAR10 = {
    "cifar-10-binary.tar.gz": Pinned(
        f"{SITE}/cifar-10-binary.tar.gz", "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"
    )
}
CIFAR100 = {
    "cifar-100-binary.tar.gz": Pinned(
        f"{SITE}/cifar-100-binary.tar.gz", "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec"
    )
}


def cifar10() -> Data:
    try:
        sheets = find(["cifar10/cifar10_labels.npz"], "").parent
    except UnderstudyError:
        folder = find_or_fetch(["cifar-10-batches-bin"], CIFAR10)
        train = [read_binary(folder / f"data_batch_{number}.bin", label_bytes=1) for number in range(1, 6)]
        x, y = (np.concatenate(parts) for parts in zip(*train, strict=True))
        x_test, y_test = read_binary(folder / "test_batch.bin", label_bytes=1)
    else:
        x, y, x_test, y_test = _read_sheets(sheets)
    return _data(x, y, x_test, y_test, 10)


def cifar100() -> Data:
    folder = find_or_fetch(["cifar-100-binary"], CIFAR100)
    x, y = read_binary(folder / "train.bin", label_bytes=2)
    x_test, y_test = read_binary(folder / "test.bin", label_bytes=2)
    return _data(x, y, x_test, y_test, 100)


def read_binary(path: Path, *, label_bytes: int) -> tuple[Array, Array]:
    """Images (N, 3, 32, 32) as bytes and labels (N,): the last label byte, which is the fine one of CIFAR-100."""
    if not path.exists():
        raise UnderstudyError(f"{path} is missing; unpack the binary version of CIFAR (not the Python one) beside it")
    content = np.fromfile(path, dtype=np.uint8)
    record = label_bytes + PIXELS
    if len(content) % record:
        raise UnderstudyError(f"{path} is not made of records of {record} bytes; get the binary version again")
    records = content.reshape(-1, record)
    return records[:, label_bytes:].reshape(-1, 3, 32, 32), records[:, label_bytes - 1]


def _read_sheets(folder: Path) -> tuple[Array, Array, Array, Array]:
    """Sheets of 100 × 100 tiles of 32 × 32, row by row in the set's own order."""
    from PIL import Image

    def sheet(name: str) -> Array:
        with Image.open(folder / name) as picture:
            tiles = np.asarray(picture.convert("RGB")).reshape(100, 32, 100, 32, 3)
        return tiles.transpose(0, 2, 4, 1, 3).reshape(-1, 3, 32, 32)

    x = np.concatenate([sheet(f"cifar10_train_{number}.webp") for number in range(5)])
    with np.load(folder / "cifar10_labels.npz", allow_pickle=False) as labels:
        return x, labels["y_train"], sheet("cifar10_test.webp"), labels["y_test"]


def _data(x: Array, y: Array, x_test: Array, y_test: Array, classes: int) -> Data:
    scale = np.float32(255)
    return Data(as_images(x / scale), as_labels(y), as_images(x_test / scale), as_labels(y_test), classes)
