"""Kills trainings at steps drawn at random and resumes them. Run as a script: python kill_training.py FOLDER KILLS

Each training runs in a process that gets a real SIGKILL at a step of its own (``tests/kill_points.py``), so that it
makes no difference how busy the machine is. For each of four methods this goes on until KILLS of them have hit. Every
run must end with the bits of an undisturbed one, with every epoch in metrics.jsonl once; after every kill, whatever is
visible under its final name must be whole.
"""

import hashlib
import json
import random
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq
import torch
from safetensors.torch import load_file

import understudy as us

sys.path.insert(0, str(Path(__file__).parents[1]))
from kill_points import draw_kill, forked

EPOCHS = 4
METHODS: dict[str, Callable[[], us.Objective]] = {
    "vanilla": us.vanilla,
    "weighted": lambda: us.weighted(refresh_every=2),
    "slam": us.slam,
    "l2rw": us.l2rw,
}


def train(method: str, folder: Path) -> None:
    generator = torch.Generator().manual_seed(0)
    y = torch.randint(4, (400,), generator=generator)
    x = 2 * torch.eye(4, 6)[y] + torch.randn(400, 6, generator=generator)
    probs = (2 * torch.eye(4)[y] + torch.randn(400, 4, generator=generator)).softmax(-1)
    gold, pool = us.Gold(x[:100], y[:100], probs[:100]), us.Pool(x[100:], probs[100:], ids=range(300))
    us.train(
        lambda: us.models.mlp(6, 4, hidden=(32, 32)), gold, pool, METHODS[method](), epochs=EPOCHS, batch_size=32,
        lr=1e-2, select=gold, out=folder, checkpoint_every=3, resume=True, progress=False,
    )  # fmt: skip


def check_visible(folder: Path) -> None:
    """Everything under a final name is whole."""
    for path in folder.rglob("*"):
        if path.is_dir() or path.name.startswith("."):
            continue
        if path.parent.name == "checkpoint":
            # The end of a checkpoint's name is the checksum of what it holds.
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            assert digest.startswith(path.stem.rpartition("-")[2]), f"{path} is half written"
        elif path.suffix == ".safetensors":
            load_file(path)
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
    counts = forked(partial(train, method, undisturbed))
    assert counts is not None
    hits = runs = 0
    while hits < kills:
        out = folder / method / f"run-{runs}"
        finished = False
        while not finished:
            # What is left of a run may end before the step that was drawn from a whole one.
            kill = draw_kill(counts, hits, draw) if hits < kills else None
            finished = forked(partial(train, method, out), kill) is not None
            hits += not finished
            if out.exists():
                check_visible(out)
        check_same(out, undisturbed)
        runs += 1
    return hits, runs


def main(folder: Path, kills: int) -> None:
    torch.set_num_threads(1)
    for method in METHODS:
        train(method, folder / "warm-up" / method)  # the first training also loads a part of torch, once for all forks
    for number, method in enumerate(METHODS):
        hits, runs = torture(method, folder, kills, random.Random(number))
        print(f"{method}: {hits} kills over {runs} runs, every one ended with the same bits", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
