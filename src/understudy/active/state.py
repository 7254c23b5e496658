"""What a loop has done so far, on disk: one JSON file, replaced whole after every step.

    out/state.json          settings, every row ever asked with its answer, the batch under way, one record per round
    out/labelled.csv        row, id, label, round, chosen: all answers so far, for people and for training
    out/round-003/          the student of the last finished round: a run directory, and ema.safetensors beside it

A round is *select*, *label*, *train*. The state names the step that comes next; each step can be repeated from it with
the same result, so a loop killed at any moment continues as if nothing had happened.
"""

import shutil
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from understudy.active.oracle import write_columns
from understudy.data.examples import Gold
from understudy.store.files import read_json, write_json
from understudy.store.settings import as_json, check_same, fingerprint
from understudy.training.recipe import Recipe, known
from understudy.training.run import Run

FORMAT = 1
# A loop may be continued with other values of these.
EXTENDABLE = ("budget", "stop_after", "stop_change")

Next = Literal["select", "label", "train"]


@dataclass
class State:
    settings: dict[str, Any]
    round: int = 0
    """The round under way; 0 is the random start."""
    step: Next = "select"
    batch: list[int] = field(default_factory=list)
    """Rows of the round under way that wait for answers."""
    notes: dict[str, Any] = field(default_factory=dict)
    """What is known of the batch: scores, reasons, the noise watch."""
    rows: list[int] = field(default_factory=list)
    """Every row ever asked, in order."""
    labels: list[int] = field(default_factory=list)
    """The answers; −1 where skipped."""
    rounds: list[int] = field(default_factory=list)
    """The round of each."""
    records: list[dict[str, Any]] = field(default_factory=list)
    """One per finished round."""

    @classmethod
    def open(cls, folder: Path, settings: dict[str, Any]) -> "State":
        """The state in the folder if there is one (it must be of the same loop), else a new one."""
        path = folder / "state.json"
        if not path.exists():
            return cls(settings)
        stored = read_json(path, format=FORMAT)
        del stored["format"]
        check_same(stored["settings"], settings, folder, free=EXTENDABLE)
        return cls(**stored | {"settings": settings})

    def save(self, folder: Path) -> None:
        write_json(folder / "state.json", {"format": FORMAT, **asdict(self)})

    def answered(self) -> tuple[Tensor, Tensor, Tensor]:
        """Rows with a label, their labels, and whether they were chosen (not drawn at random as the start)."""
        labels = torch.tensor(self.labels, dtype=torch.long)
        known = labels >= 0
        rows, rounds = (torch.tensor(values, dtype=torch.long) for values in (self.rows, self.rounds))
        return rows[known], labels[known], rounds[known] > 0

    def write_labelled(self, path: Path, ids: np.ndarray[Any, Any] | None) -> None:
        rows, labels, chosen = self.answered()
        columns: dict[str, list[Any]] = {} if ids is None else {"id": ids[rows.numpy()].tolist()}
        rounds = [number for number, label in zip(self.rounds, self.labels, strict=True) if label >= 0]
        columns |= {"row": rows.tolist(), "label": labels.tolist(), "round": rounds, "chosen": chosen.int().tolist()}
        write_columns(path, columns)


# Written for every loop; any other option of a recipe only where it is not the default, so that older loops go on. The
# feature layer stands beside them.
_ALWAYS = {
    "epochs", "batch_size", "lr", "optimizer", "weight_decay", "momentum", "schedule", "clip", "augment", "device",
}  # fmt: skip


def training_settings(recipe: Recipe) -> dict[str, Any]:
    """What a loop's trainings are told, as JSON gives it back; functions by name and fingerprint."""
    options = {}
    for each in fields(recipe):
        value = getattr(recipe, each.name)
        differs = value != each.default and not known(each).may_differ and each.name != "feature_layer"
        if each.name in _ALWAYS or differs:
            options[each.name] = value

    def named(value: Any) -> str:
        name = getattr(value, "__qualname__", type(value).__name__)
        return str(value) if isinstance(value, torch.device) else f"{name} {fingerprint(value)}"

    return as_json(options, named)


@dataclass(frozen=True)
class Result:
    """What a loop gives back: where it stands."""

    stopped: str
    """budget, stable (predictions no longer change), exhausted (no row is left to ask) or waiting (for answers)."""
    message: str
    """The same in words."""
    records: list[dict[str, Any]]
    """One per round: labels so far, metrics on the test rows, the noise watch, the share of changed predictions."""
    rows: Tensor
    """Every row asked, in order."""
    labels: Tensor
    """The answers; −1 where skipped."""
    rounds: Tensor
    """The round of each; 0 is the random start."""
    gold: Gold | None
    """All labelled rows; those a strategy picked are marked as chosen."""
    run: Run | None
    """The last round's training."""


def round_folder(folder: Path, number: int) -> Path:
    return folder / f"round-{number:03}"


def drop_rounds_before(folder: Path, number: int) -> None:
    """Only the last finished round's student is kept."""
    for old in folder.glob("round-*"):
        if old.is_dir() and old.name < f"round-{number:03}":
            shutil.rmtree(old)
