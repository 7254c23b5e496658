"""Where the experiments find their data: $UNDERSTUDY_DATA, else ../shared/data beside the checkout."""

import os
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from understudy.errors import UnderstudyError


def data_file(name: str) -> Path:
    root = Path(os.environ.get("UNDERSTUDY_DATA", Path(__file__).parents[2] / "shared" / "data"))
    if not (root / name).exists():
        raise UnderstudyError(f"{name} is not in {root}; set UNDERSTUDY_DATA to the folder that holds it")
    return root / name


def images(name: str) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """``fashion_mnist`` or ``mnist``: x_train (60000, 784) in [0, 1], y_train, x_test, y_test."""
    with np.load(data_file(f"{name}.npz"), allow_pickle=False) as arrays:
        x_train, y_train, x_test, y_test = (arrays[key] for key in ("x_train", "y_train", "x_test", "y_test"))
    scale = [torch.from_numpy(x.reshape(len(x), -1)).float() / 255 for x in (x_train, x_test)]
    return scale[0], torch.from_numpy(y_train).long(), scale[1], torch.from_numpy(y_test).long()
