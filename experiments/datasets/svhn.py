"""SVHN, cropped digits: ``svhn/train_32x32.mat`` and ``svhn/test_32x32.mat``, in MATLAB's own format."""

from pathlib import Path
from typing import Any

import numpy as np
from scipy.io import loadmat

from experiments.datasets.folders import Pinned, find_or_fetch
from experiments.datasets.form import Data, as_images, as_labels
from understudy.errors import UnderstudyError

SITE = "http://ufldl.stanford.edu/housenumbers"
SOURCES = {
    "train_32x32.mat": Pinned(
        f"{SITE}/train_32x32.mat", "435e94d69a87fde4fd4d7f3dd208dfc32cb6ae8af2240d066de1df7508d083b8"
    ),
    "test_32x32.mat": Pinned(
        f"{SITE}/test_32x32.mat", "cdce80dfb2a2c4c6160906d0bd7c68ec5a99d7ca4831afa54f09182025b6a75b"
    ),
}


def svhn() -> Data:
    train = find_or_fetch(["svhn/train_32x32.mat"], SOURCES, folder="svhn")
    x, y = read_mat(train)
    x_test, y_test = read_mat(train.with_name("test_32x32.mat"))
    return Data(as_images(x), as_labels(y), as_images(x_test), as_labels(y_test), 10)


def read_mat(path: Path) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Images (N, 3, 32, 32) in [0, 1] and labels; the file counts from 1 and calls the digit 0 class 10."""
    try:
        content = loadmat(path)
        images, labels = content["X"], content["y"].reshape(-1)
    except (OSError, ValueError, KeyError) as error:
        raise UnderstudyError(f"{path} is not an SVHN file with X and y: {error}; get it again") from error
    return images.transpose(3, 2, 0, 1).astype(np.float32) / 255, labels % 10
