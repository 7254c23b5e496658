"""Checksums of the files of a folder, kept in one of them, so that damage is found before it is believed.

    write_json(folder / "config.json", sealed(config, {"student.safetensors": content}))
    check_seal(folder / "config.json", read_json(folder / "config.json"))

A flipped bit in a file of weights leaves a file of other weights: without a checksum nobody would know.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from understudy.errors import UnderstudyError

KEY = "sha256"


def sealed(content: Mapping[str, Any], files: Mapping[str, bytes]) -> dict[str, Any]:
    """A JSON object with the checksums of files beside it, and of itself under the empty name."""
    plain = {name: value for name, value in content.items() if name != KEY}
    return {**plain, KEY: {"": _sum(_text(plain)), **{name: _sum(stored) for name, stored in files.items()}}}


def check_seal(path: Path, content: Mapping[str, Any]) -> None:
    """Refuses what is not as it was written. What was written before there were checksums is believed."""
    said = content.get(KEY)
    if said is None:
        return
    if not isinstance(said, dict) or said.get("") != _sum(_text({k: v for k, v in content.items() if k != KEY})):
        raise UnderstudyError(f"{path} is not as it was written; restore it or train again")
    for name in filter(None, said):
        try:
            stored = (path.parent / name).read_bytes()
        except OSError as error:
            raise UnderstudyError(f"cannot read {path.parent / name}: {error.strerror}; restore it") from error
        if _sum(stored) != said[name]:
            raise UnderstudyError(f"{path.parent / name} is damaged (another checksum); restore it or train again")


def _text(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, sort_keys=True).encode()


def _sum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
