"""A comparison on disk, so that a finished cell is never run again.

settings.json             fingerprints of data, student, options and methods; a changed one is refused
cells/slam-0.json         one method under one seed
starts/0.safetensors      the student of a seed after pretraining, where there is any
comparison.json           the table, the recommendation
"""

import base64
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from understudy.comparison.outcome import Correct, Outcome
from understudy.errors import UnderstudyError
from understudy.store.files import read_json, write_bytes, write_json
from understudy.store.jobs import Jobs, file_name
from understudy.store.settings import check_same, fingerprint

FORMAT = 2


class CompareFolder:
    def __init__(self, path: Path) -> None:
        self.path, self.cells = path, Jobs(path / "cells", ("method", "seed"))

    @contextmanager
    def begun(self, settings: dict[str, Any], methods: Mapping[str, Any]) -> Iterator[None]:
        """Begin, or go on where the same things are compared; further methods may join."""
        self._open(settings, {name: fingerprint(method) for name, method in methods.items()})
        try:
            yield
        except Exception:
            self._forget_if_empty()
            raise

    def _open(self, settings: dict[str, Any], methods: dict[str, str]) -> None:
        file = self.path / "settings.json"
        if not file.exists():
            # A name that begins with a dot is a lock, or a file that a killed process did not finish.
            if self.path.is_file() or (self.path.is_dir() and any(self.path.glob("[!.]*"))):
                raise UnderstudyError(
                    f"out={str(self.path)!r} is not empty and holds no comparison; choose a new folder"
                )
            write_json(file, {"format": FORMAT, "settings": settings, "methods": methods})
            return
        stored = read_json(file, format=FORMAT)
        # A method that failed before its first cell may be corrected.
        begun = [name for name in methods if name in stored["methods"] and self._has_any(name)]
        check_same(
            {**stored["settings"], **{f"method {name}": stored["methods"][name] for name in begun}},
            {**settings, **{f"method {name}": methods[name] for name in begun}},
            self.path,
        )
        write_json(file, {**stored, "methods": stored["methods"] | methods})

    def _forget_if_empty(self) -> None:
        """What failed before its first cell may be begun again with other settings."""
        if any(self.cells.folder.glob("[!.]*")):
            return
        for part in (self.cells.folder, self.path / "starts"):
            shutil.rmtree(part, ignore_errors=True)
        (self.path / "settings.json").unlink(missing_ok=True)
        with suppress(OSError):  # others' files are there too
            self.path.rmdir()

    def has(self, method: str, seed: int) -> bool:
        return self.cells.file((method, seed)).exists()

    def _has_any(self, method: str) -> bool:
        return any(self.cells.folder.glob(f"{file_name(method)}-*"))

    def write(self, method: str, seed: int, outcome: Outcome, warnings: list[str]) -> None:
        self.cells.write((method, seed), {"warnings": warnings, **_to_json(outcome)})

    def read(self, method: str, seed: int) -> tuple[Outcome, list[str]]:
        cell = self.cells.read((method, seed))
        return _from_json(cell), cell["warnings"]

    def start_file(self, seed: int) -> Path:
        return self.path / "starts" / f"{seed}.safetensors"

    def write_start(self, seed: int, content: bytes) -> None:
        write_bytes(self.start_file(seed), content)


def _to_json(outcome: Outcome) -> dict[str, Any]:
    judged = outcome.judged
    return {
        "last": outcome.last,
        "selected": outcome.selected,
        "facts": outcome.facts,
        "history": outcome.history,
        "rows": None if judged is None else judged.rows.tolist(),
        "right": None if judged is None else base64.b64encode(np.packbits(judged.right).tobytes()).decode(),
    }


def _from_json(cell: dict[str, Any]) -> Outcome:
    judged = None
    if cell["rows"] is not None:
        bits = np.frombuffer(base64.b64decode(cell["right"]), dtype=np.uint8)
        judged = Correct(np.array(cell["rows"]), np.unpackbits(bits, count=len(cell["rows"])).astype(bool))
    return Outcome(cell["last"], cell["selected"], cell["history"], cell["facts"], judged)
