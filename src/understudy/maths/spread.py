"""k-means++ and farthest-first on factored rows: the plain algorithms exactly, without a pass per pick.

Both repeat: find each row's squared distance Dᵢ to its nearest pick so far, then pick. k-means++ (Arthur and
Vassilvitskii 2007) draws row i with probability Dᵢ / Σ D; farthest-first (greedy k-centre, Gonzalez 1985)
takes the largest Dᵢ. Done plainly, every pick reads all rows from memory again. A new pick can only lower Dᵢ,
so an old Dᵢ is an upper bound, and that is enough:

- k-means++: draw a candidate in proportion to the old Dᵢ and accept it with probability true Dᵢ / old Dᵢ.
  This is rejection sampling, so accepted rows follow the true distribution. True distances are needed for
  candidates only.
- farthest-first: evaluate the rows with the largest bounds. One whose true Dᵢ is no less than every other
  bound is the farthest row.

All bounds are refreshed with one matrix product over a whole block of picks, as soon as a block has examined
N / 8 candidates: work wasted on stale bounds never exceeds a fixed multiple of the refreshes' own. The first
pick, and any pick where no distance is left (duplicates, zero rows), differ from the textbook: the row with
the largest norm comes first (as in BADGE), and where every D is 0 the rest is drawn uniformly, so that there
are always exactly n distinct rows.

    picks = kmeans_plus_plus(factored(hidden), 100, available=free, generator=torch.Generator().manual_seed(0))

Rows may lie in parts (the shards of a pool): a candidate is drawn by the part's sum of bounds, then by its own, which
is a draw from all rows; rows drawn uniformly come in the order of ``maths/random_order.py``.

Rows are outer products, gᵢ = aᵢ ⊗ hᵢ, and none is ever built: ⟨gᵢ, gⱼ⟩ = ⟨aᵢ, aⱼ⟩⟨hᵢ, hⱼ⟩, so
‖gᵢ − gⱼ‖² = ‖gᵢ‖² + ‖gⱼ‖² − 2⟨aᵢ, aⱼ⟩⟨hᵢ, hⱼ⟩ costs C + d products instead of C·d: a BADGE embedding (Ash et al. 2020)
of 50,000 × 10 × 512 numbers stays 50,000 × (10 + 512). The formula cancels when two rows are close: in float32 the
difference of two norms of 1 is off by about 1e-6, so a duplicate would keep a small distance. Close pairs (0.8% of
the squared norm in float32, where the formula is good to about 1e-4) are computed again from δ = aᵢ − aⱼ, η = hᵢ − hⱼ
and the midpoints ā, h̄: gᵢ − gⱼ = δ ⊗ h̄ + ā ⊗ η is an identity, and gives exactly 0 for duplicates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from understudy.errors import UnderstudyError
from understudy.maths.random_order import draw_key, uniform

_REFRESH_SHARE = 1 / 8  # of the rows examined as candidates before all bounds are refreshed
_PAIRS_AT_ONCE = 1024  # 2 MB for each temporary at d = 512
_CHUNK_NUMBERS = 2**18  # a chunk of distances is 1 MB in float32: it stays in the second-level cache
_LARGEST_BATCH = 256  # k-means++ candidates at once; among many duplicates, all their pairs are close


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
        right, norms = ((self.right, other.right), (self.squared_norms, other.squared_norms))
        return Factored(left, torch.cat(right), torch.cat(norms))

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
        row = int(too_large.nonzero()[0])
        raise UnderstudyError(f"embedding row {row} does not fit into {right.dtype}; remove NaN, or scale it down")
    return Factored(left, right, squared_norms)


class RowVectors(Protocol):
    """A vector for each row, in one part (``Factored``) or in several (``parallel/shard_scores.py``)."""

    @property
    def parts(self) -> Sequence[slice]: ...

    def take(self, index: Tensor) -> Factored: ...

    def map(self, function: Callable[[Factored, Tensor], Tensor], values: Tensor) -> Iterator[tuple[slice, Tensor]]:
        """The function of every part's vectors and of its stretch of ``values``."""
        ...

    def zeros(self) -> Tensor:
        """One for each row, of the vectors' type."""
        ...


def kmeans_plus_plus(rows: RowVectors, n: int, *, available: Tensor, generator: torch.Generator) -> Tensor:
    """n distinct row numbers in the order picked: the largest ‖gᵢ‖², then draws by Dᵢ / Σ D.

    `available` (N,) bool: the rows that may be picked, n at least.
    """
    picking = _Picking(rows, n, available)
    picking.start_at_largest()
    while picking.missing > 0:
        total = picking.weigh()
        if total == 0:
            picking.finish_uniformly(generator)
        else:
            _draw_block(picking, total, generator)
            if picking.missing > 0:
                picking.refresh()
    return torch.tensor(list(picking.picks), dtype=torch.long)


def _draw_block(picking: _Picking, total: float, generator: torch.Generator) -> None:
    """Draw candidates from stale bounds until enough are accepted or the refresh is due."""
    tried = accepted = 0
    while picking.missing > 0 and tried < _REFRESH_SHARE * len(picking.bound):
        expected = 1.25 * picking.missing * (tried + 1) / (accepted + 1)
        size = min(max(int(expected), 16), _LARGEST_BATCH)
        quantile, chance = torch.rand(2, size, generator=generator, dtype=torch.float64)
        index = picking.located(quantile * total)
        accepted += _accept_in_order(picking, index, chance * picking.bound[index])
        tried += size


def _accept_in_order(picking: _Picking, index: Tensor, threshold: Tensor) -> int:
    """Go through the candidates one by one; each acceptance lowers the true distances of those after it."""
    vectors = picking.rows.take(index)
    true = picking.true_distances(index, vectors)
    alive = (threshold < true).nonzero().squeeze(1)  # distances only fall: a candidate rejected now stays so
    if len(alive) == 0:
        return 0
    candidates = vectors.take(alive)
    mutual = squared_distances(candidates, candidates).numpy()
    nearest = true[alive].numpy()  # numpy: a comparison of two numbers costs a tenth of torch's
    accepted: list[int] = []
    for position, (row, needed) in enumerate(zip(index[alive].tolist(), threshold[alive].tolist(), strict=True)):
        if picking.missing > 0 and needed < nearest[position] and row not in picking.picks:
            picking.take(row)
            accepted.append(position)
            nearest = np.minimum(nearest, mutual[position])
    picking.await_refresh(candidates, accepted)
    return len(accepted)


def farthest_first(
    rows: RowVectors, n: int, *, available: Tensor, centres: Tensor, generator: torch.Generator
) -> Tensor:
    """n distinct available row numbers, each the farthest from all before it and from the centres.

    `centres`: row numbers; without any, the row with the largest norm is first. `generator` serves only rows at
    distance 0.
    """
    picking = _Picking(rows, n, available)
    if len(centres):
        picking.bound.fill_(torch.inf)
        picking.pending = rows.take(centres)
    else:
        picking.start_at_largest()
    picking.refresh()
    # A search for the largest bounds reads all N of them: at least 1/256 of the rows are examined each time.
    size = len(picking.bound)
    batch = min(max(size // 256, 256), 4096)
    tried = 0
    while picking.missing > 0:
        if tried >= _REFRESH_SHARE * size and picking.pending is not None:
            picking.refresh()
            tried = 0
        values, index = picking.largest(min(batch + 1, size))
        if values[0] == 0:
            picking.finish_uniformly(generator)
            break
        floor = values[batch] if len(values) > batch else values.new_zeros(())
        _take_while_above(picking, index[:batch], floor)
        tried += batch
    return torch.tensor(list(picking.picks), dtype=torch.long)


def _take_while_above(picking: _Picking, index: Tensor, floor: Tensor) -> None:
    """Take the farthest of the candidates as long as no other row can be farther than `floor`."""
    candidates = picking.rows.take(index)
    true = picking.true_distances(index, candidates)
    taken: list[int] = []
    while picking.missing > 0:
        best = int(true.argmax())
        if true[best] < floor or true[best] == 0:
            break
        picking.take(int(index[best]))
        taken.append(best)
        true = torch.minimum(true, squared_distances(candidates, candidates.take(slice(best, best + 1))).squeeze(1))
        true[best] = 0
    picking.await_refresh(candidates, taken)
    picking.bound[index] = true


class _Picking:
    """The picks so far, and for every row an upper bound on its squared distance to the nearest of them.

    `pending` are the vectors of the picks (or centres) that the bounds do not know yet. Rows that cannot be picked have
    bound 0.
    """

    def __init__(self, rows: RowVectors, n: int, available: Tensor) -> None:
        self.rows, self.n, self.free, self.bound = rows, n, available.clone(), rows.zeros()
        self.picks: dict[int, None] = {}
        self.pending: Factored | None = None
        #: Sums of the bounds' parts, and the running sum within the part that was last looked at.
        self.totals, self._running = torch.zeros(0, dtype=torch.float64), (-1, torch.zeros(0))

    @property
    def missing(self) -> int:
        return self.n - len(self.picks)

    def take(self, row: int) -> None:
        self.picks[row] = None
        self.free[row] = False

    def await_refresh(self, candidates: Factored, taken: list[int]) -> None:
        """The candidates at these positions were taken."""
        if taken:
            vectors = candidates.take(torch.tensor(taken))
            self.pending = vectors if self.pending is None else self.pending.followed_by(vectors)

    def refresh(self) -> None:
        """Bring every bound up to date with the pending picks: one matrix product for the whole block."""
        if self.pending is not None:
            self._set_all(partial(nearest_centre, self.pending))
            self.pending = None

    def _set_all(self, function: Callable[[Factored, Tensor], Tensor]) -> None:
        for part, values in self.rows.map(function, self.bound):
            self.bound[part] = values
        self.bound.masked_fill_(~self.free, 0)

    def true_distances(self, index: Tensor, vectors: Factored) -> Tensor:
        """Squared distances to the nearest pick, for a few rows: their bounds, brought up to date."""
        known = self.bound[index]
        return known if self.pending is None else nearest_centre(self.pending, vectors, known)

    def start_at_largest(self) -> None:
        """Take the row of largest size; ‖g − g₀‖ ≤ ‖g‖ + ‖g₀‖ bounds the rest without reading a row."""
        if self.missing == 0:
            return
        self._set_all(_squared_norms)
        parts = [(part.start, self.bound[part]) for part in self.rows.parts]
        size, first = max((float(bound.max()), -start - int(bound.argmax())) for start, bound in parts)
        if size > 0:
            self.take(-first)
            self.await_refresh(self.rows.take(torch.tensor([-first])), [0])
            norm = self.bound[-first].sqrt()
            for part in self.rows.parts:
                self.bound[part] = (self.bound[part].sqrt() + norm).square()
            self.bound.masked_fill_(~self.free, 0)

    def _running_sum(self, part: int) -> Tensor:
        if self._running[0] != part:
            self._running = part, self.bound[self.rows.parts[part]].double().cumsum(0)
        return self._running[1]

    def weigh(self) -> float:
        """The sum of all chances, as the bounds are now."""
        self._running = -1, self.totals
        self.totals = torch.stack([self._running_sum(part)[-1] for part in range(len(self.rows.parts))])
        return float(self.totals.sum())

    def located(self, mass: Tensor) -> Tensor:
        """The rows at which the chances, added up row after row, exceed these sums."""
        ends = self.totals.cumsum(0)
        # right=True never lands on a row without mass; rounding up to the total would land past the end.
        homes = torch.searchsorted(ends, mass, right=True).clamp_(max=len(ends) - 1)
        index = torch.empty(len(mass), dtype=torch.long)
        for number in homes.unique().tolist():
            here, part = homes == number, self.rows.parts[number]
            rest = mass[here] - (ends[number] - self.totals[number])
            place = torch.searchsorted(self._running_sum(number), rest, right=True)
            index[here] = (part.start + place).clamp_(max=part.stop - 1)
        return index

    def largest(self, count: int) -> tuple[Tensor, Tensor]:
        """The largest bounds, in falling order, and their rows."""
        found = [(part.start, self.bound[part].topk(min(count, part.stop - part.start))) for part in self.rows.parts]
        values = torch.cat([top.values for _, top in found])
        index = torch.cat([start + top.indices for start, top in found])
        order = values.argsort(descending=True, stable=True)[:count]
        return values[order], index[order]

    def finish_uniformly(self, generator: torch.Generator) -> None:
        for row in uniform(self.rows.parts, self.missing, available=self.free, key=draw_key(generator)).tolist():
            self.take(row)


def _squared_norms(rows: Factored, values: Tensor) -> Tensor:
    return rows.squared_norms


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
    by_a = a_difference.square().sum(1) * h_middle.square().sum(1)
    by_h = a_middle.square().sum(1) * h_difference.square().sum(1)
    return by_a + by_h + 2 * cross
