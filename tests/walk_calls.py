"""Calls whose way through the files is counted (``docs/architecture.md``, "How far a call travels").

python tests/walk_calls.py train FOLDER           # us.train(out=FOLDER), SLaM, one batch, with select rows
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

import understudy as us


@contextmanager
def unprofiled() -> Iterator[None]:
    """A profile does not see what is done in this block."""
    profile = sys.getprofile()
    sys.setprofile(None)
    try:
        yield
    finally:
        sys.setprofile(profile)


def train(folder: Path) -> us.Run:
    """One epoch of one batch on 12 gold and 40 pool rows, saved."""
    with unprofiled():
        draw = torch.Generator().manual_seed(0)
        x, y = torch.randn(72, 4, generator=draw), torch.arange(72) % 3
        probs = torch.rand(72, 3, generator=draw) + 2 * torch.nn.functional.one_hot(y, 3)
        probs = probs / probs.sum(1, keepdim=True)
        gold, pool = us.Gold(x[:12], y[:12], probs[:12]), us.Pool(x[12:52], probs[12:52])
        select, student, method = us.Gold(x[52:], y[52:]), us.models.mlp(4, 3, hidden=(8,)), us.slam()
    return us.train(student, gold, pool, method, select=select, epochs=1, out=folder, progress=False)


if __name__ == "__main__":
    {"train": train}[sys.argv[1]](Path(sys.argv[2]))
