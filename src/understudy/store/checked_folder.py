"""A checked folder: files, and a JSON manifest with their checksums and its own, which is written last.

    RUN = FolderKind("run", "config.json")
    RUN.write(folder, config, {"student.safetensors": content})
    config = RUN.read(folder)                       # raises where a file was damaged, deleted, replaced or edited
    for path, problem in RUN.verify(folder): ...    # every file that counts, without raising

Checksums detect accidents and careless edits, not forgery: a process that can write to the folder can write new ones.
Every manifest is of format 1; any other is refused.
"""

import hashlib
import json
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from understudy.errors import UnderstudyError
from understudy.store.files import digest, read_json, write_json

FORMAT = 1
FILES, CHECKSUM = "sha256", "manifest_sha256"
NO_FILES: Mapping[str, bytes] = {}
Manifest = dict[str, Any]


class Finding(NamedTuple):
    path: Path
    #: None: the file is unchanged.
    problem: str | None


def write_checked(
    path: Path,
    content: Mapping[str, Any],
    files: Mapping[str, bytes] = NO_FILES,
    *,
    checksums: Mapping[str, str] | None = None,
) -> None:
    """Write ``content`` with the checksums of ``files`` in its folder, and of itself.

    ``checksums``: by name, of files whose content is not at hand.
    """
    listed = dict(checksums or {name: digest(stored) for name, stored in files.items()})
    manifest = {"format": FORMAT, **content, **({FILES: listed} if listed else {})}
    write_json(path, {**manifest, CHECKSUM: _json_digest(manifest)})


def read_checked(path: Path, *, cure: str = "restore it") -> Manifest:
    """The content that was written, if it and all files that it lists are unchanged."""
    manifest = _read_manifest(path, cure)
    for found, problem in _check_manifest(path, manifest):
        if problem is not None:
            raise UnderstudyError(f"{found} {problem}; {cure}")
    return {name: value for name, value in manifest.items() if name not in ("format", FILES, CHECKSUM)}


def verify_checked(path: Path) -> list[Finding]:
    """The manifest, then every file that it lists; no file of a manifest that has changed is opened."""
    try:
        return list(_check_manifest(path, _read_manifest(path, "restore it")))
    except UnderstudyError as error:
        return [Finding(path, f"cannot be read ({error})")]


def listed_files(path: Path) -> set[str]:
    """The names of the files that a manifest lists."""
    return set(read_json(path).get(FILES, {}))


@dataclass(frozen=True)
class FolderKind:
    """What a kind of checked folder is called, its manifest, and what counts beside the files listed there."""

    name: str
    manifest: str
    #: Checks more of a folder whose manifest is unchanged.
    also: Callable[[Path, Manifest], Iterable[Finding]] = lambda folder, manifest: ()
    cure: str = "restore it"

    def write(
        self,
        folder: Path,
        content: Mapping[str, Any],
        files: Mapping[str, bytes] = NO_FILES,
        *,
        checksums: Mapping[str, str] | None = None,
    ) -> None:
        write_checked(folder / self.manifest, {"kind": self.name, **content}, files, checksums=checksums)

    def read(self, folder: Path) -> Manifest:
        content = read_checked(folder / self.manifest, cure=self.cure)
        if content.pop("kind", None) != self.name:
            raise UnderstudyError(f"{folder / self.manifest} is not the manifest of a {self.name}; {self.cure}")
        return content

    def matches(self, folder: Path) -> bool:
        """Whether the folder's manifest names this kind."""
        try:
            manifest = read_json(folder / self.manifest)
        except UnderstudyError:
            return False
        return isinstance(manifest, dict) and manifest.get("kind") == self.name

    def verify(self, folder: Path) -> list[Finding]:
        path = folder / self.manifest
        findings = verify_checked(path)
        if findings[0].problem is None:
            if not self.matches(folder):
                return [Finding(path, f"is not the manifest of a {self.name}")]
            findings += self.also(folder, read_json(path))
        return findings


def _read_manifest(path: Path, cure: str) -> Manifest:
    manifest = read_json(path)
    if not isinstance(manifest, dict):
        raise UnderstudyError(f"{path} holds no JSON object; {cure}")
    if (stored := manifest.get("format")) != FORMAT:
        raise UnderstudyError(f"{path} is of format {stored}, this version reads {FORMAT}; choose a new folder")
    return manifest


def _check_manifest(path: Path, manifest: Manifest) -> Iterator[Finding]:
    files = manifest.get(FILES, {})
    if CHECKSUM not in manifest:
        yield Finding(path, "has no checksum")
        return
    rest = {name: value for name, value in manifest.items() if name != CHECKSUM}
    unchanged = manifest[CHECKSUM] == _json_digest(rest) and isinstance(files, dict)
    yield Finding(path, None if unchanged else "is not as it was written")
    for name in files if unchanged else ():
        yield Finding(path.parent / name, _problem(path.parent, name, files[name]))


def _problem(folder: Path, name: str, expected: Any) -> str | None:
    """What is wrong with a listed file. Only plain files inside the folder are opened."""
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
    """Of the content as a reader of the file gets it: keys that were numbers are text, and sorted as such."""
    return digest(json.dumps(json.loads(json.dumps(content)), sort_keys=True).encode())
