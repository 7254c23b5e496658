"""Checkpoints: all that changes while a training runs, as named parts.

A part is anything with ``state_dict`` and ``load_state_dict``: student, optimizer, moving average, the session's
modules, random states and refined labels, and ``FitProgress``. What is *not* a part is made again from the arguments:
data, objective, schedule, the order of an epoch. With both, a resumed training is bit-identical.

    checkpoint/000012-1f3a9c….safetensors    the twelfth of this run; the newest two stay
    checkpoint/columns-9c0b2e….safetensors   what it refers to: columns are large and change rarely, so they are
                                             written when they do

A checkpoint is tensors (``part.name``) and a little JSON, which travels as a tensor of bytes. Its name is its checksum:
a file that does not match was torn or corrupted, and the one before it is used, with a warning.
"""

import hashlib
import json
import shutil
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from understudy.errors import UnderstudyError, warn
from understudy.objective import Columns, Objective
from understudy.store.console import Stopped, deferred, stop_requested
from understudy.store.files import read_named, write_named
from understudy.store.settings import check_same, fingerprint
from understudy.training.distributed import current, is_first, on_rank_zero
from understudy.training.options import TrainingOptions
from understudy.training.run import nested, state_from_bytes, state_to_bytes, write_history
from understudy.training.session import Session

PHASES = ("pretrain", "train", "finetune")
FOLDER = "checkpoint"
NEWEST = 2
_JSON = "state.json"
# Settings that are hashes, which would tell a user nothing.
_HASHED = dict.fromkeys(("gold", "pool", "test", "select"), "rows or labels") | {
    "student": "layers or sizes", "method": "its loss, parts or their code", "augment": "function or settings",
}  # fmt: skip


@dataclass
class FitProgress:
    """Where a training stands."""

    phase: str = PHASES[0]
    #: Epochs of this phase that are finished.
    epoch: int = 0
    #: Batches of the epoch under way that are done.
    batch: int = 0
    #: Their summed loss.
    total: Tensor = field(default_factory=partial(torch.zeros, ()))
    history: list[dict[str, float]] = field(default_factory=list)
    selected_epoch: int = 0
    best: float = -1.0
    selected_state: dict[str, Tensor] | None = None

    def is_past(self, phase: str) -> bool:
        return PHASES.index(self.phase) > PHASES.index(phase)

    def enter(self, phase: str) -> None:
        if self.phase != phase:
            self.phase, self.epoch, self.batch = phase, 0, 0

    def state_dict(self) -> dict[str, Any]:
        state = {name: value for name, value in vars(self).items() if name != "selected_state"}
        return state | {f"selected.{name}": value for name, value in (self.selected_state or {}).items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        selected = {
            name.removeprefix("selected."): value for name, value in state.items() if name.startswith("selected.")
        }
        for name in state.keys() & vars(self).keys():
            setattr(self, name, state[name])
        self.selected_state = selected or None


class OptimizerState:
    """``number of the parameter.name`` -> its state; the groups' settings come from the arguments again."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self.optimizer = optimizer

    def state_dict(self) -> dict[str, Tensor]:
        return {
            f"{number}.{name}": value
            for number, values in self.optimizer.state_dict()["state"].items()
            for name, value in values.items()
            if isinstance(value, Tensor)
        }

    def load_state_dict(self, tensors: Mapping[str, Tensor]) -> None:
        parameters = [parameter for group in self.optimizer.param_groups for parameter in group["params"]]
        state: dict[int, dict[str, Tensor]] = {}
        for key, value in tensors.items():
            number, _, name = key.partition(".")
            parameter = parameters[int(number)]
            if value.shape == parameter.shape and value.dim():
                # With the parameter's own strides (channels_last): the fused kernels walk both in memory order.
                value = torch.empty_like(parameter, dtype=value.dtype, requires_grad=False).copy_(value)
            state.setdefault(int(number), {})[name] = value
        self.optimizer.load_state_dict({"state": state, "param_groups": self.optimizer.state_dict()["param_groups"]})


class CheckpointFiles:
    """The files of a checkpoint folder: written whole, checked against their names, the old ones dropped."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._columns_in_use: list[str] = []
        self._damaged: list[Path] = []

    def write(self, tensors: Mapping[str, Tensor], state: dict[str, Any]) -> None:
        """The next one, then drop what none of the newest needs. ``state["columns"]``: from ``write_columns``."""
        text = torch.frombuffer(bytearray(json.dumps(state).encode()), dtype=torch.uint8)
        serial = max((_serial(path) for path in self._files()), default=0) + 1
        write_named(self.folder / f"{serial:06d}-{{digest}}.safetensors", state_to_bytes({**tensors, _JSON: text}))
        self._columns_in_use = [*self._columns_in_use, state.get("columns", "")][-NEWEST:]
        # One that is damaged must not take the place of one that could be needed.
        intact = [path for path in self._files() if path not in self._damaged]
        for old in (*self._damaged, *intact[:-NEWEST]):
            old.unlink(missing_ok=True)
        if len(self._columns_in_use) == NEWEST:
            for path in self.folder.glob("columns-*.safetensors"):
                if path.name not in self._columns_in_use:
                    path.unlink(missing_ok=True)

    def write_columns(self, columns: Mapping[str, Tensor]) -> str:
        """Columns beside the checkpoints; their file's name. The same columns are the same file."""
        return write_named(self.folder / "columns-{digest}.safetensors", state_to_bytes(columns)).name

    def latest(self) -> tuple[dict[str, Tensor], dict[str, Any], Columns] | None:
        """Tensors, JSON and columns of the newest one that is whole; None where none was ever written."""
        files = self._files()
        for path in reversed(files):
            current = path
            try:
                tensors = state_from_bytes(read_named(path), path)
                state = json.loads(bytes(tensors.pop(_JSON).tolist()))
                columns: Columns = {}
                if state.get("columns"):
                    current = self.folder / state["columns"]
                    columns = state_from_bytes(read_named(current), current)
            except (OSError, ValueError):
                warn(f"{current} is damaged or missing; going back to the checkpoint before it")
                self._damaged.append(path)
                continue
            return tensors, state, columns
        if files:
            raise UnderstudyError(f"no checkpoint in {self.folder} is intact; train again in a new folder")
        return None

    def _files(self) -> list[Path]:
        return sorted(self.folder.glob("[0-9]*-*.safetensors"), key=_serial)


def _serial(path: Path) -> int:
    return int(path.name.partition("-")[0])


class Checkpoints:
    """Writes the parts of a training as it goes, and brings them back; without a folder every call does nothing.

    ``every``: how many batches apart they are wanted within an epoch. Of processes that train together the first reads
    and writes them; all of them call, because a part's state may be made of what each has.
    """

    def __init__(self, run: Path | None, settings: dict[str, Any], *, every: int | None = None) -> None:
        self.run, self.settings, self.every = run, settings, every
        self.processes = current()
        self.files = None if run is None or not is_first() else CheckpointFiles(run / FOLDER)
        #: The columns' file, how often they had been prepared then, and the batch of the last checkpoint.
        self._columns, self._prepared, self._batch = "", 0, 0
        self._stored: tuple[dict[str, Tensor], dict[str, Any], Columns] | None = None

    def find(self) -> str | None:
        """Look for the latest; returns the phase it was taken in."""
        self._stored = None if self.run is None else on_rank_zero(self._latest)
        if self._stored is None:
            return None
        phase: str = self._stored[1]["progress"]["phase"]
        return phase

    def _latest(self) -> tuple[dict[str, Tensor], dict[str, Any], Columns] | None:
        stored = None if self.files is None else self.files.latest()
        if stored is None:
            return None
        check_same_training(stored[1]["settings"], self.settings, self.run)
        return stored

    def restore(self, parts: Mapping[str, Any], session: Session) -> bool:
        """Bring every part to where the checkpoint left it; once, and False where there is none."""
        if self._stored is None:
            return False
        tensors, state, columns = self._stored
        self._stored = None
        tensors_of = nested(tensors)
        for name, part in parts.items():
            values = {**tensors_of.get(name, {}), **state.get(name, {})}
            if values:
                part.load_state_dict(values)
        session.columns = columns
        session.facts.update(state["facts"])
        self._columns, self._prepared, self._batch = state["columns"], session.prepared, parts["progress"].batch
        return True

    def kept(self) -> AbstractContextManager[None]:
        """In this block the process does not end on SIGTERM before ``may_stop``; without a folder it does."""
        return nullcontext() if self.run is None else deferred()

    def may_stop(self) -> None:
        """The last checkpoint is of this very moment."""
        if self.run is not None and self._stops():
            raise Stopped

    def _stops(self) -> bool:
        """Whether to stop: several processes stop together, when all of them know of the request."""
        return stop_requested() if self.processes is None else self.processes.stopping

    def is_due(self, batches_done: int) -> bool:
        # Called after steps only, which several batches may share.
        due = self.every is not None and batches_done - self._batch >= self.every
        return self.run is not None and (due or self._stops())

    def save(self, parts: Mapping[str, Any], session: Session) -> None:
        """Write the next checkpoint. ``session`` is the main phase's, whatever phase is under way."""
        if self.run is None:
            return
        progress: FitProgress = parts["progress"]
        self._batch = progress.batch
        states = {name: part.state_dict() for name, part in parts.items()}
        if self.files is None:
            return
        if not progress.batch:
            write_history(self.run, progress.history)
        if session.prepared != self._prepared:
            columns = session.columns
            self._columns = self.files.write_columns(columns) if columns else ""
            self._prepared = session.prepared
        tensors: dict[str, Tensor] = {}
        state: dict[str, Any] = {"settings": self.settings, "columns": self._columns, "facts": session.facts}
        for name, values in states.items():
            for key, value in values.items():
                if isinstance(value, Tensor):
                    tensors[f"{name}.{key}"] = value
                else:
                    state.setdefault(name, {})[key] = value
        self.files.write(tensors, state)


def drop_checkpoints(run: Path) -> None:
    """The run is finished and saved: nothing will be resumed."""
    shutil.rmtree(run / FOLDER, ignore_errors=True)


def resume_settings(
    options: TrainingOptions, objective: Objective, student: nn.Module, classes: int, rows: Mapping[str, Any]
) -> dict[str, Any]:
    """What must be the same for a training to go on: the arguments, and fingerprints of student and data."""
    slots = {
        f"{objective.name}.{slot.name}.{name}": value
        for slot in objective.slots()
        for name, value in vars(slot).items()
        if isinstance(value, int | float | str | None)
    }
    shapes = [(name, list(value.shape)) for name, value in student.state_dict().items()]
    return {
        "objective": objective.name,
        "classes": classes,
        **options.settings(),
        "temperature": list(objective.temperatures),
        "refresh_every": objective.refresh_every,
        **slots,
        "method": fingerprint(objective),
        "student": hashlib.sha256(json.dumps(shapes).encode()).hexdigest()[:16],
        **{name: fingerprint(examples) for name, examples in rows.items()},
    }


def check_same_training(before: dict[str, Any], now: dict[str, Any], folder: Any) -> None:
    check_same(before, now, folder, hints=_HASHED)
