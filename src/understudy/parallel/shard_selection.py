"""``understudy select`` on a folder of shards: scored in one pass, picked with memory for one shard.

batch = select_batch(function, strategy, n, shards, scratch, …)
batch.rows, batch.ids, batch.scores, batch.reasons
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from understudy.acquisition.select import Scores, strategy_named
from understudy.active.watch import REFERENCE_ROWS, NoiseWatch, watch_features
from understudy.errors import UnderstudyError
from understudy.io.gold_pool import own_labels
from understudy.io.table import Table
from understudy.parallel.executors import Executor
from understudy.parallel.pool_shards import PoolShard, PoolShards, results_in_order
from understudy.parallel.shard_scores import ScoreTable, ShardScores, score_shards
from understudy.parallel.shard_strategies import lowest, select_from
from understudy.store.arrow import Array


@dataclass(frozen=True)
class SelectedBatch:
    """The selected rows, in order, with score, reason and prediction of each."""

    rows: Tensor
    ids: list[Any] | None
    numbers: list[float]
    reasons: list[str]
    probs: Tensor
    #: Where rows with a label tell which places look random.
    watch: NoiseWatch | None
    #: How many of the picks have a label in the pool itself.
    known: int
    #: Whether every row of the pool has.
    all_known: bool


@dataclass(frozen=True)
class FindRows:
    """Which rows of a shard have these ids: (places among the ids, row numbers)."""

    named: Table
    columns: Mapping[str, str]
    #: Instead: refuse an id that is there in another spelling.
    spelling: bool = False

    def __call__(self, shard: PoolShard) -> tuple[Array, Array]:
        table = shard.read(self.columns)
        if table.ids is None:
            raise UnderstudyError(f"{shard.path} has no column 'id' to find the rows of {self.named.path} by; add it")
        if self.spelling:
            self.named.check_spelling(table)
        index = self.named.rows_in(table)
        places = np.flatnonzero(index >= 0)
        return places, shard.first + index[places]


def rows_of_ids(named: Table, shards: PoolShards, columns: Mapping[str, str], executor: Executor) -> Array:
    """For each id, which row of the pool it names; −1: none."""
    index = np.full(len(named), -1, dtype=np.int64)
    for _, (places, rows) in results_in_order(executor, FindRows(named, columns), shards):
        again = places[index[places] >= 0]
        if len(again):
            raise UnderstudyError(f"{shards.path}: two shards hold id {named.ids[int(again[0])]!r}; ids must be unique")  # type: ignore[index]
        index[places] = rows
    missing = np.flatnonzero(index < 0)
    if len(missing) and named.ids is not None:
        rest = Table(named.path, {"id": named.ids[missing]})
        for _ in results_in_order(executor, FindRows(rest, columns, spelling=True), shards):
            pass
    return index


def rows_at(shards: PoolShards, index: Tensor) -> list[tuple[PoolShard, Tensor]]:
    """The shards that hold some of these rows, and the places of those in ``index``."""
    firsts = torch.tensor([shard.first for shard in shards])
    homes = torch.searchsorted(firsts, index, right=True) - 1
    return [(shards[number], (homes == number).nonzero().squeeze(1)) for number in homes.unique().tolist()]


def select_batch(
    function: ScoreTable,
    strategy: str,
    n: int,
    shards: PoolShards,
    scratch: Path,
    *,
    labelled: Tensor,
    labels: Tensor,
    names: Sequence[str] | None,
    columns: Mapping[str, str],
    seed: int,
    executor: Executor,
    progress: bool,
) -> SelectedBatch:
    """``labelled``: rows never to be picked, with their ``labels`` (−1: none)."""
    scored = score_shards(function, shards, scratch, executor=executor, columns=columns, progress=progress)
    order = labelled.argsort()
    labelled, labels = labelled[order], labels[order]
    picks = select_from(scored, strategy, n, labelled=labelled, seed=seed, executor=executor, scratch=scratch)
    ids, known = _ids_and_labels(shards, picks, columns)
    numbers, reasons, probs = _explained(scored, strategy, picks, labelled, names)
    watch = None
    if bool((labels >= 0).any()):
        with_label = labelled[labels >= 0]
        drawn = lowest(scored, strategy_named("random"), REFERENCE_ROWS, with_label, seed, executor)
        known_places, batch, reference = (scored.take(rows)["hidden"] for rows in (with_label, picks, drawn))
        watch = watch_features(known_places, labels[labels >= 0], batch, reference)
    own = sum(each["labelled"] for each in scored.summaries)
    return SelectedBatch(picks, ids, numbers, reasons, probs, watch, known, own == shards.rows)


def _explained(
    scored: ShardScores, strategy: str, picks: Tensor, labelled: Tensor, names: Sequence[str] | None
) -> tuple[list[float], list[str], Tensor]:
    """Scores and phrases from the picks' rows, and those of labelled ones where the strategy measures from them."""
    measured = labelled if strategy == "coreset" else labelled[:0]
    arrays = scored.take(torch.cat([picks, measured]))
    probs = arrays["probs"]
    shown = names or [str(number) for number in range(probs.shape[1])]
    everything = Scores(probs, arrays.get("hidden", probs), arrays.get("probs_ema"), arrays.get("hidden_ema")).arrays()
    place = torch.arange(len(picks))
    rest = torch.arange(len(picks), len(picks) + len(measured))
    numbers, reasons = strategy_named(strategy).explain(place, everything, labelled=rest, names=shown)
    return numbers, reasons, probs[: len(picks)]


def _ids_and_labels(shards: PoolShards, picks: Tensor, columns: Mapping[str, str]) -> tuple[list[Any] | None, int]:
    """The picks' ids, and how many of them have a label in the pool."""
    ids: list[Any] = [None] * len(picks)
    known, named = 0, True
    for shard, places in rows_at(shards, picks):
        table = shard.read(columns)
        rows = (picks[places] - shard.first).numpy()
        if "label" in table.names:
            known += int(np.isin(rows, own_labels(table)[1]).sum())
        if table.ids is None:
            named = False
            continue
        for place, value in zip(places.tolist(), table.ids[rows].tolist(), strict=True):
            ids[place] = value
    return (ids if named else None), known
