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

    rows = factored(hidden, left=probs - one_hot)
    picks = kmeans_plus_plus(rows, 100, generator=torch.Generator().manual_seed(0))
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from understudy.errors import UnderstudyError
from understudy.maths.factored_rows import Factored, factored, nearest_centre, squared_distances

__all__ = ["Factored", "factored", "farthest_first", "kmeans_plus_plus", "squared_distances"]

_REFRESH_SHARE = 1 / 8  # of the rows examined as candidates before all bounds are refreshed
_LARGEST_BATCH = 256  # k-means++ candidates at once; among many duplicates, all their pairs are close


def kmeans_plus_plus(
    rows: Factored,
    n: int,
    *,
    generator: torch.Generator,
    available: Tensor | None = None,
    weights: Tensor | None = None,
) -> Tensor:
    """n distinct row numbers in the order picked: the largest weightᵢ ‖gᵢ‖², then draws by weightᵢ Dᵢ / Σ.

    `available` (N,) bool: the rows that may be picked. `weights` (N,): how many times a row counts. They
    multiply the chances, not the distances.
    """
    picking = _Picking(rows, n, available)
    picking.start_at_largest(rows.squared_norms if weights is None else rows.squared_norms * weights)
    while picking.missing > 0:
        mass = picking.bound.double() if weights is None else picking.bound.double() * weights
        cumulative = mass.cumsum(0)
        if cumulative[-1] == 0:
            picking.finish_uniformly(generator)
        else:
            _draw_block(picking, cumulative, generator)
            if picking.missing > 0:
                picking.refresh()
    return picking.result()


def _draw_block(picking: _Picking, cumulative: Tensor, generator: torch.Generator) -> None:
    """Draw candidates from stale bounds until enough are accepted or the refresh is due."""
    tried = accepted = 0
    while picking.missing > 0 and tried < _REFRESH_SHARE * len(picking.rows):
        expected = 1.25 * picking.missing * (tried + 1) / (accepted + 1)
        size = min(max(int(expected), 16), _LARGEST_BATCH)
        quantile, chance = torch.rand(2, size, generator=generator, dtype=torch.float64)
        # right=True never lands on a row without mass; rounding up to the total would land past the end.
        index = torch.searchsorted(cumulative, quantile * cumulative[-1], right=True).clamp_(max=len(cumulative) - 1)
        threshold = chance * picking.bound[index]
        accepted += _accept_in_order(picking, index, threshold)
        tried += size


def _accept_in_order(picking: _Picking, index: Tensor, threshold: Tensor) -> int:
    """Go through the candidates one by one; each acceptance lowers the true distances of those after it."""
    true = picking.true_distances(index)
    alive = (threshold < true).nonzero().squeeze(1)  # distances only fall: a candidate rejected now stays so
    if len(alive) == 0:
        return 0
    candidates = picking.rows.take(index[alive])
    mutual = squared_distances(candidates, candidates).numpy()
    nearest = true[alive].numpy()  # numpy: a comparison of two numbers costs a tenth of torch's
    before = picking.missing
    for position, (row, needed) in enumerate(zip(index[alive].tolist(), threshold[alive].tolist(), strict=True)):
        if picking.missing > 0 and needed < nearest[position] and picking.free[row]:
            picking.take(row)
            nearest = np.minimum(nearest, mutual[position])
    return before - picking.missing


def farthest_first(
    rows: Factored,
    n: int,
    *,
    generator: torch.Generator,
    centres: Tensor | None = None,
    available: Tensor | None = None,
) -> Tensor:
    """n distinct row numbers, each the farthest from all before it and from the centres.

    `centres`: row numbers, never picked; without any, the row with the largest norm is first. `generator`
    serves only rows at distance 0.
    """
    picking = _Picking(rows, n, available)
    if centres is not None and len(centres) > 0:
        picking.start_from(centres)
    else:
        picking.start_at_largest(rows.squared_norms)
        picking.refresh()
    # A search for the largest bounds reads all N of them: at least 1/256 of the rows are examined each time.
    batch = min(max(len(rows) // 256, 256), 4096)
    tried = 0
    while picking.missing > 0:
        if tried >= _REFRESH_SHARE * len(rows) and picking.pending:
            picking.refresh()
            tried = 0
        largest = picking.bound.topk(min(batch + 1, len(rows)))
        if largest.values[0] == 0:
            picking.finish_uniformly(generator)
            break
        floor = largest.values[batch] if len(largest.values) > batch else largest.values.new_zeros(())
        _take_while_above(picking, largest.indices[:batch], floor)
        tried += batch
    return picking.result()


def _take_while_above(picking: _Picking, index: Tensor, floor: Tensor) -> None:
    """Take the farthest of the candidates as long as no other row can be farther than `floor`."""
    true = picking.true_distances(index)
    candidates = picking.rows.take(index)
    while picking.missing > 0:
        best = int(true.argmax())
        if true[best] < floor or true[best] == 0:
            break
        picking.take(int(index[best]))
        to_best = squared_distances(candidates, candidates.take(slice(best, best + 1)))
        true = torch.minimum(true, to_best.squeeze(1))
        true[best] = 0
    picking.bound[index] = true


class _Picking:
    """The picks so far, and for every row an upper bound on its squared distance to the nearest of them.

    `pending` are the picks (or centres) that the bounds do not know yet. Rows that cannot be picked have
    bound 0.
    """

    def __init__(self, rows: Factored, n: int, available: Tensor | None) -> None:
        self.rows = rows
        self.n = n
        self.free = torch.ones(len(rows), dtype=torch.bool) if available is None else available.clone()
        self.bound = torch.zeros_like(rows.squared_norms)
        self.picks: list[int] = []
        self.pending: list[int] = []
        left = int(self.free.sum())
        if not 0 <= n <= left:
            raise UnderstudyError(f"n = {n} rows asked for, {left} can be picked: ask for 0 to {left}")

    @property
    def missing(self) -> int:
        return self.n - len(self.picks)

    def take(self, row: int) -> None:
        self.picks.append(row)
        self.pending.append(row)
        self.free[row] = False

    def start_at_largest(self, size: Tensor) -> None:
        """Take the row of largest size; ‖g − g₀‖ ≤ ‖g‖ + ‖g₀‖ bounds the rest without reading a row."""
        if self.missing == 0:
            return
        first = int(torch.where(self.free, size, -1).argmax())
        if size[first] > 0:
            self.take(first)
            norms = self.rows.squared_norms.sqrt()
            self.bound = (norms + norms[first]).square().mul_(self.free)

    def start_from(self, centres: Tensor) -> None:
        self.free[centres] = False
        if self.n > int(self.free.sum()):
            raise UnderstudyError(f"n = {self.n} rows asked for, {int(self.free.sum())} are neither taken nor centres")
        self.pending = centres.tolist()
        self.bound.fill_(torch.inf)
        self.refresh()

    def refresh(self) -> None:
        """Bring every bound up to date with the pending picks: one matrix product for the whole block."""
        if not self.pending:
            return
        centres = self.rows.take(torch.tensor(self.pending))
        self.bound = nearest_centre(self.rows, centres, self.bound).mul_(self.free)
        self.pending.clear()

    def true_distances(self, index: Tensor) -> Tensor:
        """Squared distances to the nearest pick, for a few rows: their bounds, brought up to date."""
        if not self.pending:
            return self.bound[index]
        centres = self.rows.take(torch.tensor(self.pending))
        return nearest_centre(self.rows.take(index), centres, self.bound[index])

    def finish_uniformly(self, generator: torch.Generator) -> None:
        rest = self.free.nonzero().squeeze(1)
        for row in rest[torch.randperm(len(rest), generator=generator)[: self.missing]].tolist():
            self.take(row)

    def result(self) -> Tensor:
        return torch.tensor(self.picks, dtype=torch.long)
