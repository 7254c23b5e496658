"""The order of an epoch: which gold and which pool rows are in which batch.

The order depends on the seed and the epoch alone, so an epoch can be repeated without replaying the ones before it, and
entered at any batch: ``plan_epoch(…).after(k)``. Within a batch gold rows come first: the split point is all a batch
must know about which rows are gold.

*Block shuffle*, for files that memory cannot hold: blocks of neighbouring rows are put in random order, and the rows of
``WINDOW`` blocks at a time are shuffled among themselves. A batch of B rows then comes from up to WINDOW places of the
file. Where the file's own order is random this changes nothing; in the worst case, a file sorted by class with every
block of a single one, the variance of a batch's class shares is 1 + B / WINDOW times that of a full shuffle.
"""

import threading
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from understudy.data.rows import Rows, collate_items, join, shared_collator, take_items, take_sparse
from understudy.maths.sparse import sparse_batch

# Blocks that are shuffled together: 128 MB of the kernel's memory at 256 KB a block.
WINDOW = 512
# Batches whose rows are sorted by length together: of more, a batch would hold ever the same rows.
ALIKE = 50
# Rows whose gold comes first are sorted so many at a time.
_PIECE = 1 << 18
# What torch.multinomial can choose from.
_MULTINOMIAL = 1 << 24


@dataclass(frozen=True, eq=False)
class EpochPlan:
    """Per batch: gold rows, pool rows. One array of row numbers, cut into batches lazily."""

    order: Tensor
    #: How many gold rows each batch of the epoch has.
    golds: Tensor
    batch_size: int
    gold_rows: int
    from_gold: int
    #: The batches that are left.
    batches: range
    #: Where in the order a new set of blocks begins (block shuffle).
    windows: Sequence[int] = ()
    #: Of every batch the rows r, r + W, … where W processes share it.
    part: tuple[int, int] = (0, 1)

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, number: int) -> tuple[Tensor, Tensor]:
        batch = self.batches[number]
        return next(iter(replace(self, batches=range(batch, batch + 1))))

    def after(self, batches: int) -> "EpochPlan":
        """What is left of the epoch after so many batches."""
        return replace(self, batches=self.batches[batches:])

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        # Row numbers are made for many batches at once: a small net feels five operators a batch.
        together, (rank, size) = max(1, _PIECE // self.batch_size), self.part
        for first in range(0, len(self.batches), together):
            batches = self.batches[first : first + together]
            start, stop = self.span(batches[0])[0], self.span(batches[-1])[1]
            rows = self.order[start:stop].long()
            golds, pools = rows % max(1, self.gold_rows), rows - self.from_gold
            for batch, count in zip(batches, self.golds[batches[0] : batches[-1] + 1].tolist(), strict=True):
                begin, end = (place - start for place in self.span(batch))
                first = begin + count + (rank - count) % size
                yield golds[begin + rank : begin + count : size], pools[first:end:size]

    def part_of(self, rank: int, size: int) -> "EpochPlan":
        """The same plan as process ``rank`` of ``size`` sees it: of every batch, gold rows first, each size-th row."""
        return replace(self, part=(rank, size))

    def golds_in(self, number: int) -> int:
        """How many gold rows a batch has, over all processes."""
        return int(self.golds[self.batches[number]])

    def span(self, batch: int) -> tuple[int, int]:
        """The part of the order that is batch number ``batch`` of the whole epoch; the last one takes what is left."""
        start = batch * self.batch_size
        return start, len(self.order) if batch == len(self.golds) - 1 else start + self.batch_size

    @property
    def sizes(self) -> list[int]:
        """Rows per batch."""
        return [stop - start for start, stop in map(self.span, self.batches)]

    def pool_rows(self, start: int, stop: int) -> Tensor:
        """The pool rows in a part of the order."""
        rows = self.order[start:stop].long() - self.from_gold
        return rows[rows >= 0]


def epoch_seed(seed: int, epoch: int) -> int:
    """A seed of its own for every epoch, far from its neighbours'."""
    return (seed * 1_000_003 + epoch * 7_919 + 17) % (1 << 62)


def count_batches(rows: int, batch_size: int) -> int:
    """BatchNorm cannot take a batch of one row: it joins the batch before it."""
    return -(-rows // batch_size) - (rows % batch_size == 1 and rows > 1)


def plan_epoch(
    gold_rows: int, pool_rows: int, *, batch_size: int, gold_repeat: int = 1, seed: int = 0, epoch: int = 0,
    sampling: Tensor | None = None, block: int | None = None, lengths: Tensor | None = None,
) -> EpochPlan:  # fmt: skip
    """Every pool row once and every gold row ``gold_repeat`` times, shuffled together.

    With ``sampling (pool_rows,)``, pool rows are drawn with replacement in proportion to it instead. ``block``: the
    rows of a block, for a block shuffle; None shuffles everything with everything. ``lengths (gold_rows + pool_rows,)``
    puts rows of similar length into one batch.
    """
    generator = torch.Generator().manual_seed(epoch_seed(seed, epoch))
    from_gold = gold_rows * gold_repeat
    total = from_gold + pool_rows
    # Half the memory of int64 in pools of up to 2 billion rows; the numbers drawn are the same.
    kind = torch.int32 if total < 1 << 31 else torch.int64
    windows: list[int] = []
    if block is None or not pool_rows:
        order = torch.randperm(total, generator=generator, dtype=kind)
    else:
        order, windows = _block_order(from_gold, pool_rows, block, generator, kind)
    if sampling is not None:
        drawn = _draw(sampling, pool_rows, generator)
        is_pool = order >= from_gold
        if block is not None:
            # In the file's order, so that blocks of draws are blocks of the file.
            drawn = drawn.sort().values[order[is_pool].long() - from_gold]
        order[is_pool] = (drawn + from_gold).to(kind)
    if lengths is not None:
        every = torch.cat([lengths[:gold_rows].repeat(gold_repeat), lengths[gold_rows:]])
        order = _by_length(order, every[order.long()], batch_size, generator)
    batches = count_batches(total, batch_size)
    golds = _gold_first(order, from_gold, batch_size, batches)
    return EpochPlan(order, golds, batch_size, gold_rows, from_gold, range(batches), windows)


def _by_length(order: Tensor, lengths: Tensor, batch_size: int, generator: torch.Generator) -> Tensor:
    """The rows of ``ALIKE`` batches at a time sorted by length and cut into batches, which are then shuffled."""
    piece = torch.arange(len(order)) // (ALIKE * batch_size)
    order = order[(piece * (int(lengths.max()) + 1) - lengths).argsort(stable=True)]
    whole = len(order) // batch_size * batch_size
    batches = order[:whole].view(-1, batch_size)
    return torch.cat([batches[torch.randperm(len(batches), generator=generator)].flatten(), order[whole:]])


def _block_order(
    golds: int, pool_rows: int, block: int, generator: torch.Generator, kind: torch.dtype
) -> tuple[Tensor, list[int]]:
    """Blocks in random order, rows mixed within WINDOW blocks; each window gets its share of the gold rows."""
    # Blocks are cut in another place every epoch, so that neighbours in the file are not always together.
    cut = int(torch.randint(block, (), generator=generator))
    starts = torch.arange(-cut, pool_rows, block)
    starts = starts[torch.randperm(len(starts), generator=generator)]
    shuffled_golds = torch.randperm(golds, generator=generator)
    order, windows, read = torch.empty(golds + pool_rows, dtype=kind), [0], 0
    for window in starts.split(WINDOW):
        rows = (window.unsqueeze(1) + torch.arange(block)).flatten()
        rows = rows[(rows >= 0) & (rows < pool_rows)]
        share = shuffled_golds[golds * read // pool_rows : golds * (read + len(rows)) // pool_rows]
        read += len(rows)
        both = torch.cat([share, rows + golds])
        order[windows[-1] : windows[-1] + len(both)] = both[torch.randperm(len(both), generator=generator)]
        windows.append(windows[-1] + len(both))
    return order, windows


def _draw(sampling: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """``count`` row numbers with replacement, in proportion to ``sampling``."""
    if len(sampling) <= _MULTINOMIAL:
        return torch.multinomial(sampling.double(), count, replacement=True, generator=generator)
    mass = sampling.double().cumsum(0)
    # right=True never lands on a row without mass; rounding up to the total would land past the end.
    drawn = torch.rand(count, generator=generator, dtype=torch.float64) * mass[-1]
    return torch.searchsorted(mass, drawn, right=True).clamp_(max=int(sampling.nonzero()[-1, 0]))


def _gold_first(order: Tensor, from_gold: int, batch_size: int, batches: int) -> Tensor:
    """Put the gold rows of every batch first, in place; how many there are in each."""
    counts = torch.zeros(batches, dtype=torch.int32)
    step = max(1, _PIECE // batch_size)
    for first in range(0, batches, step):
        # The last piece also has the row that joined the last batch.
        stop = len(order) if first + step >= batches else (first + step) * batch_size
        rows = order[first * batch_size : stop]
        batch = (torch.arange(len(rows)) // batch_size).clamp(max=batches - first - 1)
        is_gold = rows < from_gold
        rows[:] = rows[(2 * batch + ~is_gold).argsort(stable=True)]
        counts[first : first + step] = torch.bincount(batch[is_gold], minlength=min(step, batches - first))
    return counts


class _Fetch(Dataset[Any]):
    """A whole batch per item, so that worker processes collate too."""

    def __init__(self, gold: Rows | None, pool: Rows | None, plan: EpochPlan) -> None:
        self.gold, self.pool, self.plan = gold, pool, plan
        self.collate = shared_collator([gold, pool])

    def __len__(self) -> int:
        return len(self.plan)

    def __getitem__(self, number: int) -> Any:
        return self.read(*self.plan[number])

    def read(self, golds: Tensor, pools: Tensor) -> Any:
        given = [(rows, index) for rows, index in ((self.gold, golds), (self.pool, pools)) if rows is not None]
        # A process without a row of a batch passes one through its net all the same, and counts it as nothing.
        nothing = [(given[0][0], torch.zeros(1, dtype=torch.long))]
        parts = [(rows, index) for rows, index in given if len(index)] or nothing
        if self.collate is None:
            return join([rows.take(index) for rows, index in parts])
        # Together, so that gold and pool rows get one padding.
        return collate_items(self.collate, [item for rows, index in parts for item in take_items(rows, index)])


def plan_full_batch(
    gold_rows: int, pool_rows: int, *, gold_repeat: int = 1, seed: int = 0, sampling: Tensor | None = None
) -> EpochPlan:
    """Everything as one batch, in its own order, the same for every epoch; with ``sampling``, as it was drawn once."""
    from_gold = gold_rows * gold_repeat
    order = torch.arange(from_gold + pool_rows)
    if sampling is not None:
        generator = torch.Generator().manual_seed(epoch_seed(seed, 0))
        order[from_gold:] = _draw(sampling, pool_rows, generator).sort().values + from_gold
    golds = torch.tensor([from_gold], dtype=torch.int32)
    return EpochPlan(order, golds, len(order), gold_rows, from_gold, range(1))


def fetch_sparse(gold: Rows | None, pool: Rows | None, plan: EpochPlan) -> Tensor:
    """The first batch of a plan, sparse."""
    from scipy import sparse

    given = zip((gold, pool), plan[0], strict=True)
    parts = [take_sparse(rows, index) for rows, index in given if rows is not None and len(index)]
    both = parts[0] if len(parts) == 1 else sparse.csr_matrix(sparse.vstack(parts, format="csr"))
    return sparse_batch(both)


def fetch_batches(
    gold: Rows | None, pool: Rows | None, plan: EpochPlan, *, workers: int = 0
) -> Iterator[tuple[Any, Tensor, Tensor]]:
    """``(x, gold rows, pool rows)`` per batch; features are read by worker processes where there are any."""
    fetch = _Fetch(gold, pool, plan)
    if workers and any(rows is not None and rows.per_row for rows in (gold, pool)):
        batches = DataLoader(fetch, batch_size=None, num_workers=workers)
        for x, (golds, pools) in zip(batches, plan, strict=True):
            yield x, golds, pools
        return
    ahead = _Ahead(pool, plan) if pool is not None and pool.is_mapped and len(plan) else None
    try:
        for number, (golds, pools) in enumerate(plan):
            if ahead is not None:
                ahead.at(plan.batches[number])
            yield fetch.read(golds, pools), golds, pools
    finally:
        if ahead is not None:
            ahead.pool.will_need(torch.empty(0, dtype=torch.long))  # later passes read in order


class _Ahead:
    """Has the kernel read what comes next from disk, on a thread that only gives advice: the next window of blocks
    when one begins, or the whole file where it fits into memory."""

    def __init__(self, pool: Rows, plan: EpochPlan) -> None:
        self.pool, self.plan = pool, plan
        start = plan.span(plan.batches[0])[0]
        self.next = bisect_right(plan.windows, start) - 1
        if not plan.windows:
            self._advise(None)

    def at(self, batch: int) -> None:
        windows, start = self.plan.windows, self.plan.span(batch)[0]
        while self.next + 1 < len(windows) and windows[max(0, self.next - 1)] <= start:
            self._advise(self.plan.pool_rows(windows[self.next], windows[self.next + 1]))
            self.next += 1

    def _advise(self, rows: Tensor | None) -> None:
        threading.Thread(target=lambda: self.pool.will_need(rows, mixed=bool(self.plan.windows)), daemon=True).start()
