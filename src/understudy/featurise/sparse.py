"""Blocks of features side by side, kept sparse until a batch is taken.

50,000 reviews × 20,000 terms are 4 GB as floats and 90 MB as the terms that occur; a dense batch of 128 is 10 MB.
"""

from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from understudy.data.rows import Rows
from understudy.featurise.part import Block
from understudy.store.arrow import Array


class SparseRows(Rows):
    """Rows of a sparse matrix; a batch of them is dense float32."""

    def __init__(self, matrix: sparse.csr_matrix[Any]) -> None:
        self.matrix = matrix

    def __len__(self) -> int:
        return int(self.matrix.shape[0])

    def take(self, index: Tensor) -> Tensor:
        batch = self.matrix[index.cpu().numpy()].toarray()
        return torch.from_numpy(batch).to(torch.get_default_dtype())


def side_by_side(blocks: list[Block]) -> Array | Rows:
    """One block as it is; several in their order, each row flat, sparse where one of them is."""
    if len(blocks) == 1:
        (block,) = blocks
        return SparseRows(block) if isinstance(block, sparse.csr_matrix) else block
    flat = [_flat(block) for block in blocks]
    if any(isinstance(block, sparse.csr_matrix) for block in flat):
        return SparseRows(sparse.csr_matrix(sparse.hstack(flat, format="csr", dtype=np.float32)))
    return np.concatenate(flat, axis=1)


def _flat(block: Block) -> Any:
    if isinstance(block, sparse.csr_matrix):
        return block
    assert isinstance(block, np.ndarray), "images stand alone"
    return block.reshape(len(block), -1).astype(np.float32, copy=False)
