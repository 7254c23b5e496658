"""A comparison on disk, so that a finished cell is never run again.

settings.json             fingerprints of data, student, options and methods; a changed one is refused
cells/slam-0.json         one method under one seed
starts/0.safetensors      the student of a seed after pretraining, where there is any
comparison.json           the table, the recommendation
"""

import base64
import hashlib
import re
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from understudy.comparison.outcome import Correct, Outcome
from understudy.errors import UnderstudyError
from understudy.store.files import read_json, write_bytes, write_json

FORMAT = 2


class CompareFolder:
    def __init__(self, path: Path) -> None:
        self.path = path

    def open(self, settings: dict[str, Any], methods: dict[str, str]) -> None:
        """Begin, or go on where the same things are compared; further methods may join."""
        file = self.path / "settings.json"
        if not file.exists():
            # A name that begins with a dot is a lock, or a file that a killed process did not finish.
            if self.path.is_file() or (self.path.is_dir() and any(self.path.glob("[!.]*"))):
                raise UnderstudyError(
                    f"out={str(self.path)!r} is not empty and holds no comparison; choose a new folder"
                )
            write_json(file, {"format": FORMAT, "settings": settings, "methods": methods})
            return
        known = read_json(file)
        if not isinstance(known, dict) or known.get("format") != FORMAT:
            raise UnderstudyError(f"{file} is of another version of understudy; choose a new folder")
        before = known["settings"]
        changed = [name for name in {**before, **settings} if before.get(name) != settings.get(name)]
        other = [name for name, value in methods.items() if known["methods"].get(name, value) != value]
        changed += [f"method {name}" for name in other if self._has_any(name)]
        if changed:
            raise UnderstudyError(
                f"{self.path} was begun with another {', '.join(changed)}; repeat the former settings to go on, or "
                "choose a new folder"
            )
        write_json(file, {**known, "methods": known["methods"] | methods})

    def forget_if_empty(self) -> None:
        """What failed before its first cell may be begun again with other settings."""
        if any((self.path / "cells").glob("[!.]*")):
            return
        for part in ("cells", "starts"):
            shutil.rmtree(self.path / part, ignore_errors=True)
        (self.path / "settings.json").unlink(missing_ok=True)
        with suppress(OSError):  # others' files are there too
            self.path.rmdir()

    def cell_file(self, method: str, seed: int) -> Path:
        return self.path / "cells" / f"{_plain(method)}-{seed}.json"

    def has(self, method: str, seed: int) -> bool:
        return self.cell_file(method, seed).exists()

    def _has_any(self, method: str) -> bool:
        """A method that failed before its first cell may be corrected."""
        return any((self.path / "cells").glob(f"{_plain(method)}-*"))

    def write(self, method: str, seed: int, outcome: Outcome, warnings: list[str]) -> None:
        cell = {"method": method, "seed": seed, "warnings": warnings, **_to_json(outcome)}
        write_json(self.cell_file(method, seed), cell)

    def read(self, method: str, seed: int) -> tuple[Outcome, list[str]]:
        file = self.cell_file(method, seed)
        cell = read_json(file)
        if not isinstance(cell, dict) or (cell.get("method"), cell.get("seed")) != (method, seed):
            raise UnderstudyError(f"{file} is not the cell of {method}, seed {seed}; remove it to run it again")
        return _from_json(cell), cell["warnings"]

    def start_file(self, seed: int) -> Path:
        return self.path / "starts" / f"{seed}.safetensors"

    def write_start(self, seed: int, content: bytes) -> None:
        write_bytes(self.start_file(seed), content)


def _plain(method: str) -> str:
    """A method's name as a file name; where signs are replaced, a hash keeps two names apart."""
    plain = re.sub(r"[^A-Za-z0-9_=.]", "_", method)
    return plain if plain == method else f"{plain}.{hashlib.sha256(method.encode()).hexdigest()[:8]}"


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
