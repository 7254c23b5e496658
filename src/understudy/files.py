"""Files that appear whole or not at all: written under a temporary name, synced, then renamed."""

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from understudy.errors import UnderstudyError


def write_bytes(path: Path, content: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(temporary, 0o644)
            os.replace(temporary, path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
        # The rename itself must survive a power cut.
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise UnderstudyError(f"cannot write {path}: {error.strerror}; check the folder and the free space") from error


def write_text(path: Path, content: str) -> None:
    write_bytes(path, content.encode())


def write_json(path: Path, content: Any) -> None:
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UnderstudyError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise UnderstudyError(f"{path} is not valid JSON: {error}") from error
