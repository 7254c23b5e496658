"""What an engine is: a setting that measures one column of a table under one seed, as cells.

A *sweep* is a frozen dataclass of plain numbers and names (data set, nets, epochs, grids), so that the paper's setting
and the reduced one are two values of one type that can be printed, compared and hashed:

    sweep.columns                               # ("7500", "10000", …)
    sweep.measure("7500", seed=0)               # [Cell("Vanilla", "7500", 0, 0.703, curve=…), …]

The rows of a column share a seed's split, teacher and initial student, so that differences are taken within seeds.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Protocol

import torch
from torch import nn

import experiments.nets  # noqa: F401  the names of the papers' nets
import understudy as us
from understudy.errors import UnderstudyError
from understudy.store.files import digest
from understudy.training.options import find_schedule

GOLD_ROWS = ("Gold only", "Clean only")
"""What a student learns from the trusted rows alone; every table whose setting has gold shows it."""
PLAIN_ROWS = ("Vanilla", "Unweighted", "Baseline", "Unweighted conventional")
"""What it learns from the imperfect labels as they are."""

AUGMENTS: dict[str, Callable[..., Any]] = {
    "flip": us.augment.flip,
    "shift": us.augment.shift,
    "pad_crop": us.augment.pad_crop,
    "crop_resize": us.augment.crop_resize,
}


@dataclass(frozen=True)
class Cell:
    row: str
    column: str
    seed: int
    value: float
    """A share: accuracy, error, ratio. Shown in percent."""
    curve: tuple[float, ...] = ()
    """The same on the test rows after every epoch, where it was followed."""
    selected: float | None = None
    """The same at the epoch that the select rows chose, where there are such."""
    facts: dict[str, float] = field(default_factory=dict, hash=False)
    """What the method found on the way: ``debias.mean_weight``, ``slam.mean_alpha``, …"""


class Sweep(Protocol):
    @property
    def data(self) -> str: ...

    @property
    def seeds(self) -> int: ...

    @property
    def columns(self) -> tuple[str, ...]: ...

    def measure(self, column: str, seed: int) -> list[Cell]: ...

    def check(self) -> None:
        """Resolve every name (data set, nets, methods, schedule) without running anything."""
        ...


@dataclass(frozen=True)
class Training:
    """How a net is trained, as numbers. ``steps`` replaces epochs where a paper counts steps."""

    epochs: int = 0
    steps: int = 0
    batch_size: int = 128
    lr: float = 1e-3
    optimizer: str = "adam"
    momentum: float = 0.9
    weight_decay: float = 0.0
    schedule: str | tuple[tuple[float, float], ...] = "constant"
    warmup_epochs: int = 0
    augment: tuple[str, ...] = ()

    def epochs_for(self, rows: int) -> int:
        return self.epochs or max(1, round(self.steps * self.batch_size / rows))

    def options(self, rows: int) -> dict[str, Any]:
        """Keyword arguments for ``us.train`` on this many rows."""
        epochs = self.epochs_for(rows)
        augments = [AUGMENTS[name] for name in self.augment]
        return {
            "epochs": epochs,
            "batch_size": self.batch_size,
            "lr": self.lr,
            "optimizer": self.optimizer,
            "momentum": self.momentum,
            "weight_decay": self.weight_decay,
            "schedule": self._schedule(epochs),
            "augment": us.augment.compose(*augments) if augments else None,
            "device": "cuda" if torch.cuda.is_available() else None,
            "progress": False,
            "refine": False,
        }

    def _schedule(self, epochs: int) -> Any:
        after = find_schedule(self.schedule)
        if not self.warmup_epochs:
            return after
        share = self.warmup_epochs / epochs
        # A step at progress 0 with factor 0 would be lost; half a percent of the rise is as good as 0.
        return lambda progress: after(progress) * max(0.005, min(1.0, progress / share))


def net(text: str, shape: Sequence[int], classes: int) -> Callable[[], nn.Module]:
    """A function that builds the net a setting names; "hf:…" is a Hugging Face classifier over token ids."""
    if text.startswith("hf:"):
        from experiments.engines.text import classifier

        return lambda: classifier(text.removeprefix("hf:"), classes)
    return lambda: us.models.from_text(text, shape=shape, classes=classes)


def known(names: Iterable[str], *wanted: str) -> None:
    """An error for the first name that is not among the known ones."""
    there = list(names)
    for name in wanted:
        if name not in there:
            raise UnderstudyError(f"there is no {name!r}; there are {', '.join(there)}")


def curve_of(run: us.Run) -> tuple[float, ...]:
    return tuple(round(record["test_accuracy"], 5) for record in run.history if "test_accuracy" in record)


def facts_of(run: us.Run) -> dict[str, float]:
    """What the slots found ("debias.mean_weight"); not how long it took, which no seed repeats."""
    shares = {
        f"{name.removesuffix('weight')}share_weight_1": float((values == 1).double().mean())
        for name, values in run.columns.items()
        if name.endswith(".weight")
    }
    return {name: round(value, 5) for name, value in (shares | run.facts).items() if "." in name}


def key(sweep: Any) -> str:
    """Names the folder of a setting's cells. More seeds of the same setting use the cells that are there."""
    content = json.dumps({type(sweep).__name__: asdict(replace(sweep, seeds=0))}, sort_keys=True)
    return f"{type(sweep).__name__.lower()}-{digest(content.encode())[:12]}"
