"""The order of an epoch: which gold and which pool rows meet in which batch.

The order depends on the seed and the epoch alone, so an epoch can be repeated without replaying the ones before it.
Within a batch gold rows come first: the split point then is all a batch must know about which rows are gold.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from understudy.data.rows import Rows, join

Plan = list[tuple[Tensor, Tensor]]
"""Per batch: gold rows, pool rows."""


def epoch_seed(seed: int, epoch: int) -> int:
    """A seed of its own for every epoch, far from its neighbours'."""
    return (seed * 1_000_003 + epoch * 7_919 + 17) % (1 << 62)


def plan_epoch(
    gold_rows: int,
    pool_rows: int,
    *,
    batch_size: int,
    gold_repeat: int = 1,
    seed: int = 0,
    epoch: int = 0,
    sampling: Tensor | None = None,
) -> Plan:
    """Every pool row once and every gold row ``gold_repeat`` times, shuffled together.

    With ``sampling (pool_rows,)``, pool rows are drawn with replacement in proportion to it instead.
    """
    generator = torch.Generator().manual_seed(epoch_seed(seed, epoch))
    from_gold = gold_rows * gold_repeat
    order = torch.randperm(from_gold + pool_rows, generator=generator)
    batch = torch.arange(len(order)) // batch_size
    if len(order) % batch_size == 1 and len(order) > 1:
        # BatchNorm cannot take a batch of one row: it joins the batch before it.
        batch[-1] -= 1
    is_gold = order < from_gold
    if sampling is not None:
        drawn = torch.multinomial(sampling.double(), pool_rows, replacement=True, generator=generator)
        order[~is_gold] = drawn + from_gold
    order = order[(2 * batch + ~is_gold).argsort(stable=True)]
    sizes = torch.bincount(batch)
    golds = torch.bincount(batch[is_gold], minlength=len(sizes))
    plan = []
    for rows, count in zip(order.split(sizes.tolist()), golds.tolist(), strict=True):
        plan.append((rows[:count] % gold_rows if count else rows[:0], rows[count:] - from_gold))
    return plan


class _Fetch(Dataset[Any]):
    """A whole batch per item, so that worker processes collate too."""

    def __init__(self, gold: Rows | None, pool: Rows | None, plan: Plan) -> None:
        self.gold, self.pool, self.plan = gold, pool, plan

    def __len__(self) -> int:
        return len(self.plan)

    def __getitem__(self, number: int) -> Any:
        golds, pools = self.plan[number]
        parts = []
        if self.gold is not None and len(golds):
            parts.append(self.gold.take(golds))
        if self.pool is not None and len(pools):
            parts.append(self.pool.take(pools))
        return join(parts)


def fetch_batches(
    gold: Rows | None, pool: Rows | None, plan: Plan, *, workers: int = 0
) -> Iterator[tuple[Any, Tensor, Tensor]]:
    """``(x, gold rows, pool rows)`` per batch; features are read by worker processes where there are any."""
    fetch = _Fetch(gold, pool, plan)
    per_row = any(rows is not None and rows.per_row for rows in (gold, pool))
    if workers and per_row:
        batches: Any = DataLoader(fetch, batch_size=None, num_workers=workers)
    else:
        batches = (fetch[number] for number in range(len(fetch)))
    for x, (golds, pools) in zip(batches, plan, strict=True):
        yield x, golds, pools
