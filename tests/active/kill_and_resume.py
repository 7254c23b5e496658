"""Kills loops at random moments and continues them. Run as a script: python kill_and_resume.py FOLDER MOMENTS

One process imports torch once; each loop runs in a fork of it, which gets a real SIGKILL.
"""

import os
import random
import signal
import sys
import time
from pathlib import Path

import torch

import understudy as us
from understudy.active import Loop


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


def forked(folder: Path) -> int:
    child = os.fork()
    if child == 0:
        try:
            run(folder)
            os._exit(0)
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(1)
    return child


def main(folder: Path, moments: int) -> None:
    torch.set_num_threads(1)
    run(folder / "warm-up")  # the first training also loads a part of torch
    started = time.perf_counter()
    assert os.waitpid(forked(folder / "undisturbed"), 0)[1] == 0
    whole = time.perf_counter() - started
    draw = random.Random(0)
    killed = 0
    for moment in range(moments):
        out = folder / f"killed-{moment}"
        child = forked(out)
        time.sleep(whole * (moment + draw.random()) / moments)
        os.kill(child, signal.SIGKILL)
        killed += os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        assert os.waitpid(forked(out), 0)[1] == 0
    print(killed)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
