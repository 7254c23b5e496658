"""A linear layer that also takes sparse rows: text as the terms that occur.

    head = SparseLinear(20_000, 2)
    head(sparse_batch(matrix))        # matrix: SciPy's CSR; the same logits as of dense rows, at 1 % of the work

PyTorch multiplies sparse rows by a dense matrix quickly, but its derivative changes their layout on every call (48 ms
where the product takes 0.2, for 10,000 reviews); SciPy reads the same arrays the other way round as they lie.
"""

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

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


def takes_sparse(module: nn.Module) -> bool:
    """Whether what meets a batch first is a layer that can take it sparse."""
    layers = [layer for layer in module.children() if not isinstance(layer, nn.Flatten)]
    return isinstance(module, nn.Sequential) and bool(layers) and isinstance(layers[0], SparseLinear)


# Rows from which on two classes share a product: a small batch would feel the operators more.
_MANY_ROWS = 1024


class SparseLinear(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        if self.training and self.out_features == 2 and len(x) >= _MANY_ROWS:
            return self._of_two(x)
        if x.layout != torch.sparse_csr:
            return super().forward(x)
        product: Tensor = _Product.apply(x, self.weight)  # type: ignore[no-untyped-call]
        return product + self.bias

    def _of_two(self, x: Tensor) -> Tensor:
        """A softmax sees the difference of two logits alone, and one row of weights makes it at half the work."""
        weight, bias = self.weight[1:] - self.weight[:1], self.bias[1] - self.bias[0]
        is_sparse = x.layout == torch.sparse_csr
        product = _Product.apply(x, weight).squeeze(1) if is_sparse else x.mv(weight[0])  # type: ignore[no-untyped-call]
        half = 0.5 * (product + bias)
        return torch.stack([-half, half], dim=1)


class _Product(torch.autograd.Function):
    """X Wᵀ; rows have no derivative."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.x = x
        return x @ weight.t()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, Tensor]:
        from scipy import sparse

        (gradient,) = gradients
        x: Tensor = ctx.x
        if x.device.type != "cpu":
            return None, (x.t() @ gradient).t()
        values, columns, rows = x.values().numpy(), x.col_indices().numpy(), x.crow_indices().numpy()
        matrix: Any = sparse.csr_matrix((values, columns, rows), shape=(x.shape[0], x.shape[1]), copy=False)
        return None, torch.from_numpy(matrix.T @ gradient.contiguous().numpy()).t()

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor | None) -> Tensor | None:
        along = tangents[1]
        return None if along is None else ctx.x @ along.t()
