"""Weights that depend on all rows of a batch are the same where its rows are spread over several workers."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
import torch
from torch import Tensor

import understudy as us
from understudy.methods.ups import KeepWeight
from understudy.objective import Outputs, Step
from understudy.training.processes import BatchShare

ROWS = 12


class TwoWorkers:
    """One of two processes that share a batch: each has every other row."""

    size = 2

    def __init__(self, rank: int, meeting: Barrier, brought: list[Tensor]) -> None:
        self.rank, self.meeting, self.brought = rank, meeting, brought

    def gather(self, values: Tensor, first: int, count: int) -> Tensor:
        self.brought[self.rank] = values
        self.meeting.wait(timeout=10)
        joined = values.new_empty(count, *values.shape[1:])
        joined[::2], joined[1::2] = self.brought
        self.meeting.wait(timeout=10)  # the next values are brought when both have read these
        return joined


def _step(rows: slice) -> Step:
    draw = torch.Generator().manual_seed(0)
    logits, teacher = torch.randn(2, ROWS, 3, generator=draw)
    columns = {
        "hard_mining.rare": torch.arange(ROWS) % 4 == 0,
        "random.key": torch.randint(1 << 62, (ROWS,), generator=draw),
        "oracle.right": (torch.arange(ROWS) % 3 > 0).float(),
        "confident.kept": (torch.arange(ROWS) % 5 < 2).float(),
        "ups.selected": torch.arange(ROWS) % 2,
    }
    moving = us.curriculum_weight().module(None)  # type: ignore[arg-type]
    return Step(
        Outputs(logits[rows]), teacher.softmax(-1)[rows], torch.arange(ROWS)[rows],
        {name: column[rows] for name, column in columns.items()}, {"mentornet": moving},
        alignment=torch.randn(ROWS, generator=draw)[rows], progress=0.5,
    )  # fmt: skip


def _by_two_workers(compute: Callable[[Tensor, Step], Tensor], losses: Tensor) -> Tensor:
    meeting, brought = Barrier(2), [torch.empty(0)] * 2

    def worker(rank: int) -> Tensor:
        processes: Any = TwoWorkers(rank, meeting, brought)
        share, own = BatchShare(processes, golds=0, pools=ROWS), slice(rank, None, 2)
        return share.own(compute(share.gather(losses[own]), share.gather_step(_step(own))))

    with ThreadPoolExecutor(2) as workers:
        parts = list(workers.map(worker, (0, 1)))
    result = torch.empty(ROWS, *parts[0].shape[1:])
    result[::2], result[1::2] = parts
    return result


@pytest.mark.parametrize(
    "weight",
    [
        us.l2rw_weight(),
        us.curriculum_weight(percentile=0.6),
        us.hard_mining_weight(),
        us.random_weight(),
        us.oracle_weight(),
        us.confident_weight(),
        KeepWeight("ups"),
        us.l2rw_weight() * us.hard_mining_weight(),
    ],
    ids=lambda weight: weight.name,
)
def test_weights(weight: Any) -> None:
    losses = torch.rand(ROWS, generator=torch.Generator().manual_seed(1))
    alone = weight(losses, _step(slice(None)))
    assert len(set(alone.tolist())) > 1
    parts = [slice(start, stop) for start, stop in ((0, 1), (0, 2), (0, 5), (4, 7), (5, ROWS))]
    assert weight.whole_batch and any(not weight(losses[p], _step(p)).equal(alone[p]) for p in parts)
    torch.testing.assert_close(_by_two_workers(weight, losses), alone, rtol=0, atol=0)


def test_the_batch_accuracy_of_self_distillation() -> None:
    target: Any = us.self_distillation_target(strength=0.7)
    assert target.whole_batch
    alone = target(_step(slice(None)))
    torch.testing.assert_close(_by_two_workers(lambda _, step: target(step), torch.zeros(ROWS)), alone)


def test_weights_of_single_rows_need_no_other() -> None:
    assert not us.debias_weight().whole_batch and not us.fidelity_weight().whole_batch
    assert not (us.debias_weight() * us.fidelity_weight()).whole_batch
