"""Checkpoints: all that changes while a training runs, as named parts.

A part is anything with ``state_dict`` and ``load_state_dict``: student, optimizer, moving average, the session's
modules, random states and refined labels, and ``FitProgress``. What is *not* a part is made again from the arguments:
data, objective, schedule, the order of an epoch. With both, a resumed training is bit-identical.

    checkpoint/000012-1f3a9c….safetensors    the twelfth of this run; the newest two stay
    checkpoint/columns-9c0b2e….safetensors   what it refers to: columns are large and change rarely, so they are
                                             written when they do

A checkpoint is tensors and a little JSON, which travels as a tensor of bytes (``pack``). Its name is its checksum:
a file that does not match was torn or corrupted, and the one before it is used, with a warning.
"""

import hashlib
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from understudy.errors import UnderstudyError, warn
from understudy.objective import Columns, Objective
from understudy.store.console import Stopped, stop_requested
from understudy.store.files import read_named, write_bytes, write_named
from understudy.store.fingerprints import fingerprint
from understudy.store.settings import check_same
from understudy.training.distributed import current, is_first, on_rank_zero
from understudy.training.options import TrainingOptions
from understudy.training.run import METRICS, history_to_bytes, state_from_bytes, state_to_bytes
from understudy.training.session import Session

FOLDER = "checkpoint"
NEWEST = 2
_JSON = "state.json"
# Settings that are hashes, which would tell a user nothing.
_HASHED = dict.fromkeys(("gold", "pool", "test", "select"), "rows or labels") | {
    "student": "layers or sizes", "method": "its loss, parts or their code", "augment": "function or settings",
}  # fmt: skip


class OptimizerState:
    """``number of the parameter -> its state``; the groups' settings come from the arguments again."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self.optimizer = optimizer

    def state_dict(self) -> dict[str, dict[str, Tensor]]:
        return {
            str(number): {name: value for name, value in values.items() if isinstance(value, Tensor)}
            for number, values in self.optimizer.state_dict()["state"].items()
        }

    def load_state_dict(self, stored: Mapping[str, Mapping[str, Tensor]]) -> None:
        parameters = [parameter for group in self.optimizer.param_groups for parameter in group["params"]]
        state: dict[int, dict[str, Tensor]] = {int(number): dict(values) for number, values in stored.items()}
        for number, values in state.items():
            for name, value in values.items():
                if value.shape == parameters[number].shape and value.dim():
                    # With the parameter's own strides (channels_last): the fused kernels walk both in memory order.
                    own = torch.empty_like(parameters[number], dtype=value.dtype, requires_grad=False)
                    values[name] = own.copy_(value)
        self.optimizer.load_state_dict({"state": state, "param_groups": self.optimizer.state_dict()["param_groups"]})


def pack(state: Any) -> bytes:
    """Dicts and lists of tensors and plain values as safetensors: tensors by number, the rest as JSON."""
    tensors: dict[str, Tensor] = {}

    def numbered(leaf: Any) -> Any:
        if not isinstance(leaf, Tensor):
            return leaf
        name = f"tensor {len(tensors)}"
        tensors[name] = leaf
        return name

    text = bytearray(json.dumps(tree_map(numbered, state)).encode())
    return state_to_bytes({**tensors, _JSON: torch.frombuffer(text, dtype=torch.uint8)})


def unpack(content: bytes, path: Path) -> Any:
    """Undoes ``pack``; ``path``: of the file, for messages."""
    tensors = state_from_bytes(content, path)
    if _JSON not in tensors:
        raise UnderstudyError(f"{path} is no state of a session; resume from a checkpoint that has one")
    outline = json.loads(bytes(tensors.pop(_JSON).tolist()))
    return tree_map(lambda leaf: tensors.get(leaf, leaf) if isinstance(leaf, str) else leaf, outline)


class CheckpointFiles:
    """The files of a checkpoint folder: written whole, checked against their names, the old ones dropped."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._columns_in_use: list[str] = []
        self._damaged: list[Path] = []

    def write(self, state: dict[str, Any]) -> None:
        """The next one, then drop what none of the newest needs. ``state["columns"]``: from ``write_columns``."""
        serial = max((_serial(path) for path in self._files()), default=0) + 1
        write_named(self.folder / f"{serial:06d}-{{digest}}.safetensors", pack(state))
        self._columns_in_use = [*self._columns_in_use, state["columns"]][-NEWEST:]
        # One that is damaged must not take the place of one that could be needed.
        intact = [path for path in self._files() if path not in self._damaged]
        unused = set(self.folder.glob("columns-*.safetensors")) - {self.folder / name for name in self._columns_in_use}
        for old in (*self._damaged, *intact[:-NEWEST], *(unused if len(self._columns_in_use) == NEWEST else ())):
            old.unlink(missing_ok=True)

    def write_columns(self, columns: Mapping[str, Columns]) -> str:
        """Columns by net, beside the checkpoints; their file's name. The same columns are the same file."""
        return write_named(self.folder / "columns-{digest}.safetensors", pack(columns)).name

    def latest(self) -> tuple[dict[str, Any], dict[str, Columns]] | None:
        """State and columns of the newest one that is whole; None where none was ever written."""
        files = self._files()
        for path in reversed(files):
            current = path
            try:
                state = unpack(read_named(path), path)
                if not state["columns"]:
                    return state, {}
                current = self.folder / state["columns"]
                return state, unpack(read_named(current), current)
            except (OSError, ValueError):
                warn(f"{current} is damaged or missing; going back to the checkpoint before it")
                self._damaged.append(path)
        if files:
            raise UnderstudyError(f"no checkpoint in {self.folder} is intact; train again in a new folder")
        return None

    def _files(self) -> list[Path]:
        return sorted(self.folder.glob("[0-9]*-*.safetensors"), key=_serial)


def _serial(path: Path) -> int:
    return int(path.name.partition("-")[0])


class Checkpoints:
    """Writes the parts of a training as it goes, and brings them back.

    ``every``: how many batches apart they are wanted within an epoch. Of processes that train together the first reads
    and writes them; all of them call, because a part's state may be made of what each has.
    """

    def __init__(self, run: Path, settings: dict[str, Any], *, every: int | None = None) -> None:
        self.run, self.settings, self.every = run, settings, every
        self.processes = current()
        self.files = CheckpointFiles(run / FOLDER) if is_first() else None
        #: The columns' file, how often they had been prepared then, and the batch of the last checkpoint.
        self._columns, self._prepared, self._batch = "", 0, 0
        self._stored: tuple[dict[str, Any], dict[str, Columns]] | None = None

    def find(self) -> str | None:
        """Look for the latest; returns the phase it was taken in."""
        self._stored = on_rank_zero(lambda: None if self.files is None else self.files.latest())
        if self._stored is None:
            return None
        state, _ = self._stored
        check_same_training(state["settings"], self.settings, self.run)
        return str(state["progress"]["phase"])

    def restore(self, parts: Mapping[str, Any], session: Session) -> bool:
        """Bring every part to where the checkpoint left it; once, and False where there is none."""
        if self._stored is None:
            return False
        (state, session.columns_of_nets), self._stored = self._stored, None
        for name, part in parts.items():
            part.load_state_dict(state[name])
        session.facts.update(state["facts"])
        self._columns, self._prepared, self._batch = state["columns"], session.prepared, parts["progress"].batch
        return True

    def may_stop(self) -> None:
        """The last checkpoint is of this very moment."""
        if self._stops():
            raise Stopped

    def _stops(self) -> bool:
        """Whether to stop: several processes stop together, when all of them know of the request."""
        return stop_requested() if self.processes is None else self.processes.stopping

    def is_due(self, batches_done: int) -> bool:
        # Called after steps only, which several batches may share.
        return (self.every is not None and batches_done - self._batch >= self.every) or self._stops()

    def save(self, parts: Mapping[str, Any], session: Session) -> None:
        """Write the next checkpoint. ``session`` is the main phase's, whatever phase is under way."""
        progress, states = parts["progress"], {name: part.state_dict() for name, part in parts.items()}
        self._batch = progress.batch
        if self.files is None:
            return
        if not progress.batch:
            # Each epoch once, whatever was repeated.
            write_bytes(self.run / METRICS, history_to_bytes(progress.history))
        if session.prepared != self._prepared:
            columns = session.columns_of_nets
            self._columns = self.files.write_columns(columns) if any(columns.values()) else ""
            self._prepared = session.prepared
        self.files.write({**states, "settings": self.settings, "columns": self._columns, "facts": session.facts})


def drop_checkpoints(run: Path) -> None:
    """The run is finished and saved: nothing will be resumed."""
    shutil.rmtree(run / FOLDER, ignore_errors=True)


def resume_settings(
    options: TrainingOptions, objective: Objective, student: nn.Module, classes: int, rows: Mapping[str, Any]
) -> dict[str, Any]:
    """What must be the same for a training to go on: the arguments, and fingerprints of student and data."""
    of_slots = [(slot.name, name, value) for slot in objective.slots for name, value in vars(slot).items()]
    plain = [each for each in of_slots if isinstance(each[2], int | float | str | None)]
    slots = {f"{objective.name}.{slot}.{name}": value for slot, name, value in plain}
    shapes = [(name, list(value.shape)) for name, value in student.state_dict().items()]
    return {
        "objective": objective.name, "classes": classes, **options.settings(),
        "temperature": list(objective.temperatures), "refresh_every": objective.refresh_every, **slots,
        "method": fingerprint(objective),
        "student": hashlib.sha256(json.dumps(shapes).encode()).hexdigest()[:16],
        **{name: fingerprint(examples) for name, examples in rows.items()},
    }  # fmt: skip


def check_same_training(before: dict[str, Any], now: dict[str, Any], folder: Any) -> None:
    check_same(before, now, folder, hints=_HASHED)
