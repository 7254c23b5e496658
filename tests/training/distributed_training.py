"""Trainings by several processes beside those of one. Run as a script, from the project's folder:

    python -m tests.training.distributed_training methods           # every method by one process and by two, or named
    python -m tests.training.distributed_training kills FOLDER 10   # SIGKILLs, then resumed by two processes and by one
    python -m tests.training.distributed_training messages          # what a sum over two processes of a machine costs

Each process is a fork that joins a gloo group (``tests/together.py``). A student without random layers must end within
1e-6 of the weights of one process; what a method trains beside it, too.
"""

import json
import random
import shutil
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

import understudy as us
from understudy.training.processes import Processes

from ..kill_points import draw_kill
from ..three_blobs import CLASSES, FAST, world
from ..together import counted, together

TOLERANCE = 1e-6
KILLED: dict[str, Callable[[], us.Objective]] = {
    "weighted": lambda: us.weighted(refresh_every=2),
    "s_model": us.s_model,
    "co_teaching": lambda: us.co_teaching(forget_rate=0.4),
    "l2rw": us.l2rw,
}
EPOCHS = 4


class Net(nn.Module):
    """In float64 the order of a sum is not seen, and neither are decisions that hang on its last digit."""

    def __init__(self, kind: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.kind = kind
        self.layers = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, CLASSES)).to(kind)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.layers(x.to(self.kind))
        return y


def method_of(name: str, truth: Tensor) -> us.Objective:
    options: dict[str, dict[str, Any]] = {"oracle": {"truth": truth}, "weighted": {"refresh_every": 1}}
    return us.METHODS[name](**options.get(name, {}))


def train(name: str, kind: torch.dtype = torch.float32, **options: Any) -> dict[str, Tensor]:
    """The weights of the student and of what was trained beside it, and the losses of the epochs."""
    gold, pool, truth = world("soft")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", us.UnderstudyWarning)
        run = us.train(partial(Net, kind), gold, pool, method_of(name, truth), **FAST | options)
    beside = {f"{module}.{key}": value for module, state in run.module_states.items() for key, value in state.items()}
    losses = torch.tensor([record["loss"] for record in run.history])
    return run.student.state_dict() | beside | {"loss": losses} | run.columns


def distance(one: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    """The largest difference between weights: of per-row averages (``refined.*``) float32 has but six digits."""
    assert one.keys() == other.keys()
    weights = [name for name in one if "." in name and not name.startswith("refined.")]
    return max(float((one[name].double() - other[name].double()).abs().nan_to_num().max()) for name in weights)


def compare_methods(names: Sequence[str]) -> None:
    worst = 0.0
    for name in names:
        found = []
        for kind in (torch.float32, torch.float64):
            work = partial(train, name, kind)
            one, several = work(), together(work, 2)
            assert all(isinstance(each, dict) for each in several), several
            assert distance(*several) == 0, f"{name}: the processes differ"
            found.append(distance(one, several[0]))
        print(f"{name:20} float32 {found[0]:.1e}   float64 {found[1]:.1e}", flush=True)
        worst = max(worst, min(found))
    print(f"{len(names)} methods, two processes beside one: at most {worst:.1e}")
    assert worst <= TOLERANCE


def train_into(name: str, folder: Path) -> None:
    gold, pool, _ = world("soft")
    us.train(
        Net, gold, pool, KILLED[name](), **FAST | {"epochs": EPOCHS}, select=gold, out=folder, resume=True,
        checkpoint_every=2,
    )  # fmt: skip


def check_ends(folder: Path, undisturbed: Path, *, same_bits: bool) -> float:
    files = ("student.safetensors", "selected.safetensors")
    if same_bits:
        assert all((folder / name).read_bytes() == (undisturbed / name).read_bytes() for name in files), folder
    pairs = [(load_file(folder / name), load_file(undisturbed / name)) for name in files[:1]]
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["epoch"] for line in lines] == list(range(1, EPOCHS + 1)), lines
    found = max(float((one[name] - other[name]).abs().max()) for one, other in pairs for name in one)
    assert found <= TOLERANCE, f"{folder}: {found}"
    return found


def kill(name: str, folder: Path, kills: int, draw: random.Random) -> float:
    """Kill one of two processes, ``kills`` times; go on with two, and, from a copy, with one."""
    warnings.simplefilter("ignore", us.UnderstudyWarning)
    undisturbed, worst = folder / name / "undisturbed", 0.0
    counts = counted(partial(train_into, name, undisturbed), 2)
    for number in range(kills):
        killed, rank = folder / name / f"killed-{number}", draw.randrange(2)
        where = draw_kill(counts[rank], number, draw)
        ended = together(partial(train_into, name, killed), 2, kill={rank: where})
        assert ended[rank] is None, f"process {rank} was to die at {where}"
        # A process that had nothing more to ask of the other may have ended well.
        other = ended[1 - rank]
        assert other is None or "another process of this training has ended" in str(other), other
        alone = folder / name / f"alone-{number}"
        if killed.exists():
            shutil.copytree(killed, alone)
        assert together(partial(train_into, name, killed), 2) == [None, None]
        train_into(name, alone)
        found = [check_ends(killed, undisturbed, same_bits=True), check_ends(alone, undisturbed, same_bits=False)]
        worst = max(worst, *found)
    return worst


def time_sums() -> dict[int, float]:
    """Milliseconds by the number of float32 entries."""
    processes, found = Processes(), {}
    for entries, repeats in ((1_000, 200), (100_000, 200), (1_000_000, 20), (10_000_000, 5)):
        values = torch.ones(entries)
        processes.sum([values])
        clock = time.perf_counter()
        for _ in range(repeats):
            processes.sum([values])
        found[entries] = 1000 * (time.perf_counter() - clock) / repeats
    return found


def main(what: str, *rest: str) -> None:
    torch.set_num_threads(1)
    if what == "messages":
        for entries, milliseconds in together(time_sums, 2)[0].items():
            print(f"{entries:>12,} numbers summed over two processes: {milliseconds:.2f} ms")
        return
    if what == "methods":
        compare_methods(rest or list(us.METHODS))
        return
    folder, kills = Path(rest[0]), int(rest[1])
    for number, name in enumerate(rest[2:] or KILLED):
        worst = kill(name, folder, kills, random.Random(number))
        print(f"{name}: {kills} kills, resumed by two processes and by one: at most {worst:.1e}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
