"""What every loader returns, and how rows are taken from it whether they are in memory or on disk."""

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from understudy.data.inputs import as_rows
from understudy.data.rows import SubsetRows


class Data(NamedTuple):
    x: Any
    """A tensor (N, C, H, W) in [0, 1], or a map-style Dataset of such images."""
    y: Tensor
    x_test: Any
    y_test: Tensor
    classes: int

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.x.shape[1:]) if isinstance(self.x, Tensor) else tuple(self.x[0].shape)


def rows(x: Any, index: Tensor) -> Any:
    """Some rows: a copy of a tensor's, a view of a Dataset's."""
    return x[index] if isinstance(x, Tensor) else SubsetRows(as_rows(x, "x"), index)


def as_images(x: np.ndarray[Any, Any]) -> Tensor:
    """Grey (N, H, W) or colour (N, 3, H, W), in [0, 1], as float32 with a channel axis."""
    tensor = torch.from_numpy(np.ascontiguousarray(x, dtype=np.float32))
    return tensor.unsqueeze(1) if tensor.dim() == 3 else tensor


def as_labels(y: np.ndarray[Any, Any]) -> Tensor:
    return torch.from_numpy(np.asarray(y).reshape(-1).astype(np.int64))
