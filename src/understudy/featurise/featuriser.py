"""The fitted features: raw columns in, a student's input out, kept in a run as JSON and safetensors.

featuriser = Featuriser.fit(columns, Request(text="review"), where="pool.parquet")
featuriser.shape                         # of one row: what the student must take
x = featuriser(columns, where="pool.parquet")
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from safetensors import SafetensorError

from understudy.data.rows import Rows
from understudy.errors import UnderstudyError, first_line
from understudy.featurise.arrays import Arrays
from understudy.featurise.categories import Categories
from understudy.featurise.choose import fit_parts
from understudy.featurise.encoded import Encoded
from understudy.featurise.images import Images
from understudy.featurise.numbers import Numbers
from understudy.featurise.part import Part
from understudy.featurise.raw import Raw
from understudy.featurise.request import Request
from understudy.featurise.sparse import side_by_side
from understudy.featurise.tfidf import Tfidf
from understudy.store.arrow import Array
from understudy.store.files import read_json, write_bytes, write_json

VERSION = 1
VALUES_FILE, ARRAYS_FILE = "features.json", "features.safetensors"
PARTS: dict[str, type[Part]] = {part.kind: part for part in (Arrays, Numbers, Categories, Tfidf, Encoded, Images)}


class Featuriser:
    def __init__(self, parts: list[Part]) -> None:
        self.parts = parts

    @classmethod
    def fit(
        cls, columns: Mapping[str, Array], request: Request, *, where: str, folder: str | Path = "."
    ) -> "Featuriser":
        """Learn from the training rows what the features are. ``folder``: what paths of images are relative to."""
        return cls(fit_parts(Raw(columns, where, Path(folder)), request))

    @property
    def names(self) -> tuple[str, ...]:
        """The raw columns it needs."""
        return tuple(name for part in self.parts for name in part.names)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one row."""
        if len(self.parts) == 1:
            return self.parts[0].shape
        return (sum(int(np.prod(part.shape)) for part in self.parts),)

    def __call__(self, columns: Mapping[str, Array], *, where: str, folder: str | Path = ".") -> Array | Rows:
        raw = Raw(columns, where, Path(folder))
        return side_by_side([part(raw) for part in self.parts])

    def save(self, folder: str | Path) -> None:
        folder = Path(folder)
        parts = [{"kind": part.kind, **part.values()} for part in self.parts]
        arrays = {
            f"{number}.{name}": np.ascontiguousarray(array)
            for number, part in enumerate(self.parts)
            for name, array in part.arrays().items()
        }
        stored = safetensors.numpy.save(arrays) if arrays else b""
        if arrays:
            write_bytes(folder / ARRAYS_FILE, stored)
        else:
            (folder / ARRAYS_FILE).unlink(missing_ok=True)
        # The values are written last and vouch for both files.
        write_json(folder / VALUES_FILE, {"version": VERSION, "sha256": _checksum(parts, stored), "parts": parts})

    @classmethod
    def load(cls, folder: str | Path) -> "Featuriser":
        path, arrays_path = Path(folder) / VALUES_FILE, Path(folder) / ARRAYS_FILE
        said = read_json(path)
        if not isinstance(said, dict) or not isinstance(said.get("parts"), list):
            raise UnderstudyError(f"{path} does not describe features; restore it or train again")
        if said.get("version") != VERSION:
            raise UnderstudyError(
                f"{path} is of version {said.get('version')!r}, this is {VERSION}; use the release that wrote it"
            )
        try:
            stored = arrays_path.read_bytes() if arrays_path.exists() else b""
            if said.get("sha256") != _checksum(said["parts"], stored):
                raise ValueError("the checksum does not match")
            arrays = safetensors.numpy.load(stored) if stored else {}
            return cls([_restore(values, arrays, number) for number, values in enumerate(said["parts"])])
        except (OSError, KeyError, TypeError, ValueError, SafetensorError) as error:
            raise UnderstudyError(
                f"{path} or {arrays_path.name} is damaged: {first_line(error)}; restore them or train again"
            ) from error


def _restore(values: dict[str, Any], arrays: dict[str, Array], number: int) -> Part:
    own = {name.partition(".")[2]: array for name, array in arrays.items() if name.startswith(f"{number}.")}
    return PARTS[values["kind"]].restore(values, own)


def _checksum(parts: list[dict[str, Any]], stored: bytes) -> str:
    said = json.dumps(parts, sort_keys=True, ensure_ascii=True).encode()
    return hashlib.sha256(said + b"\0" + stored).hexdigest()
