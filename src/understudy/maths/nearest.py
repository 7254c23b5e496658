"""What a row's nearest neighbours are labelled: a label source that trains nothing and memorises nothing.

near = nearest_rows(unit_rows(x), unit_rows(known), 40)      # (n, 40): which of the known rows are most similar
votes_of_neighbours(near, labels, allowed, 10)               # (n, C): mean label of the first 10 that are allowed
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from understudy.maths.sparse import sparse_batch

# Similarities held at a time: 4 MB as float32, which a cache keeps for the search; 64 MB take twice as long.
_BUDGET = 1 << 20
# Queries at once: fewer would each read all of many references from memory, 2.5 times as slow for 100,000.
_FEWEST = 64
# Products of two entries: two seconds of one core, or for many queries a tenth of a millisecond each.
_PRODUCTS, _PRODUCTS_OF_QUERY = 200_000_000, 5_000


def unit_rows(x: Any, centre: Tensor | None = None) -> Any:
    """Rows of length 1, for cosines; dense rows less ``centre`` first. All-zero rows stay zero."""
    if not isinstance(x, Tensor):
        length = np.sqrt(np.asarray(x.multiply(x).sum(1)))
        return sparse.csr_matrix(x.multiply(1 / np.where(length == 0, 1, length)), dtype=np.float32)
    dense = x.flatten(1).float()
    return torch.nn.functional.normalize(dense if centre is None else dense - centre, dim=1)


def nearest_rows(queries: Any, references: Any, most: int) -> Tensor:
    """The numbers ``(n, most)`` of the references that are most similar to each query, the most similar first.

    Both are what ``unit_rows`` made.
    """
    rows, most = queries.shape[0], min(most, references.shape[0])
    near = torch.empty(rows, most, dtype=torch.int32)
    if not isinstance(references, Tensor):
        queries, references = _without_common(queries, references)
    size = max(_FEWEST, _BUDGET // max(1, references.shape[0]))
    alike_to = _product_with(references)
    for start in range(0, rows, size):
        near[start : start + size] = alike_to(queries[start : start + size]).topk(most, dim=1).indices
    return near


def _product_with(references: Any) -> Callable[[Any], Tensor]:
    """The dense ``rows @ references.T`` of some rows."""
    if isinstance(references, Tensor):
        return lambda rows: rows @ references.T
    across = references.T
    if not torch.backends.mkl.is_available():
        return lambda rows: torch.from_numpy((rows @ across).toarray())
    # MKL writes a dense product at once, in a third of the time that SciPy takes to make a sparse one first.
    known, nothing = sparse_batch(across.tocsr()), torch.zeros(1, references.shape[0])
    return lambda rows: torch.addmm(nothing, sparse_batch(rows), known)


def _without_common(queries: Any, references: Any) -> tuple[Any, Any]:
    """The rows without the columns that make most of the work, if it is much.

    These are words that nearly every text has, and that say little: of 15,000 passages of reviews, words of more than
    5% of them make 80% of the time, and without them the neighbours' log-loss is 0.668 in place of 0.667.
    """
    uses, kept = (np.bincount(rows.indices, minlength=rows.shape[1]) for rows in (queries, references))
    work = uses.astype(np.int64) * kept
    order = work.argsort(kind="stable")
    few = work[order].cumsum() <= max(_PRODUCTS, _PRODUCTS_OF_QUERY * queries.shape[0])
    if few.all():
        return queries, references
    columns = np.sort(order[few])
    return queries[:, columns], references[:, columns]


def votes_of_neighbours(near: Tensor, labels: Tensor, allowed: Tensor, k: int) -> Tensor:
    """The mean of the labels ``(r, C)`` of the ``k`` first references of each query that are ``allowed (r,)``.

    One pseudo-neighbour that does not know keeps every class possible.
    """
    if not near.shape[1]:
        return torch.full((len(near), labels.shape[1]), 1 / labels.shape[1])
    known = allowed[near]
    used = known & (known.cumsum(1, dtype=torch.int16) <= k)
    total = torch.nn.functional.embedding_bag(near, labels.float(), mode="sum", per_sample_weights=used.float())
    return (total + 1 / labels.shape[1]) / (used.sum(1, keepdim=True) + 1)
