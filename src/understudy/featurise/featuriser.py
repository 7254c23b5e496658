"""The fitted features: raw columns in, a student's input out, kept in a run as JSON and safetensors.

featuriser = Featuriser.fit(columns, FeatureOptions(text="review"), where="pool.parquet")
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
import torch
from safetensors import SafetensorError
from scipy import sparse
from torch import Tensor

from understudy.data.rows import Rows
from understudy.errors import UnderstudyError, first_line
from understudy.featurise.choose import FeatureOptions, fit_parts
from understudy.featurise.encoder import Encoded
from understudy.featurise.images import Images
from understudy.featurise.part import Block, Part, RawColumns
from understudy.featurise.tabular import Arrays, Categories, Numbers
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
        cls, columns: Mapping[str, Array], options: FeatureOptions, *, where: str, folder: str | Path = "."
    ) -> "Featuriser":
        """Learn from the training rows what the features are. ``folder``: what paths of images are relative to."""
        return cls(fit_parts(RawColumns(columns, where, Path(folder)), options))

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
        raw = RawColumns(columns, where, Path(folder))
        return _side_by_side([part(raw) for part in self.parts])

    def save(self, folder: str | Path) -> None:
        folder = Path(folder)
        parts: list[dict[str, Any]] = []
        arrays: dict[str, Array] = {}
        for number, part in enumerate(self.parts):
            values, own = part.learned()
            parts.append({"kind": part.kind, **values})
            arrays |= {f"{number}.{name}": np.ascontiguousarray(array) for name, array in own.items()}
        content = safetensors.numpy.save(arrays) if arrays else b""
        if arrays:
            write_bytes(folder / ARRAYS_FILE, content)
        else:
            (folder / ARRAYS_FILE).unlink(missing_ok=True)
        # The values are written last and vouch for both files.
        write_json(folder / VALUES_FILE, {"version": VERSION, "sha256": _checksum(parts, content), "parts": parts})

    @classmethod
    def load(cls, folder: str | Path) -> "Featuriser":
        path, arrays_path = Path(folder) / VALUES_FILE, Path(folder) / ARRAYS_FILE
        stored = read_json(path)
        if not isinstance(stored, dict) or not isinstance(stored.get("parts"), list):
            raise UnderstudyError(f"{path} does not describe features; restore it or train again")
        if stored.get("version") != VERSION:
            raise UnderstudyError(
                f"{path} is of version {stored.get('version')!r}, this is {VERSION}; use the release that wrote it"
            )
        try:
            content = arrays_path.read_bytes() if arrays_path.exists() else b""
            if stored.get("sha256") != _checksum(stored["parts"], content):
                raise ValueError("the checksum does not match")
            arrays = safetensors.numpy.load(content) if content else {}
            return cls([_restore(values, arrays, number) for number, values in enumerate(stored["parts"])])
        except (OSError, KeyError, TypeError, ValueError, SafetensorError) as error:
            raise UnderstudyError(
                f"{path} or {arrays_path.name} is damaged: {first_line(error)}; restore them or train again"
            ) from error


def _restore(values: dict[str, Any], arrays: dict[str, Array], number: int) -> Part:
    own = {name.partition(".")[2]: array for name, array in arrays.items() if name.startswith(f"{number}.")}
    return PARTS[values["kind"]](**{name: value for name, value in values.items() if name != "kind"}, **own)


def _checksum(parts: list[dict[str, Any]], arrays: bytes) -> str:
    values = json.dumps(parts, sort_keys=True, ensure_ascii=True).encode()
    return hashlib.sha256(values + b"\0" + arrays).hexdigest()


class SparseRows(Rows):
    """Rows of a sparse matrix; a batch of them is dense.

    50,000 reviews × 20,000 terms are 4 GB as floats and 90 MB as the terms that occur; a dense batch of 128 is 10 MB.
    """

    def __init__(self, matrix: sparse.csr_matrix[Any]) -> None:
        self.matrix = matrix

    def __len__(self) -> int:
        return int(self.matrix.shape[0])

    def take(self, index: Tensor) -> Tensor:
        batch = self.matrix[index.cpu().numpy()].toarray()
        return torch.from_numpy(batch).to(torch.get_default_dtype())


def _side_by_side(blocks: list[Block]) -> Array | Rows:
    """One block as it is; several in their order, each row flat, sparse where one of them is."""
    if len(blocks) == 1:
        (block,) = blocks
        return SparseRows(block) if isinstance(block, sparse.csr_matrix) else block
    flat = [_flat(block) for block in blocks]
    if any(isinstance(block, sparse.csr_matrix) for block in flat):
        return SparseRows(sparse.csr_matrix(sparse.hstack(flat, format="csr", dtype=np.float32)))
    return np.concatenate(flat, axis=1)


def _flat(block: Block) -> Any:
    if isinstance(block, sparse.csr_matrix):
        return block
    assert isinstance(block, np.ndarray), "images stand alone"
    return block.reshape(len(block), -1).astype(np.float32, copy=False)
