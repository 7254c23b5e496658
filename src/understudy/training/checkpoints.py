"""Checkpoints on disk: one file each, whole or absent, with its checksum in its name.

    checkpoint/000012-1f3a9c….safetensors    the twelfth of this run; the newest two are kept
    checkpoint/columns-9c0b2e….safetensors   what it refers to: columns are large and change rarely, so they are
                                             written when they do

A checkpoint is tensors and a little JSON (``state``), which travels as a tensor of bytes. A file that does not match
its name was torn or corrupted: the one before it is used, with a warning.

    checkpoints = Checkpoints(run_folder / "checkpoint")
    checkpoints.save({"student.weight": w}, {"epoch": 3})
    tensors, state = checkpoints.latest()
"""

import hashlib
import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from understudy.errors import UnderstudyError, UnderstudyWarning
from understudy.store.files import write_bytes
from understudy.training.run import read_state, state_to_bytes

KEPT = 2
_STATE = "state.json"


class Checkpoints:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._columns_in_use: list[str] = []
        self._damaged: list[Path] = []

    def save(self, tensors: Mapping[str, Tensor], state: dict[str, Any]) -> None:
        """Write the next checkpoint, then drop what no kept one needs. ``state["columns"]``: from ``keep_columns``."""
        text = torch.frombuffer(bytearray(json.dumps(state).encode()), dtype=torch.uint8)
        content = state_to_bytes({**tensors, _STATE: text})
        serial = max((_serial(path) for path in self._files()), default=0) + 1
        write_bytes(self.folder / f"{serial:06d}-{_digest(content)}.safetensors", content)
        self._columns_in_use = [*self._columns_in_use, state.get("columns", "")][-KEPT:]
        # One that is damaged must not take the place of one that could be needed.
        whole = [path for path in self._files() if path not in self._damaged]
        for old in (*self._damaged, *whole[:-KEPT]):
            old.unlink(missing_ok=True)
        if len(self._columns_in_use) == KEPT:
            for path in self.folder.glob("columns-*.safetensors"):
                if path.name not in self._columns_in_use:
                    path.unlink(missing_ok=True)

    def keep_columns(self, columns: Mapping[str, Tensor]) -> str:
        """Write columns beside the checkpoints, once for as long as they stay the same; returns their name."""
        content = state_to_bytes(columns)
        name = f"columns-{_digest(content)}.safetensors"
        if not _is_whole(self.folder / name):
            write_bytes(self.folder / name, content)
        return name

    def columns(self, name: str) -> dict[str, Tensor]:
        return read_state(self.folder / name)

    def latest(self) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """The newest checkpoint that is whole, with its columns whole too; None where none was ever written."""
        found = self._files()
        for path in reversed(found):
            if not _is_whole(path):
                _warn(path)
                self._damaged.append(path)
                continue
            tensors = read_state(path)
            state = json.loads(bytes(tensors.pop(_STATE).tolist()))
            columns = self.folder / state["columns"] if state.get("columns") else None
            if columns is not None and not _is_whole(columns):
                _warn(columns)
                self._damaged.append(path)
                continue
            return tensors, state
        if found:
            raise UnderstudyError(f"no checkpoint in {self.folder} is whole; train again in a new folder")
        return None

    def _files(self) -> list[Path]:
        return sorted(self.folder.glob("[0-9]*-*.safetensors"), key=_serial)


def _serial(path: Path) -> int:
    return int(path.name.partition("-")[0])


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]


def _is_whole(path: Path) -> bool:
    try:
        return _digest(path.read_bytes()) == path.stem.rpartition("-")[2]
    except OSError:
        return False


def _warn(path: Path) -> None:
    warnings.warn(
        f"{path} is damaged or missing; going back to the checkpoint before it", UnderstudyWarning, stacklevel=4
    )
