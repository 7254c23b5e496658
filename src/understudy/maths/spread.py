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

    picks = kmeans_plus_plus(factored(hidden), 100, generator=torch.Generator().manual_seed(0))
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import torch
from torch import Tensor

from understudy.errors import UnderstudyError
from understudy.maths.factored import Factored, nearest_centre, squared_distances
from understudy.maths.random_order import draw_key, random_keys

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
    return draw_apart(_InMemory(rows, n, available, weights), generator)


def draw_apart(picking: Picking, generator: torch.Generator) -> Tensor:
    """k-means++ on rows wherever they lie."""
    picking.start_at_largest()
    while picking.missing > 0:
        total = picking.weigh()
        if total == 0:
            picking.finish_uniformly(generator)
        else:
            _draw_block(picking, total, generator)
            if picking.missing > 0:
                picking.refresh()
    return torch.tensor(picking.picks, dtype=torch.long)


def _draw_block(picking: Picking, total: float, generator: torch.Generator) -> None:
    """Draw candidates from stale bounds until enough are accepted or the refresh is due."""
    tried = accepted = 0
    while picking.missing > 0 and tried < _REFRESH_SHARE * picking.size:
        expected = 1.25 * picking.missing * (tried + 1) / (accepted + 1)
        size = min(max(int(expected), 16), _LARGEST_BATCH)
        quantile, chance = torch.rand(2, size, generator=generator, dtype=torch.float64)
        index = picking.located(quantile * total)
        threshold = chance * picking.bounds(index)
        accepted += _accept_in_order(picking, index, threshold)
        tried += size


def _accept_in_order(picking: Picking, index: Tensor, threshold: Tensor) -> int:
    """Go through the candidates one by one; each acceptance lowers the true distances of those after it."""
    true = picking.true_distances(index)
    alive = (threshold < true).nonzero().squeeze(1)  # distances only fall: a candidate rejected now stays so
    if len(alive) == 0:
        return 0
    candidates = picking.vectors(index[alive])
    mutual = squared_distances(candidates, candidates).numpy()
    nearest = true[alive].numpy()  # numpy: a comparison of two numbers costs a tenth of torch's
    before = picking.missing
    for position, (row, needed) in enumerate(zip(index[alive].tolist(), threshold[alive].tolist(), strict=True)):
        if picking.missing > 0 and needed < nearest[position] and row not in picking.taken:
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
    return take_farthest(_InMemory(rows, n, available), generator, centres)


def take_farthest(picking: Picking, generator: torch.Generator, centres: Tensor | None = None) -> Tensor:
    """Farthest-first on rows wherever they lie."""
    if centres is not None and len(centres) > 0:
        picking.start_from(centres)
    else:
        picking.start_at_largest()
        picking.refresh()
    # A search for the largest bounds reads all N of them: at least 1/256 of the rows are examined each time.
    batch = min(max(picking.size // 256, 256), 4096)
    tried = 0
    while picking.missing > 0:
        if tried >= _REFRESH_SHARE * picking.size and picking.pending:
            picking.refresh()
            tried = 0
        values, index = picking.largest(min(batch + 1, picking.size))
        if values[0] == 0:
            picking.finish_uniformly(generator)
            break
        floor = values[batch] if len(values) > batch else values.new_zeros(())
        _take_while_above(picking, index[:batch], floor)
        tried += batch
    return torch.tensor(picking.picks, dtype=torch.long)


def _take_while_above(picking: Picking, index: Tensor, floor: Tensor) -> None:
    """Take the farthest of the candidates as long as no other row can be farther than `floor`."""
    true = picking.true_distances(index)
    candidates = picking.vectors(index)
    while picking.missing > 0:
        best = int(true.argmax())
        if true[best] < floor or true[best] == 0:
            break
        picking.take(int(index[best]))
        to_best = squared_distances(candidates, candidates.take(slice(best, best + 1)))
        true = torch.minimum(true, to_best.squeeze(1))
        true[best] = 0
    picking.lower(index, true)


class Picking(ABC):
    """The picks so far, and for every row an upper bound on its squared distance to the nearest of them.

    `pending` are the picks (or centres) that the bounds do not know yet. Rows that cannot be picked have
    bound 0. Where rows and bounds lie is for the classes below to say, and for `parallel/shard_strategies.py`.
    """

    def __init__(self, size: int, n: int, left: int) -> None:
        self.size, self.n = size, n
        self.picks: list[int] = []
        self.taken: set[int] = set()
        self.pending: list[int] = []
        if not 0 <= n <= left:
            raise UnderstudyError(f"n = {n} rows requested, {left} can be picked: request 0 to {left}")

    @property
    def missing(self) -> int:
        return self.n - len(self.picks)

    def take(self, row: int) -> None:
        self.picks.append(row)
        self.taken.add(row)
        self.pending.append(row)

    @abstractmethod
    def vectors(self, index: Tensor) -> Factored: ...

    @abstractmethod
    def bounds(self, index: Tensor) -> Tensor: ...

    @abstractmethod
    def lower(self, index: Tensor, bounds: Tensor) -> None:
        """Set the bounds of some rows."""

    @abstractmethod
    def lower_all(self, centres: Factored) -> None:
        """Bring every bound up to date with these centres."""

    @abstractmethod
    def start_at_largest(self) -> None:
        """Take the row of largest size; ‖g − g₀‖ ≤ ‖g‖ + ‖g₀‖ bounds the rest without reading a row."""

    @abstractmethod
    def start_from(self, centres: Tensor) -> None: ...

    @abstractmethod
    def weigh(self) -> float:
        """The sum of all chances, as the bounds are now."""

    @abstractmethod
    def located(self, mass: Tensor) -> Tensor:
        """The rows at which the chances, added up row after row, exceed these sums."""

    @abstractmethod
    def largest(self, count: int) -> tuple[Tensor, Tensor]:
        """The largest bounds, in falling order, and their rows."""

    @abstractmethod
    def free_rows(self, key: int, count: int) -> Tensor:
        """The first of the rows that can be picked, in the random order of this key."""

    def refresh(self) -> None:
        """Bring every bound up to date with the pending picks: one matrix product for the whole block."""
        if self.pending:
            self.lower_all(self.vectors(torch.tensor(self.pending)))
            self.pending.clear()

    def true_distances(self, index: Tensor) -> Tensor:
        """Squared distances to the nearest pick, for a few rows: their bounds, brought up to date."""
        if not self.pending:
            return self.bounds(index)
        return nearest_centre(self.vectors(index), self.vectors(torch.tensor(self.pending)), self.bounds(index))

    def finish_uniformly(self, generator: torch.Generator) -> None:
        for row in self.free_rows(draw_key(generator), self.missing).tolist():
            self.take(row)


class _InMemory(Picking):
    def __init__(self, rows: Factored, n: int, available: Tensor | None, weights: Tensor | None = None) -> None:
        self.rows, self.weights = rows, weights
        self.free = torch.ones(len(rows), dtype=torch.bool) if available is None else available.clone()
        self.bound = torch.zeros_like(rows.squared_norms)
        self.cumulative = torch.zeros(0, dtype=torch.float64)
        super().__init__(len(rows), n, int(self.free.sum()))

    def take(self, row: int) -> None:
        super().take(row)
        self.free[row] = False

    def vectors(self, index: Tensor) -> Factored:
        return self.rows.take(index)

    def bounds(self, index: Tensor) -> Tensor:
        return self.bound[index]

    def lower(self, index: Tensor, bounds: Tensor) -> None:
        self.bound[index] = bounds

    def lower_all(self, centres: Factored) -> None:
        self.bound = nearest_centre(self.rows, centres, self.bound).mul_(self.free)

    def start_at_largest(self) -> None:
        if self.missing == 0:
            return
        size = self.rows.squared_norms if self.weights is None else self.rows.squared_norms * self.weights
        first = int(torch.where(self.free, size, -1).argmax())
        if size[first] > 0:
            self.take(first)
            norms = self.rows.squared_norms.sqrt()
            self.bound = (norms + norms[first]).square().mul_(self.free)

    def start_from(self, centres: Tensor) -> None:
        self.free[centres] = False
        if self.n > int(self.free.sum()):
            raise UnderstudyError(f"n = {self.n} rows requested, {int(self.free.sum())} are neither taken nor centres")
        self.pending = centres.tolist()
        self.bound.fill_(torch.inf)
        self.refresh()

    def weigh(self) -> float:
        mass = self.bound.double() if self.weights is None else self.bound.double() * self.weights
        self.cumulative = mass.cumsum(0)
        return float(self.cumulative[-1])

    def located(self, mass: Tensor) -> Tensor:
        # right=True never lands on a row without mass; rounding up to the total would land past the end.
        return torch.searchsorted(self.cumulative, mass, right=True).clamp_(max=self.size - 1)

    def largest(self, count: int) -> tuple[Tensor, Tensor]:
        values, index = self.bound.topk(count)
        return values, index

    def free_rows(self, key: int, count: int) -> Tensor:
        rest = self.free.nonzero().squeeze(1)
        return rest[random_keys(rest, key).argsort()[:count]]
