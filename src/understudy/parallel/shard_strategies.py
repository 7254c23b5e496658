"""Selection over shards: the rows that ``us.select`` would pick of the whole, with memory for one shard.

    picks = select_from(scored, "badge", 100, labelled=rows, seed=0, executor=executor, scratch=folder)

k-means++ and farthest-first are those of ``maths/spread.py``, on bounds that lie in a file, 4 bytes for each row. A
candidate is drawn in proportion to its bound: first a shard by the sum of its bounds, then a row of it by its own. That
is a draw from all rows, from the same random numbers as without shards: the same rows come out, but for what rounding
decides. A refresh is a pass: each shard is sent the new centres and its bounds, and sends lower ones back.

Ranked strategies take each shard's n best and the best n of these; ties are decided by keys that depend on the row's
number alone (``maths/random_order.py``), so that these picks are the same without exception.
"""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from understudy.acquisition.select import strategy_named
from understudy.acquisition.strategies.coreset import Coreset
from understudy.acquisition.strategies.random import Random
from understudy.acquisition.strategy import Ranked, Spread, Strategy
from understudy.errors import UnderstudyError, warn
from understudy.maths.factored import Factored, nearest_centre
from understudy.maths.random_order import draw_key, random_keys
from understudy.maths.spread import Picking, draw_apart, take_farthest
from understudy.parallel.executors import Executor
from understudy.parallel.pool_shards import PoolShard, results_in_order
from understudy.parallel.shard_scores import ShardScores, read_scores

Vectors = Callable[[dict[str, Tensor]], Factored]


def select_from(
    scored: ShardScores, name: str, n: int, *, labelled: Tensor, seed: int, executor: Executor, scratch: Path
) -> Tensor:
    """n distinct row numbers in the order picked. ``labelled``: rows never to be picked, ascending."""
    strategy, generator = strategy_named(name), torch.Generator().manual_seed(seed)
    left = scored.rows - len(labelled)
    if not 0 <= n <= left:
        raise UnderstudyError(f"n = {n}, but {left} of {scored.rows} rows are not labelled yet: ask for 0 to {left}")
    if "hidden_ema" in strategy.needs and all(each["same"] for each in scored.summaries):
        warn(
            f"the student's features are those of its moving average on every row, so {name} picks at random (a "
            "linear student has no features of its own); use badge, or a student with a hidden layer"
        )
    if isinstance(strategy, Ranked | Random):
        return lowest(scored, strategy, n, labelled, draw_key(generator), executor)
    if not isinstance(strategy, Spread | Coreset):
        raise UnderstudyError(f"{name} looks at all rows at once; use another strategy for a folder of shards")
    with closing(ShardedPicking(scored, strategy.vectors, n, labelled, executor, scratch)) as picking:
        if isinstance(strategy, Coreset):
            return take_farthest(picking, generator, labelled)
        return draw_apart(picking, generator)


@dataclass(frozen=True)
class LowestOfShard:
    """Scores, keys and rows of the n best of a shard."""

    strategy: Strategy
    n: int
    labelled: Tensor
    key: int

    def __call__(self, shard: PoolShard) -> tuple[Tensor, Tensor, Tensor]:
        rows = rows_but(shard, self.labelled)
        score = torch.zeros(len(rows))
        if isinstance(self.strategy, Ranked):
            score = self.strategy.score(read_scores(shard)["probs"])[rows - shard.first]
        return first_of(score, random_keys(rows, self.key), rows, self.n)


def first_of(score: Tensor, keys: Tensor, rows: Tensor, n: int) -> tuple[Tensor, Tensor, Tensor]:
    """The n rows of smallest score, ties by their keys."""
    order = torch.from_numpy(np.lexsort((keys.numpy(), score.numpy()))[:n])
    return score[order], keys[order], rows[order]


def lowest(scored: ShardScores, strategy: Strategy, n: int, labelled: Tensor, key: int, executor: Executor) -> Tensor:
    best = (torch.zeros(0), torch.zeros(0, dtype=torch.long), torch.zeros(0, dtype=torch.long))
    for _, found in results_in_order(executor, LowestOfShard(strategy, n, labelled, key), scored.shards):
        score, keys, rows = (torch.cat(pair) for pair in zip(best, found, strict=True))
        best = first_of(score, keys, rows, n)
    return best[2]


def rows_but(shard: PoolShard, labelled: Tensor) -> Tensor:
    """The numbers of a shard's rows, without those in ``labelled``, which is sorted."""
    rows = torch.arange(shard.first, shard.first + shard.rows)
    start, stop = torch.searchsorted(labelled, torch.tensor([shard.first, shard.first + shard.rows])).tolist()
    if start == stop:
        return rows
    return rows[torch.ones(shard.rows, dtype=torch.bool).index_fill(0, labelled[start:stop] - shard.first, False)]


@dataclass(frozen=True)
class SizesOfShard:
    vectors: Vectors

    def __call__(self, shard: PoolShard) -> Tensor:
        return self.vectors(read_scores(shard)).squared_norms


@dataclass(frozen=True)
class NearestOfShard:
    """min(bound, squared distance to the nearest centre) of a shard's rows."""

    vectors: Vectors
    centres: Factored

    def __call__(self, given: tuple[PoolShard, Tensor]) -> Tensor:
        shard, bounds = given
        return nearest_centre(self.vectors(read_scores(shard)), self.centres, bounds)


class ShardedPicking(Picking):
    """Bounds in a file of the process that picks; vectors where the shards' scores are."""

    def __init__(
        self, scored: ShardScores, vectors: Vectors, n: int, labelled: Tensor, executor: Executor, scratch: Path
    ) -> None:
        self.scored, self._vectors, self.labelled, self.executor = scored, vectors, labelled, executor
        super().__init__(scored.rows, n, scored.rows - len(labelled))
        self.file = scratch / "_bounds"
        self.bound: Any = np.memmap(self.file, dtype=np.float32, mode="w+", shape=(scored.rows,))
        self.totals = torch.zeros(0, dtype=torch.float64)
        #: Of the picks, whose vectors every candidate is measured against, what was read.
        self._kept: dict[int, dict[str, Tensor]] = {}

    def close(self) -> None:
        del self.bound
        self.file.unlink(missing_ok=True)

    def vectors(self, index: Tensor) -> Factored:
        rows = index.tolist()
        if self.taken.issuperset(rows):
            new = [row for row in rows if row not in self._kept]
            if new:
                read = self.scored.take(torch.tensor(new))
                for place, row in enumerate(new):
                    self._kept[row] = {name: values[place] for name, values in read.items()}
            names = self._kept[rows[0]]
            return self._vectors({name: torch.stack([self._kept[row][name] for row in rows]) for name in names})
        return self._vectors(self.scored.take(index))

    def bounds(self, index: Tensor) -> Tensor:
        return torch.from_numpy(self.bound[index.numpy()])

    def lower(self, index: Tensor, bounds: Tensor) -> None:
        self.bound[index.numpy()] = bounds.numpy()

    def _parts(self) -> Iterator[tuple[PoolShard, Any]]:
        for shard in self.scored.shards:
            yield shard, self.bound[shard.first : shard.first + shard.rows]

    def lower_all(self, centres: Factored) -> None:
        parts = ((shard, torch.from_numpy(np.array(part))) for shard, part in self._parts())
        with closing(self.executor.map(NearestOfShard(self._vectors, centres), parts)) as results:
            for number, bounds in results:
                shard = self.scored.shards[number]
                self.bound[shard.first : shard.first + shard.rows] = bounds.numpy()
        self.bound[self.picks] = 0

    def start_at_largest(self) -> None:
        if self.missing == 0:
            return
        for shard, sizes in results_in_order(self.executor, SizesOfShard(self._vectors), self.scored.shards):
            self.bound[shard.first : shard.first + shard.rows] = sizes.numpy()
        self.bound[self.labelled.numpy()] = -1
        tops = [(float(part.max()), -(shard.first + int(part.argmax()))) for shard, part in self._parts()]
        size, first = max(tops)
        if size > 0:
            self.take(-first)
        norm = torch.tensor(max(size, 0.0)).sqrt()
        for _, part in self._parts():
            sizes = torch.from_numpy(np.array(part))
            raised = (sizes.clamp_min(0).sqrt() + norm).square()
            part[:] = (torch.where(sizes < 0, 0.0, raised) if size > 0 else torch.zeros_like(sizes)).numpy()
        self.bound[self.picks] = 0

    def start_from(self, centres: Tensor) -> None:
        for _, part in self._parts():
            part[:] = np.inf
        self.bound[self.labelled.numpy()] = 0
        self.lower_all(self.vectors(centres))

    def weigh(self) -> float:
        self.totals = torch.tensor([float(_cumulative(part)[-1]) for _, part in self._parts()], dtype=torch.float64)
        return float(self.totals.sum())

    def located(self, mass: Tensor) -> Tensor:
        ends = self.totals.cumsum(0)
        homes = torch.searchsorted(ends, mass, right=True).clamp_(max=len(ends) - 1)
        index = torch.empty(len(mass), dtype=torch.long)
        for number in homes.unique().tolist():
            here, shard = homes == number, self.scored.shards[number]
            cumulative = _cumulative(self.bound[shard.first : shard.first + shard.rows])
            rest = mass[here] - (ends[number] - self.totals[number])
            index[here] = shard.first + torch.searchsorted(cumulative, rest, right=True).clamp_(max=shard.rows - 1)
        return index

    def largest(self, count: int) -> tuple[Tensor, Tensor]:
        values, index = torch.zeros(0), torch.zeros(0, dtype=torch.long)
        for shard, part in self._parts():
            found = torch.from_numpy(np.array(part)).topk(min(count, shard.rows))
            values, index = torch.cat([values, found.values]), torch.cat([index, found.indices + shard.first])
            best = values.topk(min(count, len(values)))
            values, index = best.values, index[best.indices]
        return values, index

    def free_rows(self, key: int, count: int) -> Tensor:
        taken = torch.cat([self.labelled, torch.tensor(self.picks, dtype=torch.long)]).sort().values
        best = (torch.zeros(0), torch.zeros(0, dtype=torch.long), torch.zeros(0, dtype=torch.long))
        for shard in self.scored.shards:
            rows = rows_but(shard, taken)
            found = (torch.zeros(len(rows)), random_keys(rows, key), rows)
            score, keys, rows = (torch.cat(pair) for pair in zip(best, found, strict=True))
            best = first_of(score, keys, rows, count)
        return best[2]


def _cumulative(part: Any) -> Tensor:
    return torch.from_numpy(np.array(part)).double().cumsum(0)
