"""A loop with accelerate, as ``docs/loops.md`` has it: saved in the middle of an epoch by its means, and resumed."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import understudy as us

from ..front_ends import ADAMW, BATCH_SIZE, EPOCHS, RESUMED, SEED, assert_same, net, trained, world

accelerate: Any = pytest.importorskip("accelerate")


def loop(student: nn.Module, name: str, folder: Path, *, save_at: int | None = None, resume: bool = False) -> None:
    """``save_at``: the step after which it is saved and left."""
    accelerator = accelerate.Accelerator(cpu=True)
    session = us.Session(student, *world(student), RESUMED[name](), batch_size=BATCH_SIZE, seed=SEED, epochs=EPOCHS)
    optimizer = torch.optim.AdamW(session.parameters(), fused=True, **ADAMW)
    model, optimizer = accelerator.prepare(student, optimizer)
    accelerator.register_for_checkpointing(session)
    if resume:
        accelerator.load_state(folder)
    steps = 0
    for epoch in range(session.epoch, EPOCHS):
        for batch in session.batches(epoch):
            accelerator.backward(session.loss(model, batch))
            optimizer.step()
            optimizer.zero_grad()
            steps += 1
            if steps == save_at:
                accelerator.save_state(folder)
                return


@pytest.mark.parametrize("name", RESUMED)
def test_a_state_of_accelerate_goes_on_to_the_same_bits(name: str, tmp_path: Path) -> None:
    loop(net(), name, tmp_path, save_at=3 if name == "l2rw" else 10)
    torch.manual_seed(99)  # another process
    student = net()
    loop(student, name, tmp_path, resume=True)
    assert_same(student.state_dict(), trained(net(), RESUMED[name](), clip=None).student.state_dict())
