"""What the tests of the front ends share: students with dropout, a small world for each, ``us.train`` beside them."""

import copy
import itertools
import os
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import understudy as us
from understudy.objective import Step, Weight

from .test_contract import CLASSES, World, _build

EPOCHS, BATCH_SIZE, SEED, CLIP = 3, 8, 3, 0.5
ADAMW: dict[str, Any] = {"lr": 0.02, "weight_decay": 0.01}
"""Its moments and the weight decay move a student even where no loss does, unless the step is left out."""
VOCABULARY, LENGTH = 30, 6

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
# What makes labels by trainings of its own is no matter of steps.
# Every way of taking part in a step is in the suite: columns, a link, modules, a second net, the alignment. All methods
# take every front end in make torture.
COVERING = {"co_teaching", "l2rw", "resample", "s_model", "slam", "vid"}
each_method = pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in COVERING else pytest.mark.torture)
        for name in sorted(us.METHODS.keys() - {"reconciled"})
    ],
)
each_stop = pytest.mark.parametrize("stop", [1, *(pytest.param(stop, marks=pytest.mark.torture) for stop in (0, 3))])


class EveryOther(Weight):
    """Nothing counts in every other batch."""

    name, can_vanish = "every_other", True

    def __init__(self) -> None:
        self.turn = itertools.count()

    def __call__(self, losses: Tensor, step: Step) -> Tensor:
        return torch.full_like(losses, float(next(self.turn) % 2 == 0))


def refreshed() -> us.Objective:
    return us.weighted(refresh_every=1)


# What a checkpoint must hold beside the model: columns made anew, a layer, a second net, draws of gold rows.
RESUMED = {"weighted": refreshed, "s_model": us.s_model, "co_teaching": us.co_teaching, "l2rw": us.l2rw}


def build(name: str) -> us.Objective:
    return _build(name, "training")


def net() -> nn.Module:
    """With dropout, whose draws are a part of the bits."""
    torch.manual_seed(7)
    first, tanh, last = World.make().net
    return nn.Sequential(first, tanh, nn.Dropout(0.3), last)


def bert() -> nn.Module:
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(7)
    config = BertConfig(
        vocab_size=VOCABULARY, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8,
        max_position_embeddings=LENGTH, num_labels=CLASSES,
    )  # fmt: skip
    model: nn.Module = BertForSequenceClassification(config)
    return model


def tokens(rows: int, seed: int) -> dict[str, Tensor]:
    draw = torch.Generator().manual_seed(seed)
    lengths = torch.randint(2, LENGTH + 1, (rows, 1), generator=draw)
    mask = (torch.arange(LENGTH) < lengths).long()
    return {"input_ids": torch.randint(VOCABULARY, (rows, LENGTH), generator=draw) * mask, "attention_mask": mask}


def world(student: nn.Module) -> tuple[us.Gold, us.Pool]:
    """The contract's, with texts of a few tokens for a transformer."""
    given = World.make()
    if isinstance(student, nn.Sequential):
        return given.gold, given.pool
    gold, pool = given.gold, given.pool
    return us.Gold(tokens(len(gold), 1), gold.y, gold.teacher), us.Pool(tokens(len(pool), 2), pool.teacher)


def trained(student: nn.Module, objective: us.Objective, **options: Any) -> us.Run:
    told: dict[str, Any] = {"epochs": EPOCHS, "batch_size": BATCH_SIZE, "seed": SEED, "clip": CLIP, **ADAMW}
    given = world(student)
    return us.train(copy.deepcopy(student), *given, objective, optimizer="adamw", progress=False, **(told | options))


def assert_same(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> None:
    assert ours.keys() == theirs.keys()
    for name, value in theirs.items():
        torch.testing.assert_close(ours[name], value, rtol=0, atol=0, equal_nan=True)


def assert_same_run(ours: us.Run, theirs: us.Run, start: nn.Module) -> None:
    """Student, what was trained beside it, columns and losses, bit by bit; and something has moved."""
    assert_same(ours.student.state_dict(), theirs.student.state_dict())
    assert ours.module_states.keys() == theirs.module_states.keys()
    for name, state in theirs.module_states.items():
        assert_same(ours.module_states[name], state)
    assert_same(ours.columns, theirs.columns)
    assert [record["loss"] for record in ours.history] == [record["loss"] for record in theirs.history]
    before = start.state_dict()
    assert any(not value.equal(before[name]) for name, value in ours.student.state_dict().items())
