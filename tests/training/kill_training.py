"""Kills trainings at random moments and resumes them. Run as a script: python kill_training.py FOLDER KILLS

One process imports torch once; each training runs in a fork of it, which gets a real SIGKILL. For each of four methods
this goes on until KILLS of them have hit. Every run must end with the bits of an undisturbed one, with every epoch in
metrics.jsonl once; after every kill, whatever is visible under its final name must be whole.
"""

import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import torch

import understudy as us
from understudy.training.checkpoints import _is_whole
from understudy.training.run import read_state

EPOCHS = 6
METHODS: dict[str, Callable[[], us.Objective]] = {
    "vanilla": us.vanilla,
    "weighted": lambda: us.weighted(refresh_every=2),
    "slam": us.slam,
    "l2rw": us.l2rw,
}


def train(method: str, folder: Path) -> None:
    generator = torch.Generator().manual_seed(0)
    y = torch.randint(4, (600,), generator=generator)
    x = 2 * torch.eye(4, 6)[y] + torch.randn(600, 6, generator=generator)
    probs = (2 * torch.eye(4)[y] + torch.randn(600, 4, generator=generator)).softmax(-1)
    gold, pool = us.Gold(x[:100], y[:100], probs[:100]), us.Pool(x[100:], probs[100:], ids=range(500))
    us.train(
        lambda: us.models.mlp(6, 4, hidden=(32, 32)), gold, pool, METHODS[method](), epochs=EPOCHS, batch_size=32,
        lr=1e-2, select=gold, out=folder, checkpoint_every=3, resume=True, progress=False,
    )  # fmt: skip


def forked(method: str, folder: Path) -> int:
    child = os.fork()
    if child == 0:
        try:
            train(method, folder)
            os._exit(0)
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(1)
    return child


def check_visible(folder: Path) -> None:
    """Everything under a final name is whole."""
    for path in folder.rglob("*"):
        if path.is_dir() or path.name.startswith("."):
            continue
        if path.parent.name == "checkpoint":
            assert _is_whole(path), f"{path} is half written"
        elif path.suffix == ".safetensors":
            read_state(path)
        elif path.suffix == ".parquet":
            pq.read_table(path)
        elif path.suffix == ".jsonl":
            epochs = [json.loads(line)["epoch"] for line in path.read_text().splitlines()]
            assert epochs == list(range(1, len(epochs) + 1)), f"{path} holds epochs {epochs}"
        else:
            json.loads(path.read_text())


def check_same(folder: Path, undisturbed: Path) -> None:
    for name in ("student.safetensors", "selected.safetensors", "columns.parquet"):
        assert (folder / name).read_bytes() == (undisturbed / name).read_bytes(), f"{folder / name} differs"
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["epoch"] for line in lines] == list(range(1, EPOCHS + 1))


def torture(method: str, folder: Path, kills: int, draw: random.Random) -> tuple[int, int]:
    """How many kills hit, and how many runs they were spread over."""
    undisturbed = folder / method / "undisturbed"
    started = time.perf_counter()
    assert os.waitpid(forked(method, undisturbed), 0)[1] == 0
    whole = time.perf_counter() - started
    hits = runs = 0
    while hits < kills:
        out = folder / method / f"run-{runs}"
        while not (out / "config.json").exists():
            child = forked(method, out)
            if hits < kills:
                time.sleep(whole * draw.random())
                os.kill(child, signal.SIGKILL)
            status = os.waitpid(child, 0)[1]
            assert not os.WIFEXITED(status) or os.WEXITSTATUS(status) == 0, "a resumed training failed"
            hits += os.WIFSIGNALED(status)
            if out.exists():
                check_visible(out)
        check_same(out, undisturbed)
        runs += 1
    return hits, runs


def main(folder: Path, kills: int) -> None:
    torch.set_num_threads(1)
    for method in METHODS:
        train(method, folder / "warm-up" / method)  # the first training also loads a part of torch
    for number, method in enumerate(METHODS):
        hits, runs = torture(method, folder, kills, random.Random(number))
        print(f"{method}: {hits} kills over {runs} runs, every one ended with the same bits", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
