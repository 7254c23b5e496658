"""Seals: the checksums of a folder's files, and of itself, in one JSON file that is written last.

What was damaged, deleted, exchanged or edited since does not fit any more, and is refused:

    write_json(folder / "config.json", sealed(config, {"student.safetensors": content}))
    config = read_sealed(folder / "config.json", format=2)
    for path, problem in inspect_seal(folder / "config.json", config): ...     # the same without an error

A seal finds accidents and careless edits, not a forger: whoever can write to the folder can write a new one.
"""

import hashlib
import json
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from understudy.errors import UnderstudyError
from understudy.store.files import digest, read_json

FILES, SEAL = "sha256", "seal"
NO_FILES: Mapping[str, bytes] = {}


class Finding(NamedTuple):
    path: Path
    problem: str | None
    """What is wrong with it; None: nothing."""


def sealed(
    content: Mapping[str, Any], files: Mapping[str, bytes] = NO_FILES, *, digests: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """A JSON object with the checksums of files of its folder, and of all of this. ``digests``: where whoever wrote
    the files told them."""
    digests = digests or {name: digest(stored) for name, stored in files.items()}
    whole = unsealed(content) | ({FILES: dict(digests)} if digests else {})
    return {**whole, SEAL: _json_digest(whole)}


def unsealed(content: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in content.items() if name not in (FILES, SEAL)}


def read_sealed(path: Path, *, format: int | None = None, cure: str = "restore it") -> dict[str, Any]:
    """An object and its seal, if all that it names is as it was."""
    content = read_json(path, format=format)
    if not isinstance(content, dict):
        raise UnderstudyError(f"{path} holds no JSON object; {cure}")
    for found, problem in inspect_seal(path, content):
        if problem is not None:
            raise UnderstudyError(f"{found} {problem}; {cure}")
    return content


def inspect_seal(path: Path, content: Mapping[str, Any]) -> Iterator[Finding]:
    """The file itself, then every file that it names; nothing is looked up in a seal that is broken."""
    files = content.get(FILES, {})
    if SEAL not in content:
        yield Finding(path, "has no checksum")
        return
    whole = {name: value for name, value in content.items() if name != SEAL}
    intact = content[SEAL] == _json_digest(whole) and isinstance(files, dict)
    yield Finding(path, None if intact else "is not as it was written")
    for name in files if intact else ():
        yield Finding(path.parent / name, _problem(path.parent, name, files[name]))


def inspect_json(path: Path) -> Iterator[Finding]:
    """A sealed file that may be no JSON at all, and the files it names."""
    try:
        content = read_json(path)
    except UnderstudyError as error:
        yield Finding(path, f"cannot be read ({error})")
        return
    if isinstance(content, dict):
        yield from inspect_seal(path, content)
    else:
        yield Finding(path, "holds no JSON object")


def _problem(folder: Path, name: str, expected: Any) -> str | None:
    """What is wrong with a file that a seal names. Only plain files of the folder are opened."""
    parts = PurePosixPath(name).parts
    if name.startswith("/") or ".." in parts or not parts or set(name) & set("\\:\0"):
        return "leads out of the folder"
    path, mode = folder, 0
    try:
        for part in parts:
            path = path / part
            mode = os.lstat(path).st_mode
            if stat.S_ISLNK(mode):
                return "is a link; put the file itself there"
        if not stat.S_ISREG(mode):
            return "is no plain file"
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    return None if found == expected else "is damaged (another checksum)"


def _json_digest(content: Mapping[str, Any]) -> str:
    """Of what a reader of the file gets: keys that were numbers are texts, and sorted as such."""
    return digest(json.dumps(json.loads(json.dumps(content)), sort_keys=True).encode())
