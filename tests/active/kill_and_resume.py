"""Kills loops at steps drawn at random and continues them. Run as a script: python kill_and_resume.py FOLDER MOMENTS

Each loop runs in a process that gets a real SIGKILL at a step of its own (``tests/kill_points.py``), so that every one
hits, however busy the machine is.
"""

import random
import sys
from functools import partial
from pathlib import Path

import torch

import understudy as us
from understudy.active import Loop

sys.path.insert(0, str(Path(__file__).parents[1]))
from kill_points import draw_kill, forked


def run(folder: Path) -> None:
    generator = torch.Generator().manual_seed(0)
    y = torch.randint(4, (300,), generator=generator)
    x = 2 * torch.eye(4, 6)[y] + torch.randn(300, 6, generator=generator)
    student = us.models.mlp(6, 4, hidden=(16,))
    for parameter in student.parameters():
        torch.nn.init.normal_(parameter, std=0.3, generator=generator)

    def oracle(rows: torch.Tensor) -> list[int]:
        return [-1 if row % 7 == 0 else int(y[row]) for row in rows.tolist()]

    Loop(
        student, x, oracle, "s_badge", out=folder, start=20, batch=10, budget=60, epochs=5, batch_size=16, lr=1e-2,
        warm_start=True, test=(x[:100], y[:100]), progress=False,
    ).run()  # fmt: skip


def main(folder: Path, moments: int) -> None:
    torch.set_num_threads(1)
    run(folder / "warm-up")  # the first training also loads a part of torch, once for all forks
    counts = forked(partial(run, folder / "undisturbed"))
    assert counts is not None
    draw = random.Random(0)
    for moment in range(moments):
        out = folder / f"killed-{moment}"
        kill = draw_kill(counts, moment, draw)
        assert forked(partial(run, out), kill) is None, f"never came to {kill}"
        assert forked(partial(run, out)) is not None
        print(f"killed-{moment}:", *kill, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
