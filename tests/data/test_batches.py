"""The order of an epoch: whole, seeded, gold first."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import TensorDataset

from understudy.data.batches import epoch_seed, fetch_batches, plan_epoch
from understudy.data.rows import as_rows


@given(st.integers(0, 12), st.integers(0, 30), st.integers(1, 9), st.integers(1, 3), st.integers(0, 5))
def test_every_row_is_seen_as_often_as_asked(gold: int, pool: int, size: int, repeat: int, epoch: int) -> None:
    plan = plan_epoch(gold, pool, batch_size=size, gold_repeat=repeat, epoch=epoch)
    golds = torch.cat([g for g, _ in plan]) if plan else torch.empty(0)
    pools = torch.cat([p for _, p in plan]) if plan else torch.empty(0)
    assert sorted(golds.tolist()) == sorted(list(range(gold)) * repeat)
    assert sorted(pools.tolist()) == list(range(pool))
    sizes = [len(g) + len(p) for g, p in plan]
    assert all(n == size for n in sizes[:-1])
    # A last batch of one row, which BatchNorm cannot take, joins the one before.
    assert not sizes or sizes[-1] <= size + 1
    if size > 1 and sum(sizes) > 1:
        assert min(sizes) > 1


def test_order_depends_on_seed_and_epoch_alone() -> None:
    def order(seed: int, epoch: int) -> list[int]:
        return torch.cat([p for _, p in plan_epoch(0, 50, batch_size=8, seed=seed, epoch=epoch)]).tolist()

    state = torch.random.get_rng_state()
    assert order(0, 3) == order(0, 3)
    assert len({tuple(order(seed, epoch)) for seed in range(3) for epoch in range(3)}) == 9
    assert torch.random.get_rng_state().equal(state)
    assert epoch_seed(-5, 0) >= 0


def test_gold_and_pool_are_shuffled_together() -> None:
    plan = plan_epoch(50, 50, batch_size=10)
    counts = [len(g) for g, _ in plan]
    assert len(set(counts)) > 1
    assert min(counts) > 0 and max(counts) < 10


@pytest.mark.parametrize("workers", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_batches_hold_gold_rows_first(workers: int) -> None:
    gold, pool = torch.arange(5.0)[:, None], 100 + torch.arange(17.0)[:, None]
    plan = plan_epoch(5, 17, batch_size=4)
    for sources in ((as_rows(gold, "g"), as_rows(pool, "p")), (as_rows(TensorDataset(gold), "g"), as_rows(pool, "p"))):
        for x, golds, pools in fetch_batches(*sources, plan, workers=workers):
            assert x.flatten().tolist() == [*golds.tolist(), *(100 + pools).tolist()]


def test_drawing_by_a_column() -> None:
    sampling = torch.tensor([0.0, 3.0, 1.0, 0.0])
    drawn = torch.cat(
        [p for epoch in range(200) for _, p in plan_epoch(3, 4, batch_size=3, epoch=epoch, sampling=sampling)]
    )
    counts = drawn.bincount(minlength=4)
    assert counts.sum() == 800
    assert counts[0] == counts[3] == 0
    # Binomial(800, ¾): standard deviation 12.
    assert abs(int(counts[1]) - 600) < 50
