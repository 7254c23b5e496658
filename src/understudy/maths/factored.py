"""Rows that are outer products, gᵢ = aᵢ ⊗ hᵢ, and the distances between them, without building any g.

⟨gᵢ, gⱼ⟩ = ⟨aᵢ, aⱼ⟩⟨hᵢ, hⱼ⟩, so ‖gᵢ − gⱼ‖² = ‖gᵢ‖² + ‖gⱼ‖² − 2⟨aᵢ, aⱼ⟩⟨hᵢ, hⱼ⟩ costs C + d products instead of
C·d: a BADGE embedding (Ash et al. 2020) of 50,000 × 10 × 512 numbers stays 50,000 × (10 + 512).

That formula cancels when two rows are close: in float32 the difference of two norms of 1 is off by about
1e-6, so a duplicate would be left with a small positive (or negative) distance. Close pairs are therefore
computed again from the differences δ = aᵢ − aⱼ, η = hᵢ − hⱼ and the midpoints ā, h̄: gᵢ − gⱼ = δ ⊗ h̄ + ā ⊗ η
is an identity, and gives exactly 0 for duplicates. "Close" is 0.8% of the squared norm in float32, where the
plain formula is good to about 1e-4.

    rows = factored(hidden, left=probs - one_hot)       # left=None: plain rows, g = h
    squared_distances(rows, rows.take(picks))           # (N, len(picks))
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from understudy.errors import UnderstudyError

_PAIRS_AT_ONCE = 1024  # 2 MB for each temporary at d = 512
_CHUNK_NUMBERS = 2**18  # a chunk of distances is 1 MB in float32: it stays in the second-level cache


@dataclass(frozen=True, slots=True)
class Factored:
    """N rows aᵢ ⊗ hᵢ: `left` holds a (N, C), or None for a = 1; `right` holds h (N, d)."""

    left: Tensor | None
    right: Tensor
    squared_norms: Tensor

    def __len__(self) -> int:
        return len(self.right)

    def take(self, index: Tensor | slice) -> Factored:
        left = None if self.left is None else self.left[index]
        return Factored(left, self.right[index], self.squared_norms[index])

    def followed_by(self, other: Factored) -> Factored:
        left = None if self.left is None or other.left is None else torch.cat([self.left, other.left])
        return Factored(
            left, torch.cat([self.right, other.right]), torch.cat([self.squared_norms, other.squared_norms])
        )

    @property
    def parts(self) -> list[slice]:
        """All rows are in one."""
        return [slice(0, len(self))]

    def map(self, function: Callable[[Factored, Tensor], Tensor], values: Tensor) -> Iterator[tuple[slice, Tensor]]:
        yield self.parts[0], function(self, values)

    def zeros(self) -> Tensor:
        return torch.zeros_like(self.squared_norms)


def factored(right: Tensor, *, left: Tensor | None = None) -> Factored:
    """Rows left ⊗ right with their squared norms. A per-row scale belongs into `left` (C = 1 will do)."""
    squared_norms = torch.linalg.vector_norm(right, dim=1).square()
    if left is not None:
        squared_norms *= torch.linalg.vector_norm(left, dim=1).square()
    # A squared distance may be four times the largest squared norm. NaN is not below the limit either.
    too_large = ~(squared_norms < torch.finfo(squared_norms.dtype).max / 8)
    if bool(too_large.any()):
        raise UnderstudyError(
            f"the squared norm of embedding row {int(too_large.nonzero()[0])} does not fit into {right.dtype}: "
            "remove NaN and infinite values, or scale the features down"
        )
    return Factored(left, right, squared_norms)


def squared_distances(rows: Factored, centres: Factored) -> Tensor:
    """‖gᵢ − gⱼ‖² for every row i and centre j, (R, B); never negative, exactly 0 for duplicates."""
    distances = _expanded(rows, centres)
    _repair(distances, rows, centres, distances < _close(rows)[:, None])
    return distances.clamp_min_(0)


def nearest_centre(centres: Factored, rows: Factored, bound: Tensor) -> Tensor:
    """min(boundᵢ, squared distance to the nearest centre), (N,): one pass, in cache-sized chunks."""
    nearest = bound.clone()
    size = min(max(_CHUNK_NUMBERS // len(centres), 256), 4096)
    for start in range(0, len(rows), size):
        chunk = slice(start, start + size)
        part, known = rows.take(chunk), nearest[chunk]
        smallest = _expanded(part, centres).amin(1)
        # Close to a centre, and perhaps closer than what is known already (2⁸ eps covers the rounding).
        slack = 2**8 * torch.finfo(smallest.dtype).eps * part.squared_norms
        suspect = (smallest < _close(part)) & (smallest < known + slack) & (known > 0)
        if bool(suspect.any()):
            smallest[suspect] = _careful_minimum(part.take(suspect), centres).to(smallest.dtype)
        torch.minimum(known, smallest.clamp_min_(0), out=known)
    return nearest


def _expanded(rows: Factored, centres: Factored) -> Tensor:
    """‖gᵢ‖² + ‖gⱼ‖² − 2⟨gᵢ, gⱼ⟩, (R, B): one matrix product per factor; poor where rows are close."""
    distances = rows.right @ centres.right.T
    if rows.left is not None and centres.left is not None:
        distances *= rows.left @ centres.left.T
    return distances.mul_(-2).add_(centres.squared_norms).add_(rows.squared_norms[:, None])


def _close(rows: Factored) -> Tensor:
    """Squared distances below 2¹⁶ eps ‖gᵢ‖² have lost too many digits in `_expanded`."""
    return 2**16 * torch.finfo(rows.squared_norms.dtype).eps * rows.squared_norms


def _repair(distances: Tensor, rows: Factored, centres: Factored, wrong: Tensor) -> None:
    """Compute the entries marked `wrong` from differences, in place."""
    row, column = wrong.nonzero(as_tuple=True)
    for i, j in zip(torch.split(row, _PAIRS_AT_ONCE), torch.split(column, _PAIRS_AT_ONCE), strict=True):
        distances[i, j] = _paired_squared_distances(rows.take(i), centres.take(j))


def _careful_minimum(rows: Factored, centres: Factored) -> Tensor:
    """Squared distance to the nearest centre, (R,), for rows known to be close to one.

    Features of a well-trained net collapse to one point per class, so this may be all rows times many
    centres: one float64 product costs two float32 ones, where differences of all pairs would cost thirty.
    """
    rows, centres = _double(rows), _double(centres)
    distances = _expanded(rows, centres)
    closest = distances.argmin(1)
    smallest = _paired_squared_distances(rows, centres.take(closest))
    # A duplicate is done: nothing is nearer than 0. Others may have several centres within float64's
    # rounding.
    wrong = (distances < _close(rows)[:, None]) & (smallest > 0)[:, None]
    _repair(distances, rows, centres, wrong)
    return torch.minimum(smallest, distances.amin(1)).clamp_min_(0)


def _double(rows: Factored) -> Factored:
    return factored(rows.right.double(), left=None if rows.left is None else rows.left.double())


def _paired_squared_distances(x: Factored, y: Factored) -> Tensor:
    """‖gᵢ − g'ᵢ‖² row by row, (P,), from differences: ‖δ ⊗ h̄ + ā ⊗ η‖² by its three inner products."""
    h_difference = x.right - y.right
    if x.left is None or y.left is None:
        return h_difference.square().sum(1)
    a_difference = x.left - y.left
    a_middle, h_middle = (x.left + y.left) / 2, (x.right + y.right) / 2
    cross = (a_difference * a_middle).sum(1) * (h_difference * h_middle).sum(1)
    return (
        a_difference.square().sum(1) * h_middle.square().sum(1)
        + a_middle.square().sum(1) * h_difference.square().sum(1)
        + 2 * cross
    )
