"""The finished cells of a larger work, one JSON file each: what is done is not done again.

    jobs = Jobs(folder, ("method", "seed"), {"lr": 0.1})
    for key in jobs.missing([("slam", 0), ("slam", 1)]):
        jobs.write(key, {"accuracy": run(*key)})             # folder/slam-0.json
    jobs.read(("slam", 0))["accuracy"]

A cell says which it is, and with which settings it was made; one of another key or with others is refused, and one
that is not as it was written. Only the process that owns the work writes: a worker that outlives its parent must not
write into what has come since.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from understudy.errors import UnderstudyError
from understudy.store.checked_folder import read_checked, write_checked
from understudy.store.files import digest
from understudy.store.settings import check_same

Key = TypeVar("Key", bound=tuple[Any, ...])


class Jobs:
    """``names``: of a key's parts, as the cells hold them. ``settings``: stored in every cell, where they are given."""

    def __init__(self, folder: Path, names: Sequence[str] = (), settings: Mapping[str, Any] | None = None) -> None:
        self.folder, self.names, self.settings = folder, names, settings

    def file(self, key: tuple[Any, ...], suffix: str = ".json") -> Path:
        return self.folder / ("-".join(file_name(str(part)) for part in key) + suffix)

    def missing(self, keys: Iterable[Key]) -> list[Key]:
        """What is still to do."""
        return [key for key in keys if not self.file(key).exists()]

    def write(self, key: tuple[Any, ...], cell: Mapping[str, Any]) -> None:
        settings = {} if self.settings is None else {"settings": self.settings}
        write_checked(self.file(key), {**settings, **dict(zip(self.names, key, strict=False)), **cell})

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
