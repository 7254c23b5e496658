"""Selection over shards: the picks of the whole pool, by every strategy; the draw's own chances; few rows in memory."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import chisquare
from torch import Tensor

import understudy as us
from maths_outcomes import sequence_probabilities
from understudy.acquisition.select import pick_rows
from understudy.acquisition.strategies import NAMES
from understudy.maths import spread
from understudy.maths.random_order import random_keys
from understudy.maths.spread import factored, kmeans_plus_plus
from understudy.parallel.executors import Executor, InProcess, WorkerProcesses
from understudy.parallel.map_shards import to_records
from understudy.parallel.pool_shards import PoolShard
from understudy.parallel.shard_scores import ShardScores


def scored(folder: Path, sizes: list[int], arrays: dict[str, Tensor]) -> ShardScores:
    shards = []
    for number, (start, stop) in enumerate(pairwise(np.cumsum([0, *sizes]).tolist())):
        path = folder / f"{number}.npy"
        path.write_bytes(to_records({name: value[start:stop].numpy() for name, value in arrays.items()}))
        shards.append(PoolShard(number, path, start, stop - start))
    return ShardScores(tuple(shards), [{"same": False}] * len(sizes), InProcess())


def select_from(
    parts: ShardScores, name: str, n: int, labelled: Tensor, *, seed: int = 0, executor: Executor | None = None
) -> Tensor:
    available = torch.ones(parts.parts[-1].stop, dtype=torch.bool).index_fill(0, labelled, False)
    return pick_rows(name, n, replace(parts, executor=executor or InProcess()), available, seed=seed)


def some_arrays(rows: int, *, seed: int = 0, duplicates: bool = False) -> dict[str, Tensor]:
    draw = torch.Generator().manual_seed(seed)
    arrays = {name: torch.randn(rows, 3, generator=draw).softmax(1) for name in ("probs", "probs_ema")}
    arrays |= {name: torch.randn(rows, 5, generator=draw) for name in ("hidden", "hidden_ema")}
    if duplicates:  # many ties for ranked strategies, many zero distances for the others
        arrays = {name: value[torch.arange(rows) % 7] for name, value in arrays.items()}
    return arrays


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("labelled", [[], [0, 3, 41, 77, 119]], ids=["nothing labelled", "some labelled"])
def test_the_picks_of_the_whole_pool(name: str, labelled: list[int], tmp_path: Path) -> None:
    arrays, taken = some_arrays(120), torch.tensor(labelled, dtype=torch.long)
    parts = scored(tmp_path, [40, 1, 37, 42], arrays)
    for seed in range(3):
        whole = us.select(name, 30, **arrays, labelled=taken, seed=seed)  # type: ignore[arg-type]
        found = select_from(parts, name, 30, taken, seed=seed)
        assert found.tolist() == whole.tolist()
        assert not set(found.tolist()) & set(labelled)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("labelled", [[], [2, 19, 20, 44]], ids=["nothing labelled", "some labelled"])
def test_with_ties_and_duplicates_all_rows_are_had(name: str, labelled: list[int], tmp_path: Path) -> None:
    arrays, taken = some_arrays(50, duplicates=True), torch.tensor(labelled, dtype=torch.long)
    parts, n = scored(tmp_path, [20, 20, 10], arrays), 50 - len(labelled)
    found = select_from(parts, name, n, taken, seed=1)
    assert sorted(found.tolist()) == sorted(set(range(50)) - set(labelled))
    if name in ("random", "confidence", "margin", "entropy"):
        assert found.tolist() == us.select(name, n, **arrays, labelled=taken, seed=1).tolist()  # type: ignore[arg-type]


def test_refreshes_are_passes_and_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spread, "_REFRESH_SHARE", 1e-9)  # after every few candidates
    arrays = some_arrays(90, seed=3)
    parts = scored(tmp_path, [30, 30, 30], arrays)
    nothing = torch.zeros(0, dtype=torch.long)
    for name in ("badge", "coreset"):
        whole = us.select(name, 25, **arrays, seed=5)  # type: ignore[arg-type]
        for executor in (InProcess(), WorkerProcesses(2)):
            found = select_from(parts, name, 25, nothing, seed=5, executor=executor)
            assert found.tolist() == whole.tolist()


@pytest.mark.slow
def test_the_draws_have_the_chances_of_the_plain_algorithm(tmp_path: Path) -> None:
    """Every ordered outcome of k-means++ on four rows in three shards, against its probability in closed form."""
    hidden = torch.tensor([[0.0, 1.0], [2.0, 0.5], [-1.0, 3.0], [-2.0, -1.0]])
    parts = scored(tmp_path, [2, 1, 1], {"hidden": hidden})
    distances = (hidden[:, None] - hidden).square().sum(-1).double()
    first = int(hidden.square().sum(1).argmax())
    expected = sequence_probabilities(distances, first, 3)
    generator = torch.Generator().manual_seed(0)
    counts = dict.fromkeys(expected, 0)
    draws = 300
    vectors, everything = parts.vectors(lambda arrays: factored(arrays["hidden"])), torch.ones(4, dtype=torch.bool)
    for _ in range(draws):
        counts[tuple(kmeans_plus_plus(vectors, 3, available=everything, generator=generator).tolist())] += 1
    assert min(expected.values()) * draws > 5
    assert chisquare(list(counts.values()), [draws * chance for chance in expected.values()]).pvalue > 1e-3


def test_keys_are_splitmix64_and_shuffle_evenly() -> None:
    # The published generator's first numbers after the seed 1234567.
    known = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    found = random_keys(torch.arange(4), 1234567).numpy().view(np.uint64).tolist()
    assert found == known
    assert len(random_keys(torch.arange(100_000), 7).unique()) == 100_000
    orders = torch.stack([random_keys(torch.arange(4), key).argsort() for key in range(4000)])
    counts = (orders @ torch.tensor([64, 16, 4, 1])).unique(return_counts=True)[1]
    assert len(counts) == 24 and chisquare(counts.numpy()).pvalue > 1e-3


def test_too_many_rows_are_refused(tmp_path: Path) -> None:
    parts = scored(tmp_path, [3, 2], some_arrays(5))
    with pytest.raises(us.UnderstudyError, match="n = 4, but 3 of 5 rows are not labelled yet"):
        select_from(parts, "badge", 4, torch.tensor([1, 3]))
    with pytest.raises(us.UnderstudyError, match="unknown strategy"):
        select_from(parts, "best", 1, torch.tensor([1]))
