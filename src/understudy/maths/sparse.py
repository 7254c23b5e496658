"""Sparse rows: SciPy's as PyTorch's."""

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from scipy import sparse


def sparse_batch(matrix: "sparse.csr_matrix[Any]") -> Tensor:
    """The same rows for PyTorch; 32-bit indices are what its fast kernels take, and 20,000 × 10⁵ terms fit them."""
    kind = np.int32 if matrix.nnz < 1 << 31 else np.int64
    rows, columns = (torch.from_numpy(part.astype(kind, copy=False)) for part in (matrix.indptr, matrix.indices))
    values = torch.from_numpy(matrix.data).to(torch.get_default_dtype())
    # The arrays are SciPy's own and in order; looking at all of them again would take longer than the product.
    with torch.sparse.check_sparse_tensor_invariants(False), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(rows, columns, values, matrix.shape)
