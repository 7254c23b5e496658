"""A checked folder: files, and a JSON manifest with their checksums and its own, which is written last.

    RUN = FolderKind("run", "config.json")
    RUN.write(folder, config, {"student.safetensors": content})
    config = RUN.read(folder)                       # raises where a file was damaged, deleted, replaced or edited
    for path, problem in RUN.verify(folder): ...    # every file that counts, without raising

Checksums detect accidents and careless edits, not forgery: a process that can write to the folder can write new ones.
Every manifest is of format 1; any other is refused.

The finished cells of a larger work are one JSON file each: what is done is not done again.

    jobs = Jobs(folder, ("method", "seed"), {"lr": 0.1})
    for key in jobs.missing([("slam", 0), ("slam", 1)]):
        jobs.write(key, {"accuracy": run(*key)})             # folder/slam-0.json
    jobs.read(("slam", 0))["accuracy"]

A cell says which it is, and with which settings it was made; one of another key or with others is refused, and one
that is not as it was written. Only the process that owns the work writes: a worker that outlives its parent must not
write into what has come since.
"""

import hashlib
import json
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, TypeVar

from understudy.errors import UnderstudyError
from understudy.store.files import digest, read_json, write_json
from understudy.store.settings import check_same

FORMAT = 1
FILES, CHECKSUM = "sha256", "manifest_sha256"
#: By name, their content, or its checksum where it is not at hand.
Files = Mapping[str, bytes | str]
NO_FILES: Files = {}
Manifest = dict[str, Any]
Key = TypeVar("Key", bound=tuple[Any, ...])


class Finding(NamedTuple):
    path: Path
    #: None: the file is unchanged. A cure of its own stands after a semicolon.
    problem: str | None


def write_checked(path: Path, content: Mapping[str, Any], files: Files = NO_FILES) -> None:
    """Write ``content`` with the checksums of ``files`` in its folder, and of itself."""
    listed = {name: stored if isinstance(stored, str) else digest(stored) for name, stored in files.items()}
    manifest = {"format": FORMAT, **content, **({FILES: listed} if listed else {})}
    write_json(path, {**manifest, CHECKSUM: _json_digest(manifest)})


def read_checked(
    path: Path, *, cure: str = "restore it", also: Callable[[Path, Manifest], Iterable[Finding]] | None = None
) -> Manifest:
    """The content that was written, if it and all files that it lists are unchanged; ``also``: and what this finds."""
    manifest = _read_manifest(path, cure)
    for found, problem in chain(_check_manifest(path, manifest), () if also is None else also(path.parent, manifest)):
        if problem is not None:
            raise UnderstudyError(f"{found} {problem}" if "; " in problem else f"{found} {problem}; {cure}")
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

    def write(self, folder: Path, content: Mapping[str, Any], files: Files = NO_FILES) -> None:
        write_checked(folder / self.manifest, {"kind": self.name, **content}, files)

    def read(self, folder: Path, *, check_all: bool = False) -> Manifest:
        """Its content; ``check_all``: what counts beside the listed files is checked as well."""
        content = read_checked(folder / self.manifest, cure=self.cure, also=self.also if check_all else None)
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


class Jobs:
    """``names``: of a key's parts, as the cells hold them. ``settings``: stored in every cell, where they are given."""

    def __init__(self, folder: Path, names: Sequence[str] = (), settings: Mapping[str, Any] | None = None) -> None:
        self.folder, self.names, self.settings = folder, names, settings

    def file(self, key: tuple[Any, ...], suffix: str = ".json") -> Path:
        return self.folder / ("-".join(file_name(str(part)) for part in key) + suffix)

    def missing(self, keys: Iterable[Key]) -> list[Key]:
        """What is still to do."""
        return [key for key in keys if not self.file(key).exists()]

    def write(self, key: tuple[Any, ...], cell: Mapping[str, Any], files: Files = NO_FILES) -> None:
        """``files``: beside the cell, whose checksums it holds."""
        settings = {} if self.settings is None else {"settings": self.settings}
        write_checked(self.file(key), {**settings, **dict(zip(self.names, key, strict=False)), **cell}, files)

    def read(self, key: tuple[Any, ...]) -> dict[str, Any]:
        """The cell, with its key and without the settings, which are checked."""
        file = self.file(key)
        cell = read_checked(file, cure="remove it to run it again")
        if any(cell.get(name) != part for name, part in zip(self.names, key, strict=False)):
            named = ", ".join(f"{name} {part}" for name, part in zip(self.names, key, strict=False))
            raise UnderstudyError(f"{file} is not the cell of {named}; remove it to run it again")
        settings = cell.pop("settings", {})
        if self.settings is not None:
            check_same(settings, self.settings, file)
        return cell


def file_name(text: str) -> str:
    """A name as a part of a file's name; where signs are replaced, a hash keeps two names apart."""
    plain = re.sub(r"[^A-Za-z0-9_=.]", "_", text)
    return plain if plain == text else f"{plain}.{digest(text.encode())[:8]}"
