"""What a row's nearest neighbours are labelled: a label source that trains nothing and memorises nothing.

votes_of_neighbours(unit_rows(x), unit_rows(known), labels, [10])[10]     # (n, C): mean label of the 10 most similar
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

# Similarities held at a time: 64 MB as float32.
_BUDGET = 1 << 24


def unit_rows(x: Any, centre: Tensor | None = None) -> Any:
    """Rows of length 1, for cosines; dense rows less ``centre`` first. All-zero rows stay zero."""
    if not isinstance(x, Tensor):
        length = np.sqrt(np.asarray(x.multiply(x).sum(1)))
        return sparse.csr_matrix(x.multiply(1 / np.where(length == 0, 1, length)), dtype=np.float32)
    dense = x.flatten(1).float()
    return torch.nn.functional.normalize(dense if centre is None else dense - centre, dim=1)


def votes_of_neighbours(queries: Any, references: Any, labels: Tensor, ks: Sequence[int]) -> dict[int, Tensor]:
    """For each k, ``(n, C)``: the mean of the labels ``(r, C)`` of the k references most similar to each query.

    Both are what ``unit_rows`` made. One pseudo-neighbour that does not know keeps every class possible.
    """
    rows, classes = queries.shape[0], labels.shape[1]
    most = min(max(ks), references.shape[0])
    votes = {k: torch.empty(rows, classes) for k in ks}
    size = max(1, _BUDGET // max(1, references.shape[0]))
    for start in range(0, rows, size):
        part = slice(start, min(start + size, rows))
        alike = queries[part] @ references.T
        if not isinstance(alike, Tensor):
            alike = torch.from_numpy(alike.toarray())
        near = labels[alike.topk(most, dim=1).indices].float()
        for k in ks:
            nearest = near[:, : min(k, most)]
            votes[k][part] = (nearest.sum(1) + 1 / classes) / (nearest.shape[1] + 1)
    return votes
