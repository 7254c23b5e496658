"""The order of an epoch: whole, seeded, gold first, in blocks where wanted; entered at any batch."""

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.utils.data import TensorDataset

import understudy.data.batches as module
from understudy.data.batches import epoch_seed, fetch_batches, plan_epoch
from understudy.data.inputs import as_rows
from understudy.data.rows import MappedRows, mapped_rows

Blocks = st.none() | st.integers(1, 9)


@given(st.integers(0, 12), st.integers(0, 30), st.integers(1, 9), st.integers(1, 3), st.integers(0, 5), Blocks)
def test_every_row_is_seen_as_often_as_wanted(
    gold: int, pool: int, size: int, repeat: int, epoch: int, block: int | None
) -> None:
    plan = plan_epoch(gold, pool, batch_size=size, gold_repeat=repeat, epoch=epoch, block=block)
    golds = torch.cat([g for g, _ in plan]) if plan else torch.empty(0)
    pools = torch.cat([p for _, p in plan]) if plan else torch.empty(0)
    assert sorted(golds.tolist()) == sorted(list(range(gold)) * repeat)
    assert sorted(pools.tolist()) == list(range(pool))
    sizes = [len(g) + len(p) for g, p in plan]
    assert plan.sizes == sizes
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


def _as_stated(gold: int, pool: int, size: int, seed: int, epoch: int) -> list[tuple[list[int], list[int]]]:
    """A full shuffle in plain Python: one permutation, cut into batches, gold first."""
    generator = torch.Generator().manual_seed(epoch_seed(seed, epoch))
    order = torch.randperm(gold + pool, generator=generator).tolist()
    cut = [order[i : i + size] for i in range(0, len(order), size)]
    if size > 1 and len(cut) > 1 and len(cut[-1]) == 1:
        cut[-2:] = [cut[-2] + cut[-1]]
    return [([row for row in batch if row < gold], [row - gold for row in batch if row >= gold]) for batch in cut]


@given(st.integers(0, 12), st.integers(1, 40), st.integers(1, 9), st.integers(0, 3), st.integers(0, 3))
def test_a_full_shuffle_is_one_permutation(gold: int, pool: int, size: int, seed: int, epoch: int) -> None:
    plan = plan_epoch(gold, pool, batch_size=size, seed=seed, epoch=epoch)
    assert [(g.tolist(), p.tolist()) for g, p in plan] == _as_stated(gold, pool, size, seed, epoch)


def test_pieces_in_which_gold_is_put_first_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    for total in range(40, 60):
        whole = [(g.tolist(), p.tolist()) for g, p in plan_epoch(11, total - 11, batch_size=4)]
        monkeypatch.setattr(module, "_PIECE", 8)
        assert [(g.tolist(), p.tolist()) for g, p in plan_epoch(11, total - 11, batch_size=4)] == whole
        monkeypatch.undo()


@given(st.integers(0, 9), st.integers(1, 30), st.integers(1, 7), Blocks, st.integers(0, 30))
def test_an_epoch_can_be_entered_at_any_batch(gold: int, pool: int, size: int, block: int | None, entry: int) -> None:
    whole, again = (plan_epoch(gold, pool, batch_size=size, seed=2, epoch=1, block=block) for _ in range(2))
    rest = again.after(entry)
    assert len(rest) == max(0, len(whole) - entry)
    assert rest.sizes == whole.sizes[entry:]
    for (golds, pools), (same_golds, same_pools) in zip(list(whole)[entry:], list(rest), strict=True):
        assert golds.equal(same_golds) and pools.equal(same_pools)
    if len(rest):
        assert rest[-1][1].equal(whole[-1][1])
        assert rest.after(1).sizes == whole.sizes[entry + 1 :]
    with pytest.raises(IndexError):
        rest[len(rest)]


def _pool_order(**options: Any) -> Tensor:
    plan = plan_epoch(0, batch_size=100, **options)
    return plan.pool_rows(0, sum(plan.sizes))


def test_a_block_shuffle_reads_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows of a window come from at most WINDOW stretches of the file, each read once in the epoch."""
    monkeypatch.setattr(module, "WINDOW", 5)
    plan = plan_epoch(0, 4_000, batch_size=100, block=50, seed=3)
    assert plan.windows[0] == 0 and plan.windows[-1] == 4_000
    for start, stop in zip(plan.windows, plan.windows[1:], strict=False):
        rows = plan.pool_rows(start, stop).sort().values
        assert len(rows) <= 250
        assert 1 + int((rows.diff() > 1).sum()) <= 5
    # The file is cut in another place in the next epoch.
    plans = [plan_epoch(0, 4_000, batch_size=100, block=50, epoch=epoch) for epoch in range(8)]
    places = {int(plan.pool_rows(*plan.windows[:2]).min()) % 50 for plan in plans}
    assert len(places) > 3


def test_every_window_of_blocks_has_its_share_of_gold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WINDOW", 5)
    plan = plan_epoch(400, 4_000, batch_size=100, block=50, seed=3)
    counts = [len(golds) for golds, _ in plan]
    # 100 / 11 on average; windows of 275 rows have 25 each.
    assert max(counts) < 25
    assert max(sum(counts[i : i + 11]) for i in range(0, len(counts), 11)) <= 110


def _excess(window: int, monkeypatch: pytest.MonkeyPatch) -> float:
    """Variance of a class's share in a batch of 100 beside a full shuffle's, for a file sorted by its 10 classes."""
    monkeypatch.setattr(module, "WINDOW", window)
    labels = torch.arange(40_000) // 4_000
    variance = {}
    for block in (None, 20):
        orders = [_pool_order(pool_rows=40_000, block=block, epoch=epoch) for epoch in range(20)]
        shares = [(labels[order].reshape(-1, 100) == 3).double().mean(1) for order in orders]
        variance[block] = float((torch.cat(shares) - 0.1).square().mean())
    return variance[20] / variance[None]


def test_what_block_shuffle_leaves_of_the_order_of_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """1 + B / WINDOW in the worst case, the file sorted; the estimates are good to about 15%."""
    assert _excess(50, monkeypatch) == pytest.approx(1 + 100 / 50, rel=0.2)
    assert _excess(400, monkeypatch) == pytest.approx(1 + 100 / 400, rel=0.2)


def test_block_shuffle_of_a_file_in_random_order_is_as_good_as_any(rng: np.random.Generator) -> None:
    """Runs of equal labels among neighbours in the order: 10% by chance, in both shuffles."""
    labels = torch.tensor(rng.integers(0, 10, 40_000))
    for block in (None, 20):
        drawn = labels[_pool_order(pool_rows=40_000, block=block)]
        equal = float((drawn[1:] == drawn[:-1]).double().mean())
        # Binomial(40,000, 0.1): standard deviation 0.0015.
        assert equal == pytest.approx(0.1, abs=0.006)


@pytest.mark.parametrize("block", [None, 7])
def test_drawing_from_more_rows_than_multinomial_takes(block: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MULTINOMIAL", 3)
    sampling = torch.tensor([0.0, 3.0, 1.0, 0.0] * 25 + [0.0])
    plans = [plan_epoch(3, 101, batch_size=9, epoch=epoch, sampling=sampling, block=block) for epoch in range(40)]
    counts = torch.cat([pools for plan in plans for _, pools in plan]).bincount(minlength=101)
    assert counts.sum() == 40 * 101
    assert counts[sampling == 0].sum() == 0
    # Binomial(4040, ¾): standard deviation 28.
    assert abs(int(counts[sampling == 3].sum()) - 3030) < 110


def test_draws_in_blocks_stay_near_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WINDOW", 2)
    sampling = torch.rand(1_000, generator=torch.Generator().manual_seed(0))
    plan = plan_epoch(0, 1_000, batch_size=20, sampling=sampling, block=10)
    for start, stop in zip(plan.windows, plan.windows[1:], strict=False):
        blocks = plan.pool_rows(start, stop).sort().values.diff()
        # Two stretches of ten draws, each over some 10 rows of the file, however far apart they are.
        assert int((blocks > 15).sum()) <= 1


class Noted(MappedRows):
    """Records which rows are requested and in which order."""

    def __init__(self, path: Path, shuffle: str | int) -> None:
        super().__init__(np.load(path, mmap_mode="r"), shuffle=shuffle)
        self.events: list[tuple[str, set[int]]] = []
        self.mixed: list[bool] = []
        self.lock = threading.Lock()

    def will_need(self, index: Tensor | None, *, mixed: bool = False) -> None:
        super().will_need(index, mixed=mixed)
        with self.lock:
            self.events.append(("ahead", set(range(len(self)) if index is None else index.tolist())))
            self.mixed.append(mixed)

    def take(self, index: Tensor) -> Tensor:
        with self.lock:
            self.events.append(("read", set(index.tolist())))
        return super().take(index)


@pytest.mark.parametrize(("shuffle", "entry"), [("full", 0), (10, 0), (10, 13)])
def test_what_is_read_was_requested_ahead(
    shuffle: str | int, entry: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WINDOW", 4)
    # Advice on the spot: a thread would come as it likes.
    monkeypatch.setattr(threading.Thread, "start", lambda self: self.run())
    x = np.arange(1_000, dtype=np.float32).reshape(500, 2)
    np.save(tmp_path / "x.npy", x)
    rows = Noted(tmp_path / "x.npy", shuffle)
    plan = plan_epoch(0, 500, batch_size=16, block=rows.preferred_block).after(entry)
    for batch, _, pools in fetch_batches(None, rows, plan):
        assert batch.numpy().tolist() == x[pools.numpy()].tolist()
    requested: set[int] = set()
    for what, which in rows.events:
        if what == "ahead":
            requested |= which
        else:
            assert which <= requested
    advice = [which for what, which in rows.events if what == "ahead"]
    # In the end: later passes read in order.
    assert rows.mixed == [shuffle != "full"] * (len(advice) - 1) + [False] and advice[-1] == set()
    assert max(map(len, advice)) == (500 if shuffle == "full" else 40)
    # Never the whole file at once: two windows are under way when the first batch is read.
    assert [what for what, _ in rows.events[:3]] == (
        ["ahead", "read", "read"] if shuffle == "full" else ["ahead"] * 2 + ["read"]
    )


def test_a_choice_of_shuffle_is_kept(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((30, 4), dtype=np.float16))
    assert mapped_rows(tmp_path / "x.npy", shuffle=8).preferred_block == 8
