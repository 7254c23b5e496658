"""Rows of any kind as a matrix that simple judges can learn from, read some rows at a time.

Dense features are standardised. Wide ones that are nearly all zero (TF-IDF) stay sparse and are taken as they are:
10,000 sentences of 20,000 terms are 800 MB dense, 2 MB sparse.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from understudy.data.rows import Rows
from understudy.errors import UnderstudyError

Matrix = NDArray[np.float32] | sparse.csr_matrix[Any]
# Numbers read densely at once: 64 MB.
BUDGET = 1 << 24
WIDE, THIN = 1024, 0.1


@dataclass(frozen=True)
class Features:
    """How to read one kind of rows; fitted on some of them."""

    width: int
    thin: bool
    centre: NDArray[np.float32]
    scale: NDArray[np.float32]

    @classmethod
    def fit(cls, rows: Rows, index: Tensor) -> "Features | None":
        """None where the rows are not numbers to calculate with (token ids, mappings)."""
        first = _dense(rows, index[:64])
        if first is None or not first.size:
            return None
        width = first.shape[1]
        if width >= WIDE and np.count_nonzero(first) < THIN * first.size:
            return cls(width, True, np.zeros(1, np.float32), np.ones(1, np.float32))
        some = _dense(rows, index[: max(64, BUDGET // width)])
        assert some is not None
        scale = some.std(0)
        # A feature that hardly ever varies would otherwise drown all others in the rows where it does.
        return cls(width, False, some.mean(0), np.maximum(scale, max(1e-3 * float(scale.mean()), 1e-12)))

    @property
    def step(self) -> int:
        """Rows to read at once."""
        return max(1, BUDGET // self.width)

    def read(self, rows: Rows, index: Tensor) -> Matrix | None:
        """None where these rows are of another kind."""
        parts: list[Any] = []
        for part in index.split(self.step):
            x = _dense(rows, part)
            if x is None or x.shape[1] != self.width:
                return None
            parts.append(sparse.csr_matrix(x) if self.thin else (x - self.centre) / self.scale)
        return sparse.csr_matrix(sparse.vstack(parts)) if self.thin else np.concatenate(parts)


def _dense(rows: Rows, index: Tensor) -> NDArray[np.float32] | None:
    batch = rows.take(index)
    if not isinstance(batch, Tensor) or not (batch.is_floating_point() or batch.dtype == torch.uint8):
        return None
    x: NDArray[np.float32] = batch.reshape(len(batch), -1).float().numpy()
    if not np.isfinite(x).all():
        row = int(index[int(np.flatnonzero(~np.isfinite(x).all(1))[0])])
        raise UnderstudyError(f"row {row} of the features holds NaN or infinity; fill it in, or ask for rows_wrong=0")
    return x
