"""Weights that look at a whole batch say the same where its rows are spread over several workers."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from threading import Barrier
from typing import Any

import pytest
import torch
from torch import Tensor

import understudy as us
from understudy.methods.ups import KeepWeight
from understudy.objective import Outputs, Step

ROWS, FIRST = 12, 5


@dataclass(frozen=True)
class SharedStep(Step):
    """One of two workers: what both gather is joined in their order."""

    worker: int = 0
    meeting: Any = None
    brought: Any = None

    def gather(self, values: Tensor) -> Tensor:
        self.brought[self.worker] = values
        self.meeting.wait(timeout=10)
        joined = torch.cat(self.brought)
        self.meeting.wait(timeout=10)  # nobody brings the next values before both have read these
        return joined

    def own(self, values: Tensor) -> Tensor:
        return values[:FIRST] if self.worker == 0 else values[FIRST:]


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
    parts = slice(0, FIRST), slice(FIRST, ROWS)
    steps = [
        SharedStep(**vars(_step(part)), worker=worker, meeting=meeting, brought=brought)
        for worker, part in enumerate(parts)
    ]
    with ThreadPoolExecutor(2) as workers:
        return torch.cat(list(workers.map(compute, (losses[part] for part in parts), steps)))


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
    torch.testing.assert_close(_by_two_workers(weight, losses), alone, rtol=0, atol=0)


def test_the_batch_accuracy_of_self_distillation() -> None:
    target: Any = us.self_distillation_target(strength=0.7)
    alone = target(_step(slice(None)))
    torch.testing.assert_close(_by_two_workers(lambda _, step: target(step), torch.zeros(ROWS)), alone)


def test_one_process_holds_the_whole_batch() -> None:
    step = replace(_step(slice(None)), epoch=3)
    values = torch.arange(ROWS)
    assert step.gather(values) is values and step.own(values) is values
